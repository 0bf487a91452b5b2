from braidmq.broker.sharing.member cimport Member
from braidmq.broker.sharing.queue cimport Entry


cdef class SendMessage:
    cdef readonly Member member
    cdef readonly Entry entry
    cdef readonly int qos             # of this delivery: the lower of the message's and the subscription's
    cdef readonly long long token     # names the delivery until it is acknowledged; 0 for QoS 0


cdef class KeepMessage:
    cdef readonly Entry entry


cdef class DropMessage:
    cdef readonly Entry entry
    cdef readonly str reason          # one of DROP_REASONS


cdef class WithdrawMessage:
    cdef readonly Member member
    cdef readonly long long token


cdef SendMessage send_message(Member member, Entry entry, int qos, long long token)
cdef KeepMessage keep_message(Entry entry)
cdef DropMessage drop_message(Entry entry, str reason)
cdef WithdrawMessage withdraw_message(Member member, long long token)
