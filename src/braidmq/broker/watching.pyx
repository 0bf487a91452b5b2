"""Who looks on, as the hot path asks: nobody most of the time, which costs a comparison."""


cdef class Watching:
    """Set by the `Audience`, which is told what happens only while somebody listens."""
