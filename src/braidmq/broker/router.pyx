"""Who gets a message: subscriptions by filter, and a cache of the answer by topic.

A topic's answer is a Fanout. Topics matched by the same filters share one Fanout object, so that the fast
lane can forward frames of different topics together; it lives as long as one of them is in the cache.
Invariant: a cached Fanout is what a fresh search of the trie would give. A change to a filter with wildcards
empties the cache (it may concern any topic); a change to a plain one removes that one topic. Emptying costs no
more than filling did. Cost: a dict lookup per message; a search of the trie for a topic not in the cache.

A listener is told when a filter gets its first ordinary subscription, and when it loses its last one.

In a cluster a fan-out has the peers that want the topic, too: whoever is told of other nodes' wishes (`remote`) is
asked on a miss, and calls `forget_routes` when they have changed. Messages that came from a peer go to sessions
here, and to the groups that the peer has named; never to peers.
"""

from weakref import WeakValueDictionary

from braidmq.broker.sharing.agenda cimport SharedReceiver
from braidmq.broker.counters cimport DROP_QUEUE_FULL
from braidmq.broker.hub cimport Hub
from braidmq.messages.message cimport Message
from braidmq.broker.receiver cimport Outcome, Target, new_outcome
from braidmq.broker.session cimport Session
from braidmq.topics.trie cimport FilterTrie
from braidmq.wire.scan cimport SUBSCRIPTION_IDENTIFIER, write_varint

cdef tuple OWN_PREFIXES = (b"$SYS/", b"$load/")

cdef enum:
    MOST_QOS = 2
    CACHED_TOPIC_BYTES = 256    # of one topic, if all that may be are cached


cdef bytes identifier_property(int identifier):
    """The subscription identifier as an encoded MQTT 5 property; nothing for 0."""
    cdef unsigned char encoded[5]
    if not identifier:
        return b""
    encoded[0] = SUBSCRIPTION_IDENTIFIER
    return (<char*>encoded)[:1 + write_varint(encoded + 1, <unsigned int>identifier)]


cdef class Subscription:
    """What one session asked for with one filter."""

    def __init__(self, Session session not None, bytes filter not None, str group=None, int qos=0,
                 bint no_local=False, bint retain_as_published=False, int retain_handling=0, int identifier=0):
        self.session = session
        self.filter = filter
        self.group = group
        self.qos = qos
        self.no_local = no_local
        self.retain_as_published = retain_as_published
        self.retain_handling = retain_handling
        self.identifier = identifier

    def target(self, group=None):
        """This subscription alone, as a target of deliveries."""
        return Target(self.session, self.qos, self.retain_as_published, identifier_property(self.identifier), group,
                      self.session.client_id if self.no_local else None)


cdef class FilterEntry:
    """All subscriptions with one filter."""

    def __init__(self, bytes filter not None):
        self.filter = filter
        self.subscriptions = {}
        self.groups = None


cdef class Fanout:
    """Everybody who gets a copy of a message on a topic."""

    def __init__(self, list plain not None, list groups not None, list peers not None):
        self.plain = plain
        self.targets = plain + groups if groups else plain
        self.peers = peers


cdef Target merged_target(Session session, list subscriptions):
    """Overlapping subscriptions of one session as one target: one copy, the highest QoS, all identifiers."""
    cdef Subscription subscription
    cdef int qos = 0
    cdef bint retain_as_published = False
    cdef bytes identifiers = b""
    for subscription in subscriptions:
        qos = max(qos, subscription.qos)  # [MQTT-3.3.4-2]
        retain_as_published = retain_as_published or subscription.retain_as_published
        identifiers += identifier_property(subscription.identifier)  # [MQTT-3.3.4-4]
    remote = [subscription for subscription in subscriptions if not (<Subscription>subscription).no_local]
    if len(remote) == len(subscriptions):
        return Target(session, qos, retain_as_published, identifiers)
    own = merged_target(session, remote) if remote else None
    return Target(session, qos, retain_as_published, identifiers, None, session.client_id, own)


cdef class Router:
    """`shared_groups` makes the groups of shared subscriptions, and knows them all."""

    def __init__(self, Hub hub not None, shared_groups):
        self.hub = hub
        self.shared_groups = shared_groups
        self.trie = FilterTrie()
        self.routes = {}
        self.fanouts = WeakValueDictionary()
        self.cache_max = hub.limits.route_cache_max

    @property
    def shared_subscriptions(self):
        """How many subscriptions to shared groups there are."""
        return self.shared_groups.subscriptions

    # ---- subscriptions -------------------------------------------------------------------------------

    def subscribe(self, Subscription subscription not None):
        """Add a subscription, or replace the one of the same session, filter and group."""
        cdef FilterEntry entry
        if subscription.group is not None:
            self.hub.agenda.settle()    # or the group that is found would be gone before it is joined
        entry = self.trie.get(subscription.filter)
        if entry is None:
            entry = FilterEntry(subscription.filter)
            self.trie.set(subscription.filter, entry)
        if subscription.group is None:
            if not entry.subscriptions and self.listener is not None:
                self.listener.appeared(entry.filter)
            entry.subscriptions[subscription.session] = subscription
        else:
            if entry.groups is None:
                entry.groups = {}
            group = entry.groups.get(subscription.group)
            if group is None:
                group = entry.groups[subscription.group] = self.shared_groups.make(
                    subscription.group, subscription.filter)
            group.join(subscription.target(group))
        self._changed(entry)

    def unsubscribe(self, Subscription subscription not None):
        """Remove a subscription."""
        cdef FilterEntry entry = self.trie.get(subscription.filter)
        if entry is None:
            return
        if subscription.group is None:
            was_there = entry.subscriptions.pop(subscription.session, None) is not None
            if was_there and not entry.subscriptions and self.listener is not None:
                self.listener.vanished(entry.filter)
        elif entry.groups is not None and subscription.group in entry.groups:
            entry.groups[subscription.group].leave(subscription.session)
        self._changed(entry)

    def forget_group(self, SharedReceiver group not None):
        """The group has no members, and nothing is under way in it."""
        cdef FilterEntry entry = self.trie.get(group.filter)
        del entry.groups[group.name]
        self._changed(entry)

    def replace_group(self, SharedReceiver group not None):
        """It takes the place of another one of its name and filter."""
        cdef FilterEntry entry = self.trie.get(group.filter)
        entry.groups[group.name] = group
        self._changed(entry)

    def listen(self, listener):
        """Tell `listener` which filters have ordinary subscriptions: those there are now, and every change."""
        self.listener = listener
        for filter, entry in self.trie.items():
            if (<FilterEntry>entry).subscriptions:
                listener.appeared(filter)

    def _changed(self, FilterEntry entry):
        if not entry.subscriptions and not entry.groups and self.trie.get(entry.filter) is entry:
            self.trie.pop(entry.filter)
        self.last_revision += 1
        entry.revision = self.last_revision
        if b"+" in entry.filter or b"#" in entry.filter:
            self.forget_routes()
        else:
            self.routes.pop(entry.filter, None)

    def restrict(self, may_read):
        """Ask `may_read(session, topic)` before a session gets a topic's messages; None: nobody is asked."""
        self.may_read = may_read
        self.shared_groups.restrict(may_read)
        self.forget_routes()

    def forget_routes(self):
        """Search again for every topic: who wants it may have changed."""
        self.routes.clear()
        self.fanouts.clear()
        self.cached_bytes = 0

    # ---- routes --------------------------------------------------------------------------------------

    cdef Fanout find(self, bytes topic):
        """Everybody who gets messages on `topic`, which must be a valid topic name."""
        cdef Fanout fanout = self.routes.get(topic)
        if fanout is None:
            fanout = self._search(topic)
            if len(self.routes) >= self.cache_max or self.cached_bytes >= self.cache_max * CACHED_TOPIC_BYTES:
                self.forget_routes()
            self.cached_bytes += len(topic)
            self.routes[topic] = fanout
        return fanout

    def _search(self, bytes topic):
        cdef FilterEntry entry
        cdef list entries = []
        self.trie.match_into(topic, len(topic), entries)
        peers = self._hops(topic)
        if self.may_read is not None:
            return self._restricted(self._fanout(entries, peers), topic)
        key = tuple([(<FilterEntry>entry).revision for entry in entries])
        if peers:
            key = (key, peers)
        fanout = self.fanouts.get(key)
        if fanout is None:
            fanout = self.fanouts[key] = self._fanout(entries, peers)
        return fanout

    def _hops(self, bytes topic):
        """The peers that want the topic. What a node says of itself, or is told by its clients, is its own."""
        if self.remote is None or topic.startswith(OWN_PREFIXES):
            return ()
        return self.remote.hops(topic)

    def _fanout(self, list entries, tuple peers):
        cdef FilterEntry entry
        by_session = {}
        groups = []
        for entry in entries:
            for session, subscription in entry.subscriptions.items():
                by_session.setdefault(session, []).append(subscription)
            if entry.groups is not None:
                groups.extend([Target(group, MOST_QOS) for group in entry.groups.values() if group.has_members])
        return Fanout([merged_target(session, found) for session, found in by_session.items()], groups, list(peers))

    def _restricted(self, Fanout fanout, bytes topic):
        """Those of a fan-out who may read `topic`. It holds for this topic alone."""
        readers = [target for target in fanout.targets if (<Target>target).receiver.may_get(topic, self.may_read)]
        plain = [target for target in readers if isinstance((<Target>target).receiver, Session)]
        return Fanout(plain, readers[len(plain):], fanout.peers)

    # ---- messages ------------------------------------------------------------------------------------

    cdef Outcome route(self, Message message):
        """Deliver to everybody. QoS 2 goes to all or, if one would have it refused, to none."""
        cdef Fanout fanout = self.find(message.topic)
        cdef Outcome outcome = new_outcome()
        if message.qos == 2 and not self.can_keep(fanout, message):
            self.hub.drop_message(DROP_QUEUE_FULL, message, None)
            outcome.is_matched = outcome.is_refused = True
        else:
            self.deliver_all(fanout, message, outcome)
        return outcome

    cdef int deliver_all(self, Fanout fanout, Message message, Outcome outcome) except -1:
        cdef Target target
        for target in fanout.targets:
            target = target.towards(message.publisher)
            if target is not None:
                outcome.is_matched = True
                target.receiver.deliver(message, target, outcome)
        for target in fanout.peers:
            outcome.is_matched = True
            target.receiver.deliver(message, target, outcome)
        return 0

    cdef int deliver_plain(self, Message message, Outcome outcome) except -1:
        """Deliver what a peer has sent to the sessions here that want it. Who lacks room for it does without."""
        cdef Target target
        for target in self.find(message.topic).plain:
            target = target.towards(message.publisher)
            if target is not None:
                outcome.is_matched = True
                target.receiver.deliver(message, target, outcome)
        return 0

    cdef bint can_keep(self, Fanout fanout, Message message) except -1:
        """Whether nobody would have the message refused."""
        cdef Target target
        cdef Py_ssize_t cost = message.cost()
        for target in fanout.targets:
            target = target.towards(message.publisher)
            if target is not None and target.qos and target.receiver.is_full(cost):
                return False
        for target in fanout.peers:
            if target.receiver.is_full(cost):
                return False
        return True

    def matches(self, bytes topic not None):
        """The sessions that ordinary subscriptions would give a message on `topic` to."""
        receivers = [(<Target>target).receiver for target in self.find(topic).targets]
        return [receiver for receiver in receivers if isinstance(receiver, Session)]
