from braidmq.broker.hub cimport Hub
from braidmq.messages.message cimport Message


cdef struct Waiting:
    # A delivery that waits in memory.
    void* message                  # owned reference to a Message
    void* target                   # owned reference to a Target
    unsigned long long sequence    # its number in its session
    unsigned char qos
    unsigned char retain


cdef struct Page:
    # Deliveries that wait on disk.
    unsigned long long first       # the sequence of the first
    unsigned long long last
    unsigned long long cost        # of their messages, as counted against the session's limit
    unsigned int file              # where they are, in the words of the store
    unsigned int offset
    unsigned int size
    unsigned int count


cdef class Ring:
    cdef Waiting* slots
    cdef Py_ssize_t capacity       # a power of two, or 0
    cdef Py_ssize_t begin          # index of the oldest
    cdef Py_ssize_t count

    cdef int add(self, Message message, object target, int qos, bint retain, unsigned long long sequence) except -1
    cdef void remove_first(self) noexcept
    cdef int grow(self) except -1

    cdef inline Waiting* at(self, Py_ssize_t index) noexcept:
        return &self.slots[(self.begin + index) & (self.capacity - 1)]


cdef class Backlog:
    cdef Hub hub
    cdef Ring head                 # the oldest
    cdef Ring tail                 # the newest, behind the pages; None while there are none
    cdef Page* pages
    cdef Py_ssize_t page_capacity
    cdef Py_ssize_t page_begin     # those before it are gone
    cdef Py_ssize_t page_end
    cdef readonly Py_ssize_t count    # of all deliveries, wherever they wait
    cdef readonly Py_ssize_t memory_bytes    # what the messages of those in memory cost
    cdef readonly bint is_fetching    # the first page is being read

    cdef int add(self, Message message, object target, int qos, bint retain, unsigned long long sequence) except -1
    cdef int add_to(self, Ring ring, Message message, object target, int qos, bint retain,
                    unsigned long long sequence) except -1
    cdef int take_first(self, Ring ring) except -1
    cdef int add_page(self, Page page) except -1
    cdef Page remove_page(self) noexcept
    cdef void join_tail(self) noexcept

    cdef inline Py_ssize_t page_count(self) noexcept:
        return self.page_end - self.page_begin
