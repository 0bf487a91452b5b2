from braidmq.broker.policies.member cimport Member


cdef class SendMessage:
    cdef readonly Member member
    cdef readonly object message
    cdef readonly int qos             # of this delivery: the lower of the message's and the subscription's
    cdef readonly long long token     # names the delivery until it is acknowledged; 0 for QoS 0


cdef class KeepMessage:
    cdef readonly object message


cdef class DropMessage:
    cdef readonly object message
    cdef readonly str reason          # one of DROP_REASONS


cdef class WithdrawMessage:
    cdef readonly Member member
    cdef readonly long long token


cdef SendMessage send_message(Member member, object message, int qos, long long token)
cdef KeepMessage keep_message(object message)
cdef DropMessage drop_message(object message, str reason)
cdef WithdrawMessage withdraw_message(Member member, long long token)
