"""The one door by which a publication enters, whoever made it: it is retained, routed, and answered with a reason.

Clients publish here, and so do wills, the operator, the broker itself under $SYS, and whoever else will. What
differs is whether somebody can be told that it is refused: where nobody can, as much is done as possible.

What another node sends comes in by `take_from_peer`, and never goes to a third one. In a cluster every node retains
the same: a retained message goes to all of them, whether somebody there subscribes to it or not.
"""

from braidmq.broker.counters cimport DROP_RETAINED_FULL, DROP_STORE_FAILING
from braidmq.broker.hub cimport Hub
from braidmq.broker.peer_frames cimport ROUTE_GROUPS, ROUTE_HEAD_BYTES, ROUTE_PLAIN
from braidmq.broker.receiver cimport Outcome, Target, new_outcome
from braidmq.broker.router cimport Router
from braidmq.messages.message cimport Message

cdef enum:
    SUCCESS = 0
    NO_MATCHING_SUBSCRIBERS = 0x10
    QUOTA_EXCEEDED = 0x97
    RETAIN_NOT_SUPPORTED = 0x9A

cdef bytes OWN_PREFIX = b"$SYS/"


cdef class Publishing:
    def __init__(self, Hub hub not None, Router router not None, retained not None):
        self.hub = hub
        self.router = router
        self.retained = retained

    def publish(self, Message message not None):
        """For somebody who waits for the answer: the outcome has it as `reason`."""
        return self.take(message, True)

    def publish_anyway(self, Message message not None):
        """For a message that nobody can take back: what of it can't be kept isn't, and the rest happens."""
        return self.take(message, False)

    cdef Outcome take(self, Message message, bint can_be_told):
        cdef Outcome outcome
        if message.qos and can_be_told and self.hub.promises.is_failing():
            self.hub.drop_message(DROP_STORE_FAILING, message, None)
            return refusal(QUOTA_EXCEEDED)
        if message.retain and self.remote is not None and not is_own(message):
            message.stamp_clock, message.stamp_node = self.remote.stamp()
        if message.retain and not self.keep(message) and can_be_told:
            self.hub.drop_message(DROP_RETAINED_FULL, message, None)
            outcome = refusal(QUOTA_EXCEEDED if self.hub.limits.retained_messages_max else RETAIN_NOT_SUPPORTED)
            outcome.lacks_retained_room = True
            return outcome
        outcome = self.router.route(message)
        if message.stamp_clock:
            self.tell_everybody(message, outcome)
        if outcome.is_refused:
            outcome.reason = QUOTA_EXCEEDED
        elif not outcome.is_matched:
            outcome.reason = NO_MATCHING_SUBSCRIBERS
        return outcome

    cdef bint keep(self, Message message) except -1:
        """Retain it; False if there is no room. What the broker itself says counts towards no limit."""
        if is_own(message):
            self.retained.keep_own(message)
            return True
        return self.retained.keep(message)

    cdef int tell_everybody(self, Message message, Outcome outcome) except -1:
        """Let those peers retain the message that haven't got it by a subscription."""
        cdef Target target
        wanting = [] if outcome.is_refused else [
            (<Target>found).receiver for found in self.router.find(message.topic).peers]
        for target in self.remote.everybody():
            if target.receiver not in wanting:
                target.receiver.deliver(message, target, outcome)
        return 0

    cpdef Outcome take_from_peer(self, Message message, bytes route, object stamp, unsigned long long origin):
        """Take what the node `origin` has published: retain it if it is stamped, give it to whom `route` says."""
        cdef Outcome outcome = new_outcome()
        message.origin = origin
        if stamp is not None:
            message.stamp = stamp
            self.retained.keep_from_peer(message)
        if route[0] & ROUTE_PLAIN:
            self.router.deliver_plain(message, outcome)
        if route[0] & ROUTE_GROUPS:
            for number in groups_of(route):
                self.router.shared_groups.deliver_to(number, message, route[1])
        return outcome


def groups_of(bytes route not None):
    """The numbers of the shared groups that a route names, of which it is known that they are there."""
    cdef Py_ssize_t end = len(route)
    cdef Py_ssize_t begin = ROUTE_HEAD_BYTES
    while route[begin] & 0x80:    # how many there are, which the length says as well
        begin += 1
    return [int.from_bytes(route[at:at + 8], "little") for at in range(begin + 1, end, 8)]


cdef bint is_own(Message message) except -1:
    """Whether the broker says it itself, of itself."""
    return message.publisher is None and message.topic.startswith(OWN_PREFIX)


cdef Outcome refusal(int reason):
    """Nobody gets the message, for that reason."""
    cdef Outcome outcome = new_outcome()
    outcome.is_refused = True
    outcome.reason = reason
    return outcome
