cdef class Gathering:
    cdef readonly double wait_max_s      # the most that a message may be kept waiting
    cdef readonly bint is_on
    cdef bint is_trial                   # the present stretch shows what gathering would do
    cdef double decides_at_s             # when the present stretch is over
    cdef double began_s                  # the present stretch
    cdef double busy_s                   # of it, spent working
    cdef long long turns                 # in it
    cdef long long packets_before        # all that had come when it began
    cdef double plain_rate               # packets a second of the last stretch without waiting
    cdef double plain_load               # packets a turn in it
    cdef double turn_ended_s

    cdef double wait_s(self, double now) noexcept
    cdef void ended(self, double began_s, double now, long long packets) noexcept
    cdef void decide(self, double now, long long packets) noexcept
