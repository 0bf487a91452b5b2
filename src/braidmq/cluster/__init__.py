"""Several brokers that look like one: what nodes tell each other, without a socket and without a broker.

`core.Cluster` takes events and the time and answers with effects. It keeps the links and the members; what
goes beyond them (interest, claims, groups, retained messages) is a `parts.Part` that is added to it.

A link begins with a `handshake`; `greeting` says who is let in and what it is told, `goodbyes` why somebody
is not, `links` which of two stays. `members` knows what has become of whom: `beating` tells that a node is
there, `finding` and `dialling` look for those that aren't linked.
"""
