"""The few system calls of the load generator. Elsewhere than on Linux the modules build, but epoll says ENOSYS."""
from libc.stdint cimport uint32_t, uint64_t

cdef extern from *:
    """
    #include <errno.h>
    #include <fcntl.h>
    #include <sys/socket.h>
    #include <time.h>
    #include <unistd.h>

    #ifdef __linux__
    #include <sys/epoll.h>
    #else
    typedef union { unsigned u32; } epoll_data_t;
    struct epoll_event { unsigned events; epoll_data_t data; };
    enum { EPOLLIN = 1, EPOLLOUT = 4, EPOLLERR = 8, EPOLLHUP = 16 };
    enum { EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL };
    static inline int epoll_create1(int flags) { (void)flags; errno = ENOSYS; return -1; }
    static inline int epoll_ctl(int poller, int change, int fd, struct epoll_event *event) {
        (void)poller; (void)change; (void)fd; (void)event; errno = ENOSYS; return -1;
    }
    static inline int epoll_wait(int poller, struct epoll_event *events, int room, int timeout_ms) {
        (void)poller; (void)events; (void)room; (void)timeout_ms; errno = ENOSYS; return -1;
    }
    #endif
    #ifndef MSG_NOSIGNAL
    #define MSG_NOSIGNAL 0
    #endif

    static inline unsigned long long braid_now_ns(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (unsigned long long)now.tv_sec * 1000000000ull + (unsigned long long)now.tv_nsec;
    }

    static inline int braid_watch(int poller, int change, int fd, unsigned events, unsigned number) {
        struct epoll_event event;
        event.events = events;
        event.data.u32 = number;
        return epoll_ctl(poller, change, fd, &event);
    }

    static inline int braid_would_block(void) {
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    }

    static inline int braid_unblock(int fd) {
        return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL, 0) | O_NONBLOCK);
    }
    """
    enum:
        EPOLLIN
        EPOLLOUT
        EPOLLERR
        EPOLLHUP
        EPOLL_CTL_ADD
        EPOLL_CTL_MOD
        EPOLL_CTL_DEL
        MSG_NOSIGNAL

    ctypedef union epoll_data_t:
        uint32_t u32

    struct epoll_event:
        uint32_t events
        epoll_data_t data

    int epoll_create1(int flags) noexcept nogil
    int epoll_wait(int poller, epoll_event *events, int room, int timeout_ms) noexcept nogil
    ssize_t recv(int fd, void *into, size_t room, int flags) noexcept nogil
    ssize_t send(int fd, const void *data, size_t size, int flags) noexcept nogil
    int accept(int fd, void *address, void *address_bytes) noexcept nogil
    int close(int fd) noexcept nogil

    uint64_t now_ns "braid_now_ns"() noexcept nogil
    # (Un)register a descriptor; the event it raises carries the number.
    int watch "braid_watch"(int poller, int change, int fd, uint32_t events, uint32_t number) noexcept nogil
    # Whether the last call failed only because it would have had to wait.
    bint would_block "braid_would_block"() noexcept nogil
    int unblock "braid_unblock"(int fd) noexcept nogil
