from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from braidmq.client._ledger cimport AckLedger


# Where one message lies in the bytes of its storage. The raw properties (with their length in front) end where
# the payload starts.
cdef struct Record:
    uint64_t ordinal            # in the ledger; 0 for QoS 0
    uint32_t topic_at
    uint32_t payload_at
    uint32_t payload_bytes
    uint32_t properties_bytes   # 0 for MQTT 3
    uint16_t topic_bytes
    uint16_t packet_id
    uint8_t flags               # low four bits of the first byte: DUP, QoS, RETAIN


cdef enum:
    RECORD_COST_BYTES = 64      # what a message costs beside its own bytes, roughly


# What a message counts for in the bounds of a queue.
cdef inline Py_ssize_t size_of(const Record* record) noexcept:
    return <Py_ssize_t>record.topic_bytes + record.payload_bytes + record.properties_bytes + RECORD_COST_BYTES


cdef class Storage:
    cdef unsigned char* data
    cdef Py_ssize_t used
    cdef Py_ssize_t capacity
    cdef Record* records
    cdef Py_ssize_t count
    cdef Py_ssize_t record_capacity

    cdef int reserve(self, Py_ssize_t size) except -1
    cdef int grow_records(self) except -1

    cdef inline Record* new_record(self) except NULL:
        if self.count == self.record_capacity:
            self.grow_records()
        self.count += 1
        return &self.records[self.count - 1]


cdef class MessageBatch:
    cdef Storage storage
    cdef Py_ssize_t start       # first record of the batch
    cdef Py_ssize_t stop        # behind the last
    cdef object acker

    cdef list texts(self)
    cdef Message message(self, Py_ssize_t index, str topic)


cdef class Message:
    cdef readonly str topic
    cdef readonly bytes payload
    cdef readonly int qos
    cdef readonly bint retain
    cdef readonly bint dup
    cdef readonly int packet_id
    cdef bytes raw_properties
    cdef object decoded_properties
    cdef uint64_t ordinal
    cdef object acker


cdef class Inbox:
    cdef object sealed          # deque of batches without an acker, oldest first
    cdef Storage filling        # what came after them
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t size_bytes
    cdef readonly Py_ssize_t received   # messages that ever came

    cdef Storage room(self, Py_ssize_t size)
    cdef int seal(self) except -1
    cdef int settle(self, MessageBatch batch, int sign) except -1
