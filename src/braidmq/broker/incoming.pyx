"""A PUBLISH as it lies in the read buffer: finding its parts, and saying it in the other protocol version."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.string cimport memcpy

from braidmq.wire.buffer cimport ByteBuffer
from braidmq.wire.scan cimport MALFORMED_PACKET, PROTOCOL_ERROR, PublishScan, read_varint, write_varint

from braidmq.errors import ProtocolError


cdef int read_publish(unsigned char first, const unsigned char* body, Py_ssize_t body_bytes, bint is_v5,
                      Incoming* incoming) except -1:
    """Find the parts of a PUBLISH; everything but the topic and the properties' contents is checked."""
    cdef Py_ssize_t offset
    cdef unsigned int properties_bytes = 0
    cdef int used
    incoming.qos = (first >> 1) & 3
    incoming.retain = first & 1
    if incoming.qos == 3:
        raise ProtocolError(MALFORMED_PACKET, "PUBLISH with QoS 3")  # [MQTT-3.3.1-4]
    if incoming.qos == 0 and first & 8:
        raise ProtocolError(MALFORMED_PACKET, "PUBLISH with DUP and QoS 0")  # [MQTT-3.3.1-2]
    if body_bytes < 2 or 2 + <Py_ssize_t>uint16(body) > body_bytes:
        raise ProtocolError(MALFORMED_PACKET, "PUBLISH is shorter than its topic")
    incoming.topic_bytes = uint16(body)
    incoming.topic = body + 2
    offset = 2 + incoming.topic_bytes
    incoming.packet_id = 0
    if incoming.qos:
        if offset + 2 > body_bytes:
            raise ProtocolError(MALFORMED_PACKET, "PUBLISH ends before its packet identifier")
        incoming.packet_id = uint16(body + offset)
        offset += 2
        if incoming.packet_id == 0:
            raise ProtocolError(PROTOCOL_ERROR if is_v5 else MALFORMED_PACKET,
                                "PUBLISH with packet identifier 0")  # [MQTT-2.2.1-3]
    if is_v5:
        used = read_varint(body + offset, body_bytes - offset, &properties_bytes)
        if used <= 0 or offset + used + <Py_ssize_t>properties_bytes > body_bytes:
            raise ProtocolError(MALFORMED_PACKET, "PUBLISH is shorter than its properties")
        offset += used
    incoming.properties = body + offset
    incoming.properties_bytes = properties_bytes
    incoming.payload = body + offset + properties_bytes
    incoming.payload_bytes = body_bytes - offset - properties_bytes
    return 0


cdef bytes passed_on(const unsigned char* properties, Py_ssize_t size, const PublishScan* scan):
    """The property block without the alias and the expiry, which are made anew for every receiver."""
    cdef bytes kept
    cdef Py_ssize_t alias_at = scan.topic_alias_offset if scan.has_topic_alias else size
    cdef Py_ssize_t expiry_at = scan.message_expiry_offset - 1 if scan.has_message_expiry else size
    cdef Py_ssize_t one, one_bytes, two, two_bytes
    if alias_at < expiry_at:
        one, one_bytes, two, two_bytes = alias_at, 3, expiry_at, 5
    else:
        one, one_bytes, two, two_bytes = expiry_at, 5, alias_at, 3
    if one == size:
        return PyBytes_FromStringAndSize(<char*>properties, size)
    kept = PyBytes_FromStringAndSize(<char*>properties, one)
    one += one_bytes
    if two == size:
        return kept + PyBytes_FromStringAndSize(<char*>properties + one, size - one)
    return (kept + PyBytes_FromStringAndSize(<char*>properties + one, two - one)
            + PyBytes_FromStringAndSize(<char*>properties + two + two_bytes, size - two - two_bytes))


cdef int translate_frames(const unsigned char* frames, Py_ssize_t size, bint to_v5, ByteBuffer out) except -1:
    """Write plain QoS 0 frames (no properties) of one protocol version as frames of the other."""
    cdef const unsigned char* end = frames + size
    cdef unsigned char* cursor
    cdef unsigned int body_bytes = 0
    cdef unsigned int changed_bytes
    cdef Py_ssize_t topic_bytes, payload_bytes
    while frames < end:
        frames += 1 + read_varint(frames + 1, end - frames - 1, &body_bytes)
        changed_bytes = body_bytes + 1 if to_v5 else body_bytes - 1
        topic_bytes = 2 + uint16(frames)
        payload_bytes = body_bytes - topic_bytes - (0 if to_v5 else 1)
        cursor = out.reserve(changed_bytes + 5)
        cursor[0] = 0x30
        cursor += 1 + write_varint(cursor + 1, changed_bytes)
        memcpy(cursor, frames, topic_bytes)
        cursor += topic_bytes
        if to_v5:
            cursor[0] = 0
            cursor += 1
        memcpy(cursor, frames + body_bytes - payload_bytes, payload_bytes)
        out.tail = cursor + payload_bytes - out.data
        frames += body_bytes
    return 0
