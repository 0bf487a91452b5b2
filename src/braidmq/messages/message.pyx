"""A published message, and how it becomes a PUBLISH frame for a client of either protocol version.

A message is kept once however many sessions wait for it; what differs between receivers (QoS, packet id,
subscription identifiers, alias, remaining expiry) is added when the frame is written.
"""

from libc.string cimport memcpy

from braidmq.wire.buffer cimport ByteBuffer
from braidmq.wire.scan cimport MESSAGE_EXPIRY, TOPIC_ALIAS, varint_size, write_varint


DELIVERY_PROPERTY = "braidmq-delivery"    # PUBLISH: the number of the delivery in its session

cdef bytes NUMBER_HEAD = b"\x26" + len(DELIVERY_PROPERTY).to_bytes(2, "big") + DELIVERY_PROPERTY.encode()


cdef class Message:
    """What of a publication is the same for everybody who gets it."""

    def __init__(self, bytes topic not None, bytes payload not None, int qos=0, bint retain=False,
                 bytes properties not None=b"", double expires_at_s=0.0, str publisher=None):
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.properties = properties
        self.expires_at_s = expires_at_s
        self.publisher = publisher

    @property
    def stamp(self):
        """Which of several retained messages is the newest, in a cluster: (clock, node), or None."""
        return (self.stamp_clock, self.stamp_node) if self.stamp_clock else None

    @stamp.setter
    def stamp(self, stamp):
        self.stamp_clock, self.stamp_node = (0, 0) if stamp is None else stamp

    def is_expired(self, double now):
        return self.expires_at_s and now >= self.expires_at_s

    def __repr__(self):
        return f"Message({self.topic!r}, {len(self.payload)} bytes, qos={self.qos}, retain={self.retain})"


cdef Message new_message(bytes topic, bytes payload, bytes properties, int qos, bint retain,
                         double expires_at_s, str publisher):
    cdef Message message = Message.__new__(Message)
    message.topic = topic
    message.payload = payload
    message.properties = properties
    message.qos = qos
    message.retain = retain
    message.expires_at_s = expires_at_s
    message.publisher = publisher
    return message


cdef bytes numbered(bytes properties, unsigned long long number):
    cdef bytes digits = b"%d" % number
    return properties + NUMBER_HEAD + bytes((0, len(digits))) + digits


cdef inline Py_ssize_t _properties_size(Message message, bytes identifiers, int alias) noexcept:
    return ((5 if message.expires_at_s else 0) + (3 if alias else 0)
            + len(identifiers) + len(message.properties))


cdef inline Py_ssize_t _body_size(Message message, bint is_v5, int qos, bytes identifiers, int alias,
                                  bint topic_known) noexcept:
    cdef Py_ssize_t size = 2 + len(message.payload) + (2 if qos else 0)
    cdef Py_ssize_t properties_size
    if not topic_known:
        size += len(message.topic)
    if is_v5:
        properties_size = _properties_size(message, identifiers, alias)
        size += varint_size(<unsigned int>properties_size) + properties_size
    return size


cdef Py_ssize_t publish_size(Message message, bint is_v5, int qos, bytes identifiers, int alias,
                             bint topic_known) noexcept:
    cdef Py_ssize_t body = _body_size(message, is_v5, qos, identifiers, alias, topic_known)
    return 1 + varint_size(<unsigned int>body) + body


cdef inline unsigned char* _put(unsigned char* cursor, bytes data) noexcept:
    memcpy(cursor, <const unsigned char*>data, len(data))
    return cursor + len(data)


cdef inline unsigned char* _put_uint16(unsigned char* cursor, unsigned int value) noexcept:
    cursor[0] = <unsigned char>(value >> 8)
    cursor[1] = <unsigned char>value
    return cursor + 2


cdef unsigned char* _put_properties(unsigned char* cursor, Message message, bytes identifiers, int alias,
                                    double now) noexcept:
    cdef unsigned int seconds
    cursor += write_varint(cursor, <unsigned int>_properties_size(message, identifiers, alias))
    if message.expires_at_s:
        # [MQTT-3.3.2-6] what is left of the expiry; rounded up, so that a live message is never sent as expired
        # (not by a whole 1, which the clock's own rounding could turn into one second too many)
        seconds = <unsigned int>max(0.0, message.expires_at_s - now + 0.999)
        cursor[0] = MESSAGE_EXPIRY
        cursor = _put_uint16(cursor + 1, seconds >> 16)
        cursor = _put_uint16(cursor, seconds & 0xFFFF)
    if alias:
        cursor[0] = TOPIC_ALIAS
        cursor = _put_uint16(cursor + 1, alias)
    cursor = _put(cursor, identifiers)
    return _put(cursor, message.properties)


cdef int write_publish(ByteBuffer out, Message message, bint is_v5, int qos, bint retain, bint dup, int packet_id,
                       bytes identifiers, int alias, bint topic_known, double now) except -1:
    cdef Py_ssize_t body = _body_size(message, is_v5, qos, identifiers, alias, topic_known)
    cdef unsigned char* begin = out.reserve(body + 5)
    cdef unsigned char* cursor = begin
    cursor[0] = <unsigned char>(0x30 | (dup << 3) | (qos << 1) | retain)
    cursor += 1 + write_varint(cursor + 1, <unsigned int>body)
    if topic_known:
        cursor = _put_uint16(cursor, 0)
    else:
        cursor = _put_uint16(cursor, <unsigned int>len(message.topic))
        cursor = _put(cursor, message.topic)
    if qos:
        cursor = _put_uint16(cursor, packet_id)
    if is_v5:
        cursor = _put_properties(cursor, message, identifiers, alias, now)
    cursor = _put(cursor, message.payload)
    out.tail += cursor - begin
    return 0
