"""Received messages by the thousand: kept as bytes and offsets, turned into objects only when asked for.

A `Storage` holds the bytes of many PUBLISH frames and one 32-byte record per message. A `MessageBatch` is a
window over the records of a storage; the `Inbox` is the queue of batches between the network and the
application. Invariant: the records of a storage that is still filling belong to the inbox alone; a storage is
sealed before any of it is handed out, so a batch never changes.

Cost: a message costs its bytes once (copied from the receive buffer) and some nanoseconds; the columns
(`topics`, `payloads`, ...) cost one object per message and column; `Message` objects are the dearest way and
the most convenient one. Consecutive messages of one topic share one str.
"""

from collections import deque

cimport cython
from cpython.array cimport array, clone
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy

from braidmq.client._ledger cimport AckLedger

from braidmq.wire import NO_PROPERTIES, PacketType, decode_properties

cdef enum:
    RETAIN = 0x01
    DUP = 0x08
    DATA_BYTES_MIN = 1024
    RECORDS_MIN = 16
    SEALED_BYTES = 1 << 20      # a storage is sealed beyond this, so that offsets stay below 2**32
    TOPICS_KEPT = 1024          # a power of two
    TOPIC_KEPT_BYTES_MAX = 256

cdef list kept_topics = [None] * TOPICS_KEPT
cdef array u16_template = array("H")
cdef array i32_template = array("i")


cdef inline int qos_of(const Record* record) noexcept:
    return record.flags >> 1 & 3


cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL


cdef str topic_text(const unsigned char* data, Py_ssize_t size):
    """The str of a topic; an often used topic is made once. Few topics stay few objects, however many messages."""
    if size > TOPIC_KEPT_BYTES_MAX:
        return PyUnicode_DecodeUTF8(<const char*>data, size, NULL)
    cdef uint32_t digest = 2166136261
    cdef Py_ssize_t index, known_size
    for index in range(size):
        digest = (digest ^ data[index]) * 16777619
    cdef Py_ssize_t slot = (digest ^ digest >> 15) & (TOPICS_KEPT - 1)
    known = kept_topics[slot]
    cdef const char* known_data
    if known is not None:
        known_data = PyUnicode_AsUTF8AndSize(known, &known_size)
        if known_size == size and memcmp(known_data, data, size) == 0:
            return <str>known
    cdef str text = PyUnicode_DecodeUTF8(<const char*>data, size, NULL)
    kept_topics[slot] = text
    return text


@cython.final
cdef class Storage:
    def __dealloc__(self):
        free(self.data)
        free(self.records)

    cdef int reserve(self, Py_ssize_t size) except -1:
        cdef Py_ssize_t capacity = self.used + size
        cdef void* moved
        if capacity <= self.capacity:
            return 0
        capacity = max(capacity, min(self.capacity * 2, SEALED_BYTES), DATA_BYTES_MIN)
        moved = realloc(self.data, capacity)
        if moved == NULL:
            raise MemoryError
        self.data = <unsigned char*>moved
        self.capacity = capacity
        return 0

    cdef int grow_records(self) except -1:
        cdef Py_ssize_t capacity = max(self.record_capacity * 2, RECORDS_MIN)
        cdef void* moved = realloc(self.records, capacity * sizeof(Record))
        if moved == NULL:
            raise MemoryError
        self.records = <Record*>moved
        self.record_capacity = capacity
        return 0


cdef MessageBatch make_batch(Storage storage, Py_ssize_t start, Py_ssize_t stop, object acker):
    cdef MessageBatch batch = MessageBatch.__new__(MessageBatch)
    batch.storage = storage
    batch.start = start
    batch.stop = stop
    batch.acker = acker
    return batch


@cython.final
cdef class Message:
    """One received message. `ack()` tells the server that it is dealt with (manual acknowledgement only)."""

    @property
    def properties(self):
        if self.decoded_properties is None:
            self.decoded_properties = properties_of(self.raw_properties)
        return self.decoded_properties

    def ack(self, uint8_t reason=0):
        """Done with. QoS 0 needs no answer, and a message whose connection is gone will come again."""
        if self.ordinal:
            self.acker.acknowledge(self, reason)

    def mark(self, AckLedger ledger, uint8_t reason):
        return [] if self.ordinal == 0 or ledger.mark(self.ordinal, reason) else [self.ordinal]

    def __repr__(self):
        return f"Message(topic={self.topic!r}, payload={self.payload!r}, qos={self.qos}, retain={self.retain})"


def properties_of(bytes raw):
    """The properties behind the raw bytes of a column, length included; none for MQTT 3."""
    return decode_properties(raw, 0, PacketType.PUBLISH)[0] if raw else NO_PROPERTIES


@cython.final
cdef class MessageBatch:
    """Messages in the order of receipt: as columns, or one by one as `Message`.

    A column is built anew at each access; keep it in a variable.
    """

    def __len__(self):
        return self.stop - self.start

    def __iter__(self):
        cdef Py_ssize_t index
        cdef list texts = self.texts()
        for index in range(self.start, self.stop):
            yield self.message(index, <str>texts[index - self.start])

    def __getitem__(self, Py_ssize_t index):
        cdef Py_ssize_t count = self.stop - self.start
        if index < 0:
            index += count
        if not 0 <= index < count:
            raise IndexError(f"message {index} of {count}")
        cdef Record* record = &self.storage.records[self.start + index]
        return self.message(self.start + index, topic_text(self.storage.data + record.topic_at, record.topic_bytes))

    cdef Message message(self, Py_ssize_t index, str topic):
        cdef Record* record = &self.storage.records[index]
        cdef const char* payload = <const char*>self.storage.data + record.payload_at
        cdef Message message = Message.__new__(Message)
        message.topic = topic
        message.payload = PyBytes_FromStringAndSize(payload, record.payload_bytes)
        message.qos = qos_of(record)
        message.retain = record.flags & RETAIN != 0
        message.dup = record.flags & DUP != 0
        message.packet_id = record.packet_id
        message.raw_properties = PyBytes_FromStringAndSize(
            payload - record.properties_bytes, record.properties_bytes
        )
        message.ordinal = record.ordinal
        message.acker = self.acker
        return message

    cdef list texts(self):
        cdef list texts = []
        cdef Record* record
        cdef const unsigned char* topic = NULL
        cdef Py_ssize_t index, size = 0
        cdef str text = ""
        for index in range(self.start, self.stop):
            record = &self.storage.records[index]
            if record.topic_bytes != size or memcmp(topic, self.storage.data + record.topic_at, size) != 0:
                topic = self.storage.data + record.topic_at
                size = record.topic_bytes
                text = topic_text(topic, size)
            texts.append(text)
        return texts

    @property
    def topics(self):
        return self.texts()

    @property
    def payloads(self):
        cdef Record* record
        cdef Py_ssize_t index
        cdef list payloads = []
        for index in range(self.start, self.stop):
            record = &self.storage.records[index]
            payloads.append(PyBytes_FromStringAndSize(
                <const char*>self.storage.data + record.payload_at, record.payload_bytes
            ))
        return payloads

    @property
    def raw_properties(self):
        """Each message's property bytes, length included: `properties_of` reads them."""
        cdef Record* record
        cdef Py_ssize_t index
        cdef list blocks = []
        for index in range(self.start, self.stop):
            record = &self.storage.records[index]
            blocks.append(PyBytes_FromStringAndSize(
                <const char*>self.storage.data + record.payload_at - record.properties_bytes,
                record.properties_bytes,
            ))
        return blocks

    @property
    def packet_ids(self):
        cdef Py_ssize_t index
        cdef array ids = clone(u16_template, self.stop - self.start, False)
        for index in range(self.start, self.stop):
            ids.data.as_ushorts[index - self.start] = self.storage.records[index].packet_id
        return ids

    @property
    def flags(self):
        """One byte a message: DUP 0x08, QoS << 1, RETAIN 0x01."""
        cdef Py_ssize_t index
        cdef bytes flags = PyBytes_FromStringAndSize(NULL, self.stop - self.start)
        cdef char* cursor = PyBytes_AS_STRING(flags)
        for index in range(self.start, self.stop):
            cursor[index - self.start] = <char>self.storage.records[index].flags
        return flags

    @property
    def size_bytes(self):
        """Topics, payloads and properties together."""
        cdef Py_ssize_t index, size = 0
        for index in range(self.start, self.stop):
            size += size_of(&self.storage.records[index]) - RECORD_COST_BYTES
        return size

    def payload_column(self):
        """(offsets as int32, bytes): the payloads as Arrow lays out a binary column, without an object each."""
        return self.column(False)

    def topic_column(self):
        """(offsets as int32, bytes): the topics as Arrow lays out a utf8 column."""
        return self.column(True)

    def column(self, bint topics):
        cdef Py_ssize_t index, size, total = 0
        cdef Record* record
        cdef array offsets = clone(i32_template, self.stop - self.start + 1, False)
        cdef int32_t* offset = <int32_t*>offsets.data.as_ints
        for index in range(self.start, self.stop):
            offset[index - self.start] = <int32_t>total
            record = &self.storage.records[index]
            total += record.topic_bytes if topics else record.payload_bytes
        if total > 0x7FFFFFFF:
            raise OverflowError("the batch has more bytes than 32-bit offsets can name")
        offset[self.stop - self.start] = <int32_t>total
        cdef bytes values = PyBytes_FromStringAndSize(NULL, total)
        cdef char* cursor = PyBytes_AS_STRING(values)
        for index in range(self.start, self.stop):
            record = &self.storage.records[index]
            size = record.topic_bytes if topics else record.payload_bytes
            memcpy(cursor, self.storage.data + (record.topic_at if topics else record.payload_at), size)
            cursor += size
        return offsets, values

    def ack(self, uint8_t reason=0):
        """Done with all of them: one buffer of acknowledgements."""
        self.acker.acknowledge(self, reason)

    def mark(self, AckLedger ledger, uint8_t reason):
        """Marks the messages in the ledger; gives the ordinals that it no longer knows."""
        cdef Py_ssize_t index
        cdef uint64_t ordinal
        cdef list gone = []
        for index in range(self.start, self.stop):
            ordinal = self.storage.records[index].ordinal
            if ordinal and not ledger.mark(ordinal, reason):
                gone.append(ordinal)
        return gone

    def __repr__(self):
        return f"MessageBatch({len(self)} messages)"


@cython.final
cdef class Inbox:
    """The queue between the network and the application."""

    def __cinit__(self):
        self.sealed = deque()
        self.filling = Storage()

    def __len__(self):
        return self.count

    cdef Storage room(self, Py_ssize_t size):
        """A storage with room for `size` more bytes."""
        if self.filling.used > SEALED_BYTES:
            self.seal()
        self.filling.reserve(size)
        return self.filling

    cdef int seal(self) except -1:
        if self.filling.count:
            self.sealed.append(make_batch(self.filling, 0, self.filling.count, None))
            self.filling = Storage()
        return 0

    def append(self, bytes topic, bytes payload, uint8_t flags, uint16_t packet_id, bytes raw_properties,
               uint64_t ordinal):
        """One message that did not come by the fast lane."""
        cdef Py_ssize_t topic_bytes = len(topic), payload_bytes = len(payload)
        cdef Py_ssize_t properties_bytes = len(raw_properties)
        cdef Storage storage = self.room(topic_bytes + payload_bytes + properties_bytes)
        cdef Record* record = storage.new_record()
        cdef Py_ssize_t cursor = storage.used
        memcpy(storage.data + cursor, PyBytes_AS_STRING(topic), topic_bytes)
        record.topic_at = <uint32_t>cursor
        record.topic_bytes = <uint16_t>topic_bytes
        cursor += topic_bytes
        memcpy(storage.data + cursor, PyBytes_AS_STRING(raw_properties), properties_bytes)
        record.properties_bytes = <uint32_t>properties_bytes
        cursor += properties_bytes
        memcpy(storage.data + cursor, PyBytes_AS_STRING(payload), payload_bytes)
        record.payload_at = <uint32_t>cursor
        record.payload_bytes = <uint32_t>payload_bytes
        record.flags = flags & 0x0F
        record.packet_id = packet_id
        record.ordinal = ordinal
        storage.used = cursor + payload_bytes
        self.count += 1
        self.received += 1
        self.size_bytes += size_of(record)

    def take(self, Py_ssize_t messages_max, object acker):
        """The oldest messages, at most `messages_max`; fewer where the bytes were stored in two pieces."""
        cdef MessageBatch oldest, batch
        if not self.sealed:
            self.seal()
        if not self.sealed:
            return make_batch(self.filling, 0, 0, acker)
        oldest = self.sealed[0]
        if oldest.stop - oldest.start <= messages_max:
            self.sealed.popleft()
            batch = oldest
            batch.acker = acker
        else:
            batch = make_batch(oldest.storage, oldest.start, oldest.start + messages_max, acker)
            oldest.start += messages_max
        self.settle(batch, -1)
        return batch

    def drop_stale(self, AckLedger ledger):
        """Forgets QoS 1 and 2 messages of earlier connections, and gives their ordinals.

        A resumed session delivers them again; without this they would pile up with every reconnect.
        """
        cdef MessageBatch batch
        cdef list dropped = []
        self.seal()
        for batch in self.sealed:
            self.settle(batch, -1)
            keep_all_but_stale(batch, ledger.head, dropped)
            self.settle(batch, 1)
        self.sealed = deque([batch for batch in self.sealed if len(batch)])
        return dropped

    cdef int settle(self, MessageBatch batch, int sign) except -1:
        """Adds a batch to what the inbox holds, or takes it off."""
        cdef Py_ssize_t index, size = 0
        for index in range(batch.start, batch.stop):
            size += size_of(&batch.storage.records[index])
        self.size_bytes += sign * size
        self.count += sign * (batch.stop - batch.start)
        return 0


cdef int keep_all_but_stale(MessageBatch batch, uint64_t head, list dropped) except -1:
    cdef Py_ssize_t index, kept = batch.start
    cdef Record* records = batch.storage.records
    for index in range(batch.start, batch.stop):
        if 0 < records[index].ordinal < head:
            dropped.append(records[index].ordinal)
            continue
        records[kept] = records[index]
        kept += 1
    batch.stop = kept
    return 0
