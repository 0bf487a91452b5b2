from braidmq.broker.sharing.policies.base cimport Policy
from braidmq.broker.sharing.holders cimport KeyHolders
from braidmq.broker.sharing.member cimport Delivery, Member, Place
from braidmq.broker.sharing.queue cimport Entry, GroupQueue
from braidmq.broker.sharing.readers cimport Readers


cdef class SharedGroup:
    cdef readonly Policy policy
    cdef readonly GroupQueue queue
    cdef readonly double wake_at_s    # call woken() then, at the latest; infinity = no need
    cdef readonly Readers readers     # who may not read what
    cdef readonly object settings     # GroupSettings
    cdef bint keeps_qos0
    cdef bint refuses                 # a publisher is told when its message finds no room
    cdef readonly bint is_aside       # another node has the group: what waits here is passed on by the caller
    cdef dict places                  # Member -> Place
    cdef readonly Py_ssize_t subscribed_count    # of the places that subscribe
    cdef KeyHolders holders           # ordered policies: who has to acknowledge messages of which key
    cdef long long last_sequence
    cdef long long restored_sequence  # of the delivery restored last; 0 = none was

    cpdef list published(self, object message, double now, int qos, object publisher, object topic,
                         Py_ssize_t size_bytes, double expires_at_s=*)
    cpdef list acknowledged(self, Delivery delivery, double now, int reason=*)
    cpdef list received(self, Delivery delivery, double now, int reason=*)
    cpdef list completed(self, Delivery delivery, double now)
    cpdef Member choose(self, double now, object publisher, object topic, int qos, Py_ssize_t pending)
    cdef long long oldest_sequence(self)
    cdef void drop_unreadable(self, list effects)
    cdef void give_up_all(self, list effects)
    cdef void enqueue_behind(self, Entry entry, double now, list effects)
    cdef bint may_wait(self)
    cdef void refill(self, double now, list effects)
    cdef void follow(self, Entry entry, double now, list effects)
    cdef void pump(self, double now, list effects)
    cdef void pump_lane(self, object lane, double now, list effects)
    cdef void settled(self, Delivery delivery, double now, list effects)
    cdef void overflowed(self, double now, list effects)
    cdef Entry new_entry(self, object message, int qos, object publisher, object topic, Py_ssize_t size_bytes,
                         double expires_at_s)
    cdef Member taker(self, Entry entry, double now)
    cdef Delivery give(self, Entry entry, Member member, double now)
    cdef Place enter(self, Member member)
    cdef void set_subscribed(self, Place place, bint subscribed)
    cdef void finish(self, Delivery delivery)
    cdef void enqueue(self, Entry entry, double now, list effects)
    cdef void wake_for(self, Entry entry, double now)
    cdef void forget_if_done(self, Place place)
    cdef list take_back(self, Place place, list effects)
    cdef object lane_of(self, Entry entry)
    cdef void made_room(self, Member member, double now, list effects)
    cdef dict sort_lane(self, object lane)
    cdef void hold_all(self, Place place)
