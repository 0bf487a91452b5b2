from braidmq.broker.hub cimport Hub
from braidmq.messages.message cimport Message
from braidmq.broker.receiver cimport Outcome
from braidmq.broker.session cimport Session
from braidmq.topics.trie cimport FilterTrie


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
    cdef readonly dict groups                # name -> GroupReceiver, or None
    cdef long long revision                  # a new number after each change


cdef class Fanout:
    cdef readonly list targets               # Targets: one a session with ordinary subscriptions, one a shared group
    cdef readonly list plain                 # those of them that are sessions: what a peer's messages go to
    cdef readonly list peers                 # PeerTargets; for messages that were published here alone
    cdef object __weakref__


cdef class Router:
    cdef readonly Hub hub
    cdef readonly FilterTrie trie            # filter -> FilterEntry
    cdef readonly dict routes                   # topic -> Fanout
    cdef readonly object fanouts             # revisions of the matching entries -> Fanout, while a route has it
    cdef object may_read                     # (session, topic) -> bool; None when everybody may read everything
    cdef Py_ssize_t cache_max
    cdef Py_ssize_t cached_bytes    # of the topics in `routes`, or more
    cdef long long last_revision
    cdef readonly object shared_groups       # a GroupRegistry
    cdef object listener                     # is told of filters that appear and vanish; None: nobody is
    cdef public object remote                # knows which peers want a topic; None: there are none

    cdef Fanout find(self, bytes topic)
    cdef Outcome route(self, Message message)
    cdef int deliver_all(self, Fanout fanout, Message message, Outcome outcome) except -1
    cdef int deliver_plain(self, Message message, Outcome outcome) except -1
    cdef bint can_keep(self, Fanout fanout, Message message) except -1
