"""What all connections and sessions of one broker share: the time, limits, and its parts of the hot path.

A turn is what the broker does between two waits of the event loop. It begins with the time (`begin_turn`, which
only `Broker.turn` and input call), and ends with `end_turn`: what shared groups have to be told, what is too much
for the memory, and what the store has to keep before promises may leave.
"""

from cpython.pyport cimport PY_SSIZE_T_MAX

from braidmq.broker.counters cimport Counters, Drop
from braidmq.broker.promises cimport Promises
from braidmq.broker.watching cimport Watching
from braidmq.timing.stopwatch cimport Stopwatch

from braidmq.broker.counters import DROP_NAMES


cdef class Hub:
    def __init__(self, limits, store, Stopwatch stopwatch=None):
        self.now = 0.0
        self.stopwatch = stopwatch if stopwatch is not None else Stopwatch()
        self.work_s_max = limits.work_ms_max / 1000
        self.limits = limits
        self.dirty = []
        self.counters = Counters()
        self.promises = Promises(store, self.end_turn)
        self.watching = Watching()
        self.queue_memory_bytes_max = PY_SSIZE_T_MAX
        self.pageable = {}
        self.packet_bytes_max = limits.packet_bytes_max
        self.topic_bytes_max = limits.topic_bytes_max
        self.topic_levels_max = limits.topic_levels_max
        self.receive_maximum = limits.receive_maximum
        self.topic_alias_max = limits.topic_alias_max
        self.output_bytes_max = limits.output_bytes_max
        self.waiting_bytes_max = limits.waiting_bytes_max
        self.patience_s = limits.slow_subscriber_patience_ms / 1000
        self.queue_messages_max = limits.queue_messages_max
        self.queue_bytes_max = limits.queue_bytes_max
        self.peer_queue_bytes_max = limits.peer_queue_bytes_max

    def begin(self, double now):
        """A turn begins: what happens from now on happens at `now`."""
        self.begin_turn(now)

    def end_turn(self):
        """Finish what the turn has begun, and let the store keep it."""
        if self.agenda is not None:
            self.agenda.settle()
        if self.at_turn_end is not None:
            self.at_turn_end()
        if self.queue_memory_bytes > self.queue_memory_bytes_max:
            self.pager.relieve()
        self.promises.commit()

    cdef int drop_message(self, Drop reason, object message, str client_id, str group=None) except -1:
        """Count a message that does not reach that client or shared group (without any: nobody), and tell it."""
        self.counters.drop(reason, 1)
        if self.watching.message_audience is not None:
            self.watching.message_audience.dropped(message, client_id, group, DROP_NAMES[<int>reason])
        return 0

    def count_drop(self, str reason not None, message, str client_id=None):
        """As `drop_message`, for the control plane; `reason` is one of `DROP_NAMES`."""
        self.drop_message(<Drop><int>DROP_NAMES.index(reason), message, client_id)
