"""Readers: who of a group may not read a topic. The answer is kept by topic until members or rights change.

Cost: a dictionary lookup; for a topic not in the cache one question a member. Bounded: a full cache is emptied.
"""

cdef Py_ssize_t TOPICS_MAX = 4096


cdef class Readers:
    def __init__(self):
        self.by_topic = {}

    def ask(self, may_read):
        """Ask `may_read(member, topic)` from now on; None: nobody is asked."""
        self.may_read = may_read
        self.by_topic.clear()

    def forget(self):
        """The members have changed."""
        self.by_topic.clear()

    cdef object barred(self, object topic, dict places):
        """Those of the members in `places` who may not read `topic`, as a frozenset; None if all may."""
        if topic in self.by_topic:
            return self.by_topic[topic]
        may_read = self.may_read
        found = frozenset([member for member in places if not may_read(member, topic)]) or None
        if len(self.by_topic) >= TOPICS_MAX:
            self.by_topic.clear()
        self.by_topic[topic] = found
        return found
