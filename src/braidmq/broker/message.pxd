from braidmq.store.encoding cimport Body
from braidmq.wire.buffer cimport ByteBuffer


cdef class Message(Body):
    cdef int holders                     # how many deliveries of it wait in memory

    cdef inline Py_ssize_t cost(self) noexcept:
        # What the message holds in memory, roughly: its bytes and the objects around them.
        return len(self.topic) + len(self.payload) + len(self.properties) + 200


cdef Message new_message(bytes topic, bytes payload, bytes properties, int qos, bint retain,
                         double expires_at_s, str publisher)

# Bytes of the PUBLISH frame that write_publish would write, from the first byte on.
cdef Py_ssize_t publish_size(Message message, bint is_v5, int qos, bytes identifiers, int alias,
                             bint topic_known) noexcept

cdef int write_publish(ByteBuffer out, Message message, bint is_v5, int qos, bint retain, bint dup, int packet_id,
                       bytes identifiers, int alias, bint topic_known, double now) except -1
