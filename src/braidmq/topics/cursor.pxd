from libc.stdint cimport uint32_t, uint64_t

from braidmq.topics.graph cimport Level
from braidmq.topics.tree cimport TopicTree


cdef class TopicCursor:
    cdef TopicTree tree
    cdef bytes filter                       # what the levels point into
    cdef Level* levels                      # of the filter, a last `#` left out
    cdef int level_count
    cdef bint with_rest                     # the filter ends in `#`
    cdef uint32_t node                      # where the walk stands: pinned, unless it is the root
    cdef int depth                          # how many levels above it there are
    cdef uint64_t clears                    # of the tree when the walk began: after one more its nodes are gone
    cdef bint is_over

    cdef bint step(self) noexcept
    cdef uint32_t first_child(self) noexcept
    cdef uint32_t next_sister(self) noexcept
    cdef bint is_free(self, int depth) noexcept
    cdef uint32_t shown(self, uint32_t node, int depth) noexcept
    cdef void let_go(self) noexcept
