from braidmq.broker.peer_outlet cimport PeerOutlet
from braidmq.broker.peers cimport Peer
from braidmq.messages.message cimport Message


cdef class PeerLane(PeerOutlet):
    cdef object joint                        # a Joint
    cdef readonly Peer peer                  # None until the link is open
    cdef bint holds                          # we have asked the peer for a pause
    cdef bint has_entries                    # some came in this read
    cdef list refused                        # of them, those for which somebody had no room
    cdef unsigned long long noted            # their last, as noted for the store,
    cdef unsigned long long promised_number  # as given to it

    cdef int take_plain(self, const unsigned char* frame, Py_ssize_t header_bytes, Py_ssize_t frame_bytes) except -1
    cdef int take_run(self, const unsigned char* body, Py_ssize_t body_bytes) except -1
    cdef int take_entry(self, const unsigned char* body, Py_ssize_t body_bytes) except -1
    cdef int take_acknowledgement(self, const unsigned char* body, Py_ssize_t body_bytes) except -1
    cdef Message read_plain(self, const unsigned char* body, Py_ssize_t body_bytes, str publisher)
    cdef Message read_entry(self, const unsigned char* cursor, const unsigned char* end)
    cdef bint accepts(self, Message message) except -1
    cdef int acknowledge_entries(self) except -1
