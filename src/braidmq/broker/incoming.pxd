from braidmq.wire.buffer cimport ByteBuffer
from braidmq.wire.scan cimport PublishScan


cdef struct Incoming:
    # A PUBLISH as it lies in the read buffer.
    int qos
    bint retain
    unsigned int packet_id
    const unsigned char* topic
    Py_ssize_t topic_bytes
    const unsigned char* properties
    Py_ssize_t properties_bytes
    const unsigned char* payload
    Py_ssize_t payload_bytes


cdef inline unsigned int uint16(const unsigned char* p) noexcept:
    return <unsigned int>p[0] << 8 | p[1]


cdef int read_publish(unsigned char first, const unsigned char* body, Py_ssize_t body_bytes, bint is_v5,
                      Incoming* incoming) except -1
cdef bytes passed_on(const unsigned char* properties, Py_ssize_t size, const PublishScan* scan)
cdef int translate_frames(const unsigned char* frames, Py_ssize_t size, bint to_v5, ByteBuffer out) except -1
