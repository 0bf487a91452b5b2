"""What a shared group asks its caller to do, and the reasons for which it gives a message up.

    Delivery           send it: `member.send(delivery, ...)`, and tell its acknowledgements. It stands for itself, since
                       it is made anyway
    KeepMessage        it waits in the group now: keep it as durably as the publisher was promised
    DropMessage        it is gone; the reason is to be counted. Nothing is dropped without one
    DropPage           as DropMessage, for all that a page holds; nothing that refers to it is left in the group
    WithdrawMessage    the member must forget this delivery, by `member.withdraw(delivery)`; another one gets it
"""

DROP_EXPIRED = "expired"
DROP_QUEUE_FULL = "group queue full"
DROP_NOBODY_ONLINE = "nobody online"
DROP_REJECTED = "rejected by the member"
DROP_NOT_SENDABLE = "not sendable"
DROP_SESSION_ENDED = "session ended during QoS 2"
DROP_GROUP_GONE = "group gone"
DROP_NO_READER = "nobody may read it"
DROP_ANSWERED = "answered by the member that had it"
DROP_REASONS = (DROP_EXPIRED, DROP_QUEUE_FULL, DROP_NOBODY_ONLINE, DROP_REJECTED, DROP_NOT_SENDABLE,
                DROP_SESSION_ENDED, DROP_GROUP_GONE, DROP_NO_READER, DROP_ANSWERED)


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


cdef class DropPage:
    def __repr__(self):
        return f"DropPage({self.page.count} messages, {self.reason!r})"


cdef class WithdrawMessage:
    def __repr__(self):
        return f"WithdrawMessage({self.delivery!r})"


cdef KeepMessage keep_message(Entry entry):
    cdef KeepMessage effect = KeepMessage.__new__(KeepMessage)
    effect.entry = entry
    return effect


cdef DropMessage drop_message(Entry entry, str reason):
    cdef DropMessage effect = DropMessage.__new__(DropMessage)
    effect.entry = entry
    effect.reason = reason
    return effect


cdef DropPage drop_page(GroupPage page, str reason):
    cdef DropPage effect = DropPage.__new__(DropPage)
    effect.page = page
    effect.reason = reason
    return effect


cdef WithdrawMessage withdraw_message(Delivery delivery):
    cdef WithdrawMessage effect = WithdrawMessage.__new__(WithdrawMessage)
    effect.delivery = delivery
    return effect


Effect = Delivery | KeepMessage | DropMessage | DropPage | WithdrawMessage
