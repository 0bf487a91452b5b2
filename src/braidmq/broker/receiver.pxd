from braidmq.broker.outlet cimport Outlet
from braidmq.messages.message cimport Message
from braidmq.wire.buffer cimport ByteBuffer


cdef struct Frames:
    # Consecutive plain QoS 0 PUBLISH frames in a buffer: not retained, without properties.
    const unsigned char* start
    const unsigned char* end
    long long count
    Py_ssize_t largest_bytes


cdef class Run:
    cdef Frames frames                       # as they came; valid while the read buffer is
    cdef bint is_v5                          # the version they came in
    cdef str publisher                       # client id
    cdef ByteBuffer translated               # the same frames in the other version; None until somebody needs them

    cdef Frames in_version(self, bint is_v5) except *
    cdef Run part(self, const unsigned char* start, const unsigned char* end)
    cdef Message message(self, const unsigned char* body, Py_ssize_t body_bytes)


cdef class Outcome:
    cdef readonly bint is_matched            # somebody subscribes to the topic
    cdef readonly bint is_refused            # somebody can't keep it, and the publisher has to know
    cdef readonly bint lacks_retained_room   # it was refused because it could not be retained
    cdef readonly int reason                 # MQTT's reason code for the publisher; 0 is success
    cdef readonly list awaited               # (peer, number) of entries that are to be acknowledged before the publish;
                                             # None: nothing is waited for
    cdef readonly Outlet congested           # an output that is over its limit now; None: there is none


cdef Outcome new_outcome()


cdef class Receiver


cdef class Target:
    cdef readonly Receiver receiver
    cdef readonly int qos                    # the most that the matching subscriptions grant
    cdef readonly bint retain_as_published
    cdef readonly bytes identifiers          # subscription identifiers, as encoded properties
    cdef readonly Receiver group             # the shared group that this delivery belongs to, or None
    cdef readonly str spared                 # client id whose own messages aren't for all of the subscriptions, or None
    cdef readonly Target own                 # what is left of them for its own messages, or None

    cdef inline Target towards(self, str publisher):
        # What the subscriptions ask for of `publisher`'s messages; None: nothing [MQTT-3.8.3-3] (No Local).
        if self.spared is None or self.spared != publisher:
            return self
        return self.own


cdef class Receiver:
    cdef int deliver(self, Message message, Target target, Outcome outcome) except -1
    cdef int forward(self, Run run, Target target, Outcome outcome) except -1
    cdef bint is_full(self, Py_ssize_t cost) noexcept
    cdef bint may_get(self, bytes topic, object may_read) except -1
