"""Shared groups: of all members of `$share/NAME/FILTER`, one gets each message.

The way of a message. The router finds a `GroupReceiver` among the receivers of a topic, and gives it the
message. It asks its `SharedGroup`, which is pure: events in, effects out. The group asks its `Policy` who
gets it; the answer is a `Delivery` to be sent, or that the message waits. The receiver carries the effects
out: a `Member` sends what it was given, and the store is told what waits. The acknowledgement is noted on the
`Agenda` by the session, and worked off when the session is done: the group hears of it, and gives the member
more.

    group           SharedGroup: what waits, what is with whom, and what becomes of it
    queue           what waits: in lanes, and behind them
    holders         who has messages of which key; for policies that keep an order
    readers         who may not read what
    effects         what a group asks for
    settings        how a group deals with what it can't deliver at once
    member          Member: what is measured of it, how it is asked for room and sends; Place: what it is in
                    one group; Delivery: the one record of a message that is with a member
    policies/       who of a group gets a message
    pages           what of it waits on disk
    receiver        GroupReceiver: a SharedGroup in the running broker; SessionMember: a session as a member
    agenda          Agenda: what sessions have to tell groups
    registry        GroupRegistry: all groups of a broker, made as they are configured
    status_reports  what clients say of themselves as members
    state           what is known of a group, as values for operators

The simulator (`sim/balance`) runs the same SharedGroup with members of its own.

In a cluster one node has a group, whose members may be anywhere:

    far_members     RemoteMember: a client of another node as a member; FarMembers: all of them
    far_group       what happens to a SharedGroup only then
    far_events      what the nodes tell each other of members and deliveries
    proxy           GroupProxy: a group that another node has, for the members of this one
    placement       what the groups of a broker ask of the cluster
    full            a group of another node that can take no more
"""
