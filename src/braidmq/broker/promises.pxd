from braidmq.store.encoding cimport Encoder


cdef class Promises:
    cdef readonly object store
    cdef readonly Encoder journal           # "remember this" records of the turn; None when nobody keeps them
    cdef readonly bint are_held             # acks and QoS 1/2 deliveries wait for the store
    cdef readonly list held_outlets         # outlets that hold bytes back until what is noted is kept
    cdef list waiters                       # to be called when it is
    cdef bint is_committing                 # the store has yet to say that it has kept what it was given
    cdef object released                    # called after what was held has been released

    cdef inline bint is_failing(self) noexcept:
        # Nothing can be kept at present: whatever would have to be kept is to be refused.
        return self.journal is not None and self.journal.is_failing
