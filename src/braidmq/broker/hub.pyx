"""What all connections and sessions of one broker share on the hot path: time, limits, counters, the turn.

A turn is what the broker does between two waits of the event loop. During it, changes that must survive are
noted in `journal`, and whatever promises them to a client (acknowledgements, QoS 1 and 2 deliveries) is held
back in the outlets; `end_turn` hands the records to the store, and what was held leaves once the store has
said that they are kept. One commit is under way at a time. A store that keeps nothing beyond the process has
no journal: then nothing is held and no records are made.
"""

from functools import partial

from cpython.pyport cimport PY_SSIZE_T_MAX

from braidmq.timing.stopwatch cimport Stopwatch

DROP_NAMES = (
    "slow_subscriber",
    "queue_full",
    "expired",
    "packet_too_large",
    "not_authorized",
    "session_ended",
    "rejected",
    "away",
    "damaged",
    "store_failing",
    "group_gone",
    "topic_too_long",
    "retained_full",
)


def _nobody_waits():
    """For a turn of which nobody has to be told that it is kept."""


cdef class Hub:
    def __init__(self, limits, store, Stopwatch stopwatch=None):
        self.now = 0.0
        self.stopwatch = stopwatch if stopwatch is not None else Stopwatch()
        self.work_s_max = limits.work_ms_max / 1000
        self.limits = limits
        self.dirty = []
        self.held_outlets = []
        self.waiters = []
        self.store = store
        self.holding = store.journal is not None
        self.journal = store.journal
        self.queue_memory_bytes_max = PY_SSIZE_T_MAX
        self.pageable = {}
        self.packet_bytes_max = limits.packet_bytes_max
        self.topic_bytes_max = limits.topic_bytes_max
        self.topic_levels_max = limits.topic_levels_max
        self.receive_maximum = limits.receive_maximum
        self.output_bytes_max = limits.output_bytes_max
        self.waiting_bytes_max = limits.waiting_bytes_max
        self.patience_s = limits.slow_subscriber_patience_ms / 1000
        self.queue_messages_max = limits.queue_messages_max
        self.queue_bytes_max = limits.queue_bytes_max

    def end_turn(self):
        """Hand what is noted to the store, unless it is busy; what waits for that is released when it is kept.

        While the store is busy the turns gather, and are given to it together: so clients share its cost.
        """
        if self.agenda is not None:
            self.agenda.settle()
        if self.queue_memory_bytes > self.queue_memory_bytes_max:
            self.pager.relieve()
        if self.is_committing or not (self.held_outlets or self.waiters or self._has_noted()):
            return
        outlets, self.held_outlets = self.held_outlets, []
        waiters, self.waiters = self.waiters, []
        for outlet in outlets:
            outlet.promise_held()
        self.is_committing = True
        self.store.commit(self.journal.take() if self.journal is not None else b"",
                          partial(self._release, outlets, waiters))

    def hand_over(self):
        """Give the store all that is noted, though it may be busy: the broker stops, and nothing follows."""
        if self._has_noted():
            self.store.commit(self.journal.take(), _nobody_waits)

    def _has_noted(self):
        return self.journal is not None and len(self.journal) > 0

    def _release(self, list outlets, list waiters):
        """The store has kept what it was given."""
        self.is_committing = False
        for outlet in outlets:
            outlet.release_promised()
        for waiter in waiters:
            waiter()
        self.end_turn()

    def when_kept(self, waiter):
        """Call `waiter` when all that is noted by now is kept."""
        self.waiters.append(waiter)
        self.end_turn()

    cdef int drop_message(self, Drop reason, object message, str client_id) except -1:
        """Count a message that does not reach `client_id` (None: nobody), and tell who looks on."""
        self.dropped[<int>reason] += 1
        if self.message_audience is not None:
            self.message_audience.dropped(message, client_id, DROP_NAMES[<int>reason])
        return 0

    def count_drop(self, str reason not None, message, str client_id=None):
        """As `drop_message`, for the control plane; `reason` is one of `DROP_NAMES`."""
        self.drop_message(<Drop><int>DROP_NAMES.index(reason), message, client_id)

    def counters(self):
        """All counters by name, as of now."""
        counts = {
            "publishes_received": self.publishes_received,
            "publishes_sent": self.publishes_sent,
            "packets_received": self.publishes_received + self.others_received,
            "packets_sent": self.publishes_sent + self.others_sent,
            "publish_bytes_received": self.publish_bytes_received,
            "publish_bytes_sent": self.publish_bytes_sent,
            "bytes_received": self.bytes_received,
            "bytes_sent": self.bytes_sent,
        }
        for index, name in enumerate(DROP_NAMES):
            counts[f"dropped_{name}"] = self.dropped[index]
        return counts
