from braidmq.broker.hub cimport Hub
from braidmq.broker.sharing.queue cimport Entry, GroupQueue
from braidmq.messages.message cimport Message


cdef class GroupPages:
    cdef object group                # the GroupReceiver
    cdef GroupQueue queue            # its own
    cdef Hub hub
    cdef object pages                # braidmq.store.Pages
    cdef bint is_fetching            # the first page is being read
    cdef long long restored_to       # what has a sequence up to this was put on disk before a restart; 0 = nothing

    cdef bint is_worth_a_page(self)
    cdef Entry entry_of(self, long long sequence, Message message)
