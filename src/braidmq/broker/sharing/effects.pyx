"""What a shared group asks its caller to do, and the reasons for which it gives a message up.

    SendMessage        write the PUBLISH to the member, and remember (member, token) for its acknowledgements
    KeepMessage        it waits in the group now: keep it as durably as the publisher was promised
    DropMessage        it is gone; the reason is to be counted. Nothing is dropped without one
    WithdrawMessage    the session must forget this delivery; another member gets it
"""

DROP_EXPIRED = "expired"
DROP_QUEUE_FULL = "group queue full"
DROP_NOBODY_ONLINE = "nobody online"
DROP_REJECTED = "rejected by the member"
DROP_NOT_SENDABLE = "not sendable"
DROP_SESSION_ENDED = "session ended during QoS 2"
DROP_GROUP_GONE = "group gone"
DROP_NO_READER = "nobody may read it"
DROP_REASONS = (DROP_EXPIRED, DROP_QUEUE_FULL, DROP_NOBODY_ONLINE, DROP_REJECTED, DROP_NOT_SENDABLE,
                DROP_SESSION_ENDED, DROP_GROUP_GONE, DROP_NO_READER)


cdef class SendMessage:
    @property
    def message(self):
        return self.entry.message

    def __repr__(self):
        return f"SendMessage({self.member.name!r}, {self.message!r}, qos={self.qos}, token={self.token})"


cdef class KeepMessage:
    @property
    def message(self):
        return self.entry.message

    def __repr__(self):
        return f"KeepMessage({self.message!r})"


cdef class DropMessage:
    @property
    def message(self):
        return self.entry.message

    def __repr__(self):
        return f"DropMessage({self.message!r}, {self.reason!r})"


cdef class WithdrawMessage:
    def __repr__(self):
        return f"WithdrawMessage({self.member.name!r}, token={self.token})"


cdef SendMessage send_message(Member member, Entry entry, int qos, long long token):
    cdef SendMessage effect = SendMessage.__new__(SendMessage)
    effect.member = member
    effect.entry = entry
    effect.qos = qos
    effect.token = token
    return effect


cdef KeepMessage keep_message(Entry entry):
    cdef KeepMessage effect = KeepMessage.__new__(KeepMessage)
    effect.entry = entry
    return effect


cdef DropMessage drop_message(Entry entry, str reason):
    cdef DropMessage effect = DropMessage.__new__(DropMessage)
    effect.entry = entry
    effect.reason = reason
    return effect


cdef WithdrawMessage withdraw_message(Member member, long long token):
    cdef WithdrawMessage effect = WithdrawMessage.__new__(WithdrawMessage)
    effect.member = member
    effect.token = token
    return effect


Effect = SendMessage | KeepMessage | DropMessage | WithdrawMessage
