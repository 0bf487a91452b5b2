"""The one door by which a publication enters, whoever made it: it is retained, routed, and answered with a reason.

Clients publish here, and so do wills, the operator, the broker itself under $SYS, and whoever else will. What
differs is whether somebody can be told that it is refused: where nobody can, as much is done as possible.
"""

from braidmq.broker.counters cimport DROP_RETAINED_FULL, DROP_STORE_FAILING
from braidmq.broker.hub cimport Hub
from braidmq.broker.receiver cimport Outcome, new_outcome
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
        if message.retain and not self.keep(message) and can_be_told:
            self.hub.drop_message(DROP_RETAINED_FULL, message, None)
            outcome = refusal(QUOTA_EXCEEDED if self.hub.limits.retained_messages_max else RETAIN_NOT_SUPPORTED)
            outcome.lacks_retained_room = True
            return outcome
        outcome = self.router.route(message)
        if outcome.is_refused:
            outcome.reason = QUOTA_EXCEEDED
        elif not outcome.is_matched:
            outcome.reason = NO_MATCHING_SUBSCRIBERS
        return outcome

    cdef bint keep(self, Message message) except -1:
        """Retain it; False if there is no room. What the broker itself says counts towards no limit."""
        if message.publisher is None and message.topic.startswith(OWN_PREFIX):
            self.retained.keep_own(message)
            return True
        return self.retained.keep(message)


cdef Outcome refusal(int reason):
    """Nobody gets the message, for that reason."""
    cdef Outcome outcome = new_outcome()
    outcome.is_refused = True
    outcome.reason = reason
    return outcome
