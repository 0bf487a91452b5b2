from braidmq.broker.hub cimport Hub
from braidmq.messages.message cimport Message
from braidmq.broker.outlet cimport Outlet
from braidmq.broker.session cimport Outcome, Session, Target
from braidmq.topics.trie cimport FilterTrie

cdef enum Routed:
    # Bits of what `route` returns.
    ROUTED_MATCHED = 1    # somebody subscribes to the topic
    ROUTED_REFUSED = 2    # somebody's queue was full
    ROUTED_FULL = 4       # somebody's output is over its limit: see Router.full_outlet


cdef class Router


cdef class Subscription:
    cdef readonly Session session
    cdef readonly bytes filter               # without `$share/group/`
    cdef readonly str group                  # None for an ordinary subscription
    cdef readonly int qos
    cdef readonly bint no_local
    cdef readonly bint retain_as_published
    cdef readonly int retain_handling
    cdef readonly int identifier             # 0 = none


cdef class FilterEntry:
    cdef readonly bytes filter
    cdef readonly dict subscriptions         # Session -> Subscription
    cdef readonly dict groups                # name -> Group, or None
    cdef long long revision                  # a new number after each change


cdef class Fanout:
    cdef readonly list targets               # Targets of ordinary subscriptions, one a session
    cdef readonly list groups                # Groups, each of which gets one copy


cdef class Router:
    cdef readonly Hub hub
    cdef readonly FilterTrie trie            # filter -> FilterEntry
    cdef dict routes                         # topic -> Fanout
    cdef dict fanouts                        # revisions of the matching entries -> Fanout
    cdef object may_read                     # (session, topic) -> bool; None when everybody may read everything
    cdef Py_ssize_t cache_max
    cdef long long last_revision
    cdef Outlet full_outlet
    cdef readonly object shared_groups       # a SharedGroups

    cdef Fanout find(self, bytes topic)
    cdef int route(self, Message message, Session publisher) except -1
    cdef int deliver_all(self, Fanout fanout, Message message, Session publisher) except -1
    cdef bint can_keep(self, Fanout fanout, Message message, Session publisher) except -1
