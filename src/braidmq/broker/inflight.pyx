"""Packet ids in use towards one client, and what each stands for.

Invariant: a packet id lives in slot `id & (capacity - 1)`, and at most one id per slot is in use, so finding
one is an index and giving one out tries the ids in turn until a slot is free. Capacity is a power of two,
doubled when full, up to the 65,536 that the id space allows; a session without QoS 1/2 traffic holds no
slots at all. Cost: O(1) to find and remove, amortised O(1) to add. Rejected: a dict of packet ids, which
boxes an int and hashes it three times per message.
"""

from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF, PyObject
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from braidmq.broker.sharing.member cimport Delivery
from braidmq.messages.message cimport Message

cdef enum:
    SMALLEST_CAPACITY = 16
    PACKET_IDS_MAX = 65535


cdef inline void _drop_references(Slot* slot) noexcept:
    Py_DECREF(<object>slot.message)
    Py_DECREF(<object>slot.target)
    Py_XDECREF(<PyObject*>slot.delivery)


cdef class Inflight:
    def __cinit__(self):
        self.slots = NULL
        self.capacity = 0
        self.count = 0
        self.last_packet_id = 0

    def __dealloc__(self):
        cdef int index
        for index in range(self.capacity):
            if self.slots[index].stage != FREE:
                _drop_references(&self.slots[index])
        free(self.slots)

    cdef int grow(self) except -1:
        cdef int capacity = self.capacity * 2 if self.capacity else SMALLEST_CAPACITY
        cdef Slot* larger = <Slot*>calloc(capacity, sizeof(Slot))
        cdef int index
        if larger == NULL:
            raise MemoryError
        for index in range(self.capacity):
            if self.slots[index].stage != FREE:
                larger[self.slots[index].packet_id & (capacity - 1)] = self.slots[index]
        free(self.slots)
        self.slots = larger
        self.capacity = capacity
        return 0

    cdef int add(self, Message message, object target, int qos, bint retain, unsigned long long sequence,
                 Delivery delivery) except -1:
        """Give the delivery a packet id and return it. The caller keeps `count` below 65,535."""
        cdef Slot* slot
        cdef unsigned short packet_id = self.last_packet_id
        if self.count >= self.capacity - (self.capacity >> 2):
            if self.capacity <= PACKET_IDS_MAX:
                self.grow()
        while True:
            packet_id += 1
            if packet_id == 0:
                continue
            slot = &self.slots[packet_id & (self.capacity - 1)]
            if slot.stage == FREE:
                break
        Py_INCREF(message)
        Py_INCREF(target)
        slot.message = <void*>message
        slot.target = <void*>target
        slot.sequence = sequence
        slot.packet_id = packet_id
        slot.stage = AWAITS_PUBACK if qos == 1 else AWAITS_PUBREC
        slot.retain = retain
        self.note_delivery(slot, delivery)
        self.last_packet_id = packet_id
        self.count += 1
        return packet_id

    cdef void note_delivery(self, Slot* slot, Delivery delivery) noexcept:
        """What the shared groups of the session know it as; None: they don't."""
        if delivery is not None:
            Py_INCREF(delivery)
            slot.delivery = <void*>delivery
            delivery.packet_id = slot.packet_id

    cdef Slot* find(self, unsigned int packet_id) noexcept:
        cdef Slot* slot
        if self.capacity == 0:
            return NULL
        slot = &self.slots[packet_id & (self.capacity - 1)]
        return slot if slot.stage != FREE and slot.packet_id == packet_id else NULL

    cdef void received(self, Slot* slot) noexcept:
        """The client has the QoS 2 message: forget it, keep the id until PUBCOMP."""
        Py_DECREF(<object>slot.message)
        Py_INCREF(None)
        slot.message = <void*>None
        slot.stage = AWAITS_PUBCOMP

    cdef void remove(self, Slot* slot) noexcept:
        _drop_references(slot)
        memset(slot, 0, sizeof(Slot))
        self.count -= 1

    cdef void shrink(self) noexcept:
        """Give the memory back if nothing is in flight."""
        if self.count == 0:
            free(self.slots)
            self.slots = NULL
            self.capacity = 0

    cdef list in_order(self):
        """Packet ids in the order in which their deliveries began."""
        cdef int index
        cdef list found = []
        for index in range(self.capacity):
            if self.slots[index].stage != FREE:
                found.append((self.slots[index].sequence, self.slots[index].packet_id))
        found.sort()
        return [packet_id for _, packet_id in found]

    def restore(self, int packet_id, message, target, int stage, bint retain, unsigned long long sequence,
                Delivery delivery=None):
        """Put back a delivery that was in flight before a restart, under the packet id it had."""
        cdef Slot* slot
        while self.capacity == 0 or self.slots[packet_id & (self.capacity - 1)].stage != FREE:
            self.grow()
        slot = &self.slots[packet_id & (self.capacity - 1)]
        Py_INCREF(message)
        Py_INCREF(target)
        slot.message = <void*>message
        slot.target = <void*>target
        slot.sequence = sequence
        slot.packet_id = packet_id
        slot.stage = stage
        slot.retain = retain
        self.note_delivery(slot, delivery)
        self.count += 1
