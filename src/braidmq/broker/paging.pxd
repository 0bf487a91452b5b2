from braidmq.broker.backlog cimport Backlog, Page, Ring
from braidmq.broker.hub cimport Hub
from braidmq.broker.router cimport Router
from braidmq.broker.session cimport Session
from braidmq.store.encoding cimport Encoder


cdef class Pager:
    cdef Hub hub
    cdef Router router             # knows who may read what
    cdef readonly object pages            # braidmq.store.Pages
    cdef Encoder encoder           # of the pages

    cdef int page_out(self, Session session) except -1
    cdef int page_out_ring(self, Session session, Backlog backlog, Ring ring) except -1
    cdef int page_out_some(self, Session session, Backlog backlog, Ring ring) except -1
    cdef int move_page(self, Session session, Page* page, list records) except -1
    cdef int note_page(self, Session session, Page* page) except -1
    cdef int put_back(self, Session session, Backlog backlog, list records) except -1
