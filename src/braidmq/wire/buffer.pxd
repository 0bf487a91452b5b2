# Bytes of all blocks that buffers of this process hold at present.
cdef Py_ssize_t blocks_bytes() noexcept


cdef class ByteBuffer:
    cdef unsigned char* data      # a block of the pool; NULL while nothing is held
    cdef Py_ssize_t head          # bytes before it are already consumed
    cdef Py_ssize_t tail          # bytes from head to tail are held
    cdef Py_ssize_t capacity      # the block's size

    cdef inline Py_ssize_t size(self) noexcept:
        return self.tail - self.head

    cdef inline unsigned char* start(self) noexcept:
        return self.data + self.head

    # Room for `count` more bytes behind the tail; the caller writes them and then adds to `tail`.
    cdef inline unsigned char* reserve(self, Py_ssize_t count) except NULL:
        if self.capacity - self.tail < count:
            self.make_room(count)
        return self.data + self.tail

    cdef int make_room(self, Py_ssize_t count) except -1
    cdef int append(self, const unsigned char* source, Py_ssize_t count) except -1
    cdef void consume(self, Py_ssize_t count) noexcept
    cdef void release(self) noexcept
