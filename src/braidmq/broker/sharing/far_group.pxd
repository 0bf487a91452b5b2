from braidmq.broker.sharing.group cimport SharedGroup
from braidmq.broker.sharing.member cimport Delivery, Member

cdef list returned(SharedGroup group, Delivery delivery, double now)
cdef list take_waiting(SharedGroup group)
cdef int resumed(SharedGroup group, Member member, set sequences, double now) except -1
cdef list answered(SharedGroup group, set sequences)
