"""How long work takes. The cores know no clock: a shell hands them one that runs, a test one that it moves."""


cdef class Stopwatch:
    """Stands still. One that runs overrides `read_s`."""

    cpdef double read_s(self):
        """Seconds since whenever."""
        return 0.0
