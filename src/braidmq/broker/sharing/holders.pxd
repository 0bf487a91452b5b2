from braidmq.broker.sharing.member cimport Member


cdef class KeyHolders:
    cdef dict by_key    # key -> {Member: messages of the key that it has to acknowledge}, none of them empty

    cdef void add(self, object key, Member member)
    cdef bint remove(self, object key, Member member)
    cdef void remove_member(self, Member member)
    cdef bint is_held_by_another(self, object key, Member member)
