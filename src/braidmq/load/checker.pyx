"""Finds lost, doubled and overtaking messages by the sequence number each publisher puts into its messages.

A stream is what one subscriber, or the members of one shared group together, should get exactly once. Loss
and duplicates are judged per stream and publisher; order is judged per subscriber and publisher, because the
members of a group may overtake each other.

Invariant: bit n of `recent` tells whether number n came, for the RECENT_BITS numbers below `expected`. A
message older than that counts as a duplicate. Cost: constant for the next number in line; a jump of n clears
n bits, at most RECENT_BITS. A set of all numbers was rejected: its size grows with the run.
"""
from libc.stdlib cimport calloc, free


cdef class Checker:
    def __cinit__(self, uint32_t subscribers, uint32_t streams, uint32_t publishers):
        self.publishers = publishers
        self.tracks = <Track *>calloc(<size_t>streams * publishers + 1, sizeof(Track))
        self.followed = <uint64_t *>calloc(<size_t>subscribers * publishers + 1, sizeof(uint64_t))
        if self.tracks is NULL or self.followed is NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.tracks)
        free(self.followed)

    def observe(self, uint32_t subscriber, uint32_t stream, uint32_t publisher, uint64_t sequence):
        """A subscriber got a message."""
        self.see(subscriber, stream, publisher, sequence)

    cdef bint first_time(self, Track *track, uint64_t sequence) noexcept nogil:
        """Note the number in the stream's record; False when it had come before."""
        cdef uint64_t bit = <uint64_t>1 << (sequence & 63)
        cdef uint64_t *word = &track.recent[(sequence % RECENT_BITS) >> 6]
        cdef uint64_t skipped
        if sequence >= track.expected:
            for skipped in range(max(track.expected, sequence - min(sequence, <uint64_t>RECENT_BITS)), sequence):
                track.recent[(skipped % RECENT_BITS) >> 6] &= ~(<uint64_t>1 << (skipped & 63))
            self.missing += sequence - track.expected
            track.expected = sequence + 1
            word[0] |= bit
            return True
        if track.expected - sequence > RECENT_BITS or word[0] & bit:
            return False
        word[0] |= bit
        self.missing -= 1
        return True

    cdef void see(self, uint32_t subscriber, uint32_t stream, uint32_t publisher, uint64_t sequence) noexcept nogil:
        if self.first_time(&self.tracks[<size_t>stream * self.publishers + publisher], sequence):
            self.sample(subscriber, publisher, sequence)
        else:
            self.duplicates += 1

    cdef void sample(self, uint32_t subscriber, uint32_t publisher, uint64_t sequence) noexcept nogil:
        """Judge the order alone, for messages picked out of many."""
        cdef uint64_t *followed = &self.followed[<size_t>subscriber * self.publishers + publisher]
        if sequence < followed[0]:
            self.order_faults += 1
        else:
            followed[0] = sequence + 1
