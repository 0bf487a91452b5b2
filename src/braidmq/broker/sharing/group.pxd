from braidmq.broker.sharing.policies.base cimport Policy
from braidmq.broker.sharing.holders cimport KeyHolders
from braidmq.broker.sharing.member cimport Member
from braidmq.broker.sharing.queue cimport Entry, GroupQueue
from braidmq.broker.sharing.readers cimport Readers


cdef class Delivery:
    # A message with a member, from SendMessage to its last acknowledgement.
    cdef readonly Entry entry
    cdef readonly int qos
    cdef readonly bint is_received    # PUBREC came


cdef class Place:
    # One session in this group.
    cdef readonly int qos
    cdef readonly bint is_online
    cdef readonly bint is_subscribed  # False: it only finishes what was begun with it
    cdef readonly dict deliveries     # token -> Delivery, in order of sending


cdef class SharedGroup:
    cdef readonly Policy policy
    cdef readonly GroupQueue queue
    cdef readonly double wake_at_s    # call woken() then, at the latest; infinity = no need
    cdef readonly Readers readers     # who may not read what
    cdef readonly object settings     # GroupSettings
    cdef bint keeps_qos0
    cdef dict places                  # Member -> Place
    cdef KeyHolders holders           # ordered policies: who has to acknowledge messages of which key
    cdef long long last_sequence
    cdef long long restored_sequence  # of the delivery restored last; 0 = none was

    cpdef list published(self, object message, double now, int qos, object publisher, object topic,
                         Py_ssize_t size_bytes, double expires_at_s=*)
    cpdef list acknowledged(self, Member member, long long token, double now, int reason=*)
    cpdef list received(self, Member member, long long token, double now, int reason=*)
    cpdef list completed(self, Member member, long long token, double now)
    cpdef Delivery delivery(self, Member member, long long token)
    cpdef Member choose(self, double now, object publisher, object topic, int qos, Py_ssize_t pending)
    cdef long long oldest_sequence(self)
    cdef void drop_unreadable(self, list effects)
    cdef void send(self, Entry entry, Member member, double now, list effects)
    cdef void pump(self, double now, list effects)
    cdef void pump_lane(self, object lane, double now, list effects)
    cdef void settled(self, Member member, Entry entry, double now, list effects)
    cdef void overflowed(self, double now, list effects)
    cdef Entry new_entry(self, object message, int qos, object publisher, object topic, Py_ssize_t size_bytes,
                         double expires_at_s)
    cdef Member taker(self, Entry entry, double now)
    cdef long long give(self, Entry entry, Member member, double now, int* granted)
    cdef void enqueue(self, Entry entry, double now, list effects)
    cdef void wake_for(self, Entry entry, double now)
    cdef void forget_if_done(self, Member member, Place place)
    cdef list take_back(self, Member member, Place place, list effects)
    cdef object lane_of(self, Entry entry)
    cdef void made_room(self, Member member, double now, list effects)
    cdef dict sort_lane(self, object lane)
    cdef void hold_all(self, Member member, Place place)
