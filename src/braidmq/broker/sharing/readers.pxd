cdef class Readers:
    cdef readonly object may_read    # (member, topic) -> bool; None: everybody may read everything
    cdef dict by_topic               # topic -> frozenset of the members who may not read it, or None for nobody

    cdef object barred(self, object topic, dict places)
