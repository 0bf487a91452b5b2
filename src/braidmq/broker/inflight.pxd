from braidmq.broker.sharing.member cimport Delivery
from braidmq.messages.message cimport Message

cdef enum Stage:
    FREE = 0
    AWAITS_PUBACK      # QoS 1, sent
    AWAITS_PUBREC      # QoS 2, sent
    AWAITS_PUBCOMP     # QoS 2, received by the client; the message itself is no longer needed

cdef struct Slot:
    void* message              # owned reference to a Message, or None once PUBREC came
    void* target               # owned reference to a Target
    void* delivery             # owned reference to a Delivery; NULL unless its session is a member of shared groups
    unsigned long long sequence    # the delivery's number in its session: its order, and its name in the store
    unsigned short packet_id
    unsigned char stage
    unsigned char retain


cdef class Inflight:
    cdef Slot* slots
    cdef int capacity          # a power of two, or 0
    cdef readonly int count
    cdef public unsigned short last_packet_id    # the last one given out

    cdef int add(self, Message message, object target, int qos, bint retain, unsigned long long sequence,
                 Delivery delivery) except -1
    cdef void note_delivery(self, Slot* slot, Delivery delivery) noexcept
    cdef Slot* find(self, unsigned int packet_id) noexcept
    cdef void received(self, Slot* slot) noexcept
    cdef void remove(self, Slot* slot) noexcept
    cdef int grow(self) except -1
    cdef void shrink(self) noexcept
    cdef list in_order(self)
