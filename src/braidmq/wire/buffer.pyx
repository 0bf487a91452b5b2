"""A byte queue in one contiguous block, for what a connection is about to write or has half read.

Purpose: gather many small frames so that one system call writes them, and hold no memory when there is
nothing to hold. Invariant: 0 <= head <= tail <= capacity, and data is NULL exactly when capacity is 0.
Cost: append is a memcpy; blocks of a power-of-two size come from a process-wide pool, so a connection that
fills and drains its buffer every loop turn neither calls malloc nor faults pages in. Rejected: a bytearray
(reallocates while it grows, keeps its largest size for ever, zero-fills), a list of small buffers (the
event loop collapses when it is handed thousands of them).
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove

cdef enum:
    SMALLEST_BITS = 9
    LARGEST_POOLED_BITS = 22
    CLASSES = 23
    POOLED_BYTES_MAX = 16 * 1024 * 1024  # kept for reuse, per block size

cdef struct FreeBlock:
    FreeBlock* following

cdef FreeBlock* _pool[CLASSES]
cdef Py_ssize_t _pooled[CLASSES]
cdef Py_ssize_t _held_bytes = 0
cdef int _index
for _index in range(CLASSES):
    _pool[_index] = NULL
    _pooled[_index] = 0


cdef inline int _size_class(Py_ssize_t count) noexcept nogil:
    cdef int bits = SMALLEST_BITS
    while (<Py_ssize_t>1 << bits) < count:
        bits += 1
    return bits


cdef Py_ssize_t blocks_bytes() noexcept:
    return _held_bytes


cdef unsigned char* _take_block(int bits) except NULL:
    global _held_bytes
    cdef FreeBlock* block
    if bits <= LARGEST_POOLED_BITS and _pool[bits] != NULL:
        block = _pool[bits]
        _pool[bits] = block.following
        _pooled[bits] -= <Py_ssize_t>1 << bits
        _held_bytes += <Py_ssize_t>1 << bits
        return <unsigned char*>block
    block = <FreeBlock*>malloc(<size_t>1 << bits)
    if block == NULL:
        raise MemoryError
    _held_bytes += <Py_ssize_t>1 << bits
    return <unsigned char*>block


cdef void _give_block(unsigned char* data, Py_ssize_t capacity) noexcept:
    global _held_bytes
    cdef int bits = _size_class(capacity)
    cdef FreeBlock* block = <FreeBlock*>data
    _held_bytes -= capacity
    if bits > LARGEST_POOLED_BITS or _pooled[bits] + capacity > POOLED_BYTES_MAX:
        free(data)
        return
    block.following = _pool[bits]
    _pool[bits] = block
    _pooled[bits] += capacity


cdef class ByteBuffer:
    def __cinit__(self):
        self.data = NULL
        self.head = self.tail = self.capacity = 0

    def __dealloc__(self):
        if self.data != NULL:
            _give_block(self.data, self.capacity)

    cdef int make_room(self, Py_ssize_t count) except -1:
        cdef Py_ssize_t held = self.tail - self.head
        cdef unsigned char* larger
        cdef int bits
        # Moving down is paid for by the bytes consumed before, so appending stays linear.
        if self.head >= held and self.capacity - held >= count:
            memmove(self.data, self.data + self.head, held)
        else:
            bits = _size_class(held + count)
            larger = _take_block(bits)
            if self.data != NULL:
                memcpy(larger, self.data + self.head, held)
                _give_block(self.data, self.capacity)
            self.data = larger
            self.capacity = <Py_ssize_t>1 << bits
        self.head = 0
        self.tail = held
        return 0

    cdef int append(self, const unsigned char* source, Py_ssize_t count) except -1:
        memcpy(self.reserve(count), source, count)
        self.tail += count
        return 0

    cdef void consume(self, Py_ssize_t count) noexcept:
        self.head += count
        if self.head == self.tail:
            self.release()

    cdef void release(self) noexcept:
        if self.data != NULL:
            _give_block(self.data, self.capacity)
            self.data = NULL
            self.capacity = 0
        self.head = self.tail = 0

    def write(self, bytes data not None):
        """Put `data` behind what is held."""
        if data:
            self.append(data, len(data))

    def take(self):
        """All that is held, as bytes; nothing is held afterwards."""
        if self.tail == self.head:
            return b""
        taken = PyBytes_FromStringAndSize(<char*>(self.data + self.head), self.tail - self.head)
        self.release()
        return taken

    def __len__(self):
        return self.tail - self.head
