from braidmq.broker.backlog cimport Backlog, Page, Ring
from braidmq.broker.hub cimport Hub
from braidmq.broker.queued cimport QueuedReceiver
from braidmq.broker.router cimport Router
from braidmq.store.encoding cimport Encoder


cdef class Pager:
    cdef Hub hub
    cdef Router router             # knows who may read what
    cdef readonly object pages            # braidmq.store.Pages
    cdef Encoder encoder           # of the pages

    cdef int page_out(self, QueuedReceiver owner) except -1
    cdef int page_out_ring(self, QueuedReceiver owner, Backlog backlog, Ring ring) except -1
    cdef int page_out_some(self, QueuedReceiver owner, Backlog backlog, Ring ring) except -1
    cdef int move_page(self, QueuedReceiver owner, Page* page, list records) except -1
    cdef int note_page(self, QueuedReceiver owner, Page* page) except -1
    cdef int put_back(self, QueuedReceiver owner, Backlog backlog, list records) except -1
