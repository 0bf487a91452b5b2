from braidmq.wire.buffer cimport ByteBuffer


cdef class Message:
    # What all receivers of a message share, and where it stands in the file that is being written.
    cdef readonly bytes topic            # UTF-8, validated
    cdef readonly bytes payload
    cdef readonly bytes properties       # MQTT 5 properties passed on as they came: no alias, expiry, subscription id
    cdef readonly int qos                # as published
    cdef readonly bint retain            # as published
    cdef readonly double expires_at_s    # on the broker's clock; 0 = never
    cdef readonly str publisher          # client id, or None for messages of the broker itself
    cdef unsigned long long stamp_clock  # of a retained message in a cluster, the larger stamp stays; 0: it has none
    cdef unsigned long long stamp_node
    cdef public unsigned long long origin         # the node where it was published; 0: here
    cdef public unsigned long long retained_as    # which one it is of all that were ever retained; 0 if it wasn't
    cdef unsigned long long epoch        # the file in which the body stands
    cdef unsigned long long number       # its number there
    cdef int holders                     # how many deliveries of it wait in memory

    cdef inline Py_ssize_t cost(self) noexcept:
        # What the message holds in memory, roughly: its bytes and the objects around them.
        return len(self.topic) + len(self.payload) + len(self.properties) + 200


cdef Message new_message(bytes topic, bytes payload, bytes properties, int qos, bint retain,
                         double expires_at_s, str publisher)

# Encoded properties with the number of a delivery behind them, as a user property.
cdef bytes numbered(bytes properties, unsigned long long number)

# Bytes of the PUBLISH frame that write_publish would write, from the first byte on.
cdef Py_ssize_t publish_size(Message message, bint is_v5, int qos, bytes identifiers, int alias,
                             bint topic_known) noexcept

cdef int write_publish(ByteBuffer out, Message message, bint is_v5, int qos, bint retain, bint dup, int packet_id,
                       bytes identifiers, int alias, bint topic_known, double now) except -1
