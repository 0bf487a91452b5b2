"""Whoever can stand in the fan-out of a topic, and the values that pass between a publisher and its receivers.

A `Receiver` is a session, a shared group, or whatever else may want a copy of a message; a `Target` is a
receiver with what its subscriptions ask for. The router and the fast lane know nothing more of them. What
becomes of a message is told in an `Outcome`, which belongs to whoever publishes and is passed down.

`Run` is the fast lane's unit: plain frames that all go to the same receivers. Its translation to the other
protocol version belongs to the run, so that it can't be mistaken for that of another one.
"""

cimport cython

from cpython.bytes cimport PyBytes_FromStringAndSize

from braidmq.broker.incoming cimport Incoming, read_publish, translate_frames
from braidmq.messages.message cimport Message, new_message
from braidmq.wire.buffer cimport ByteBuffer


cdef Outcome new_outcome():
    """What nothing is known of yet. Made here because a class makes its objects fastest in its own module."""
    return Outcome.__new__(Outcome)


@cython.freelist(8)
cdef class Run:
    """Plain QoS 0 frames of one publisher, in either protocol version."""

    cdef Frames in_version(self, bint is_v5) except *:
        """The frames as a client of that version reads them; translated once, for all who need it."""
        cdef Frames frames = self.frames
        if is_v5 == self.is_v5:
            return frames
        if self.translated is None:
            self.translated = ByteBuffer.__new__(ByteBuffer)
            translate_frames(frames.start, frames.end - frames.start, is_v5, self.translated)
        frames.start = self.translated.start()
        frames.end = frames.start + self.translated.size()
        return frames

    cdef Run part(self, const unsigned char* start, const unsigned char* end):
        """One frame of the run, as a run of its own."""
        cdef Run single = Run.__new__(Run)
        single.frames = Frames(start, end, 1, end - start)
        single.is_v5 = self.is_v5
        single.publisher = self.publisher
        return single

    cdef Message message(self, const unsigned char* body, Py_ssize_t body_bytes):
        """A frame of the run as a message."""
        cdef Incoming incoming
        read_publish(0x30, body, body_bytes, self.is_v5, &incoming)
        return new_message(
            PyBytes_FromStringAndSize(<char*>incoming.topic, incoming.topic_bytes),
            PyBytes_FromStringAndSize(<char*>incoming.payload, incoming.payload_bytes),
            b"", 0, False, 0.0, self.publisher)


@cython.freelist(8)
@cython.no_gc  # it lives as long as a call, and is in no cycle
cdef class Outcome:
    """What became of one publication (or of one run), as its receivers tell whoever published it."""


cdef class Target:
    """What the matching subscriptions of one receiver ask for, taken together."""

    def __init__(self, Receiver receiver not None, int qos, bint retain_as_published=False,
                 bytes identifiers not None=b"", Receiver group=None, str spared=None, Target own=None):
        self.receiver = receiver
        self.qos = qos
        self.retain_as_published = retain_as_published
        self.identifiers = identifiers
        self.group = group
        self.spared = spared
        self.own = own

    def for_publisher(self, str publisher):
        """What is asked for of that client's messages: this, less, or None."""
        return self.towards(publisher)


cdef class Receiver:
    """Takes messages. `outcome` is None where nobody waits to hear what became of them."""

    cdef int deliver(self, Message message, Target target, Outcome outcome) except -1:
        """Take a message of any kind: send it, keep it until it can be sent, or drop and count it."""
        raise NotImplementedError

    cdef int forward(self, Run run, Target target, Outcome outcome) except -1:
        """Take a run of plain QoS 0 frames."""
        raise NotImplementedError

    cdef bint is_full(self, Py_ssize_t cost) noexcept:
        """Whether a QoS 1 or 2 message of that cost would be refused."""
        return False

    cdef bint may_get(self, bytes topic, object may_read) except -1:
        """Whether messages on `topic` may go there, where `may_read(session, topic)` decides about sessions."""
        return True
