from braidmq.broker.sharing.member cimport Delivery
from braidmq.broker.sharing.queue cimport Entry, GroupPage


cdef class KeepMessage:
    cdef readonly Entry entry


cdef class DropMessage:
    cdef readonly Entry entry
    cdef readonly str reason          # one of DROP_REASONS


cdef class DropPage:
    cdef readonly GroupPage page
    cdef readonly str reason


cdef class WithdrawMessage:
    cdef readonly Delivery delivery


cdef KeepMessage keep_message(Entry entry)
cdef DropMessage drop_message(Entry entry, str reason)
cdef DropPage drop_page(GroupPage page, str reason)
cdef WithdrawMessage withdraw_message(Delivery delivery)
