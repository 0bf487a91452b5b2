"""Several brokers that look like one: what nodes tell each other, without a socket and without a broker.

`core.Cluster` takes events and the time and answers with effects. It keeps the links and the members; what
goes beyond them (interest, claims, groups, retained messages) is a `parts.Part` that is added to it.
"""
