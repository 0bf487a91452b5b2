cdef class Stopwatch:
    cpdef double read_s(self)
