"""KeyHolders: which members have unacknowledged messages of which key.

With it an ordered policy can hold a key's next message back until the members that had the key before are
done with it. Invariant: a member is listed under a key exactly as long as its count there is above 0. Cost:
O(1), but remove_member O(keys under way).
"""


cdef class KeyHolders:
    def __cinit__(self):
        self.by_key = {}

    def __len__(self):
        return len(self.by_key)

    def clear(self):
        self.by_key.clear()

    cdef void add(self, object key, Member member):
        cdef dict holders = self.by_key.setdefault(key, {})
        holders[member] = holders.get(member, 0) + 1

    cdef bint remove(self, object key, Member member):
        """One message less. True if the member has nothing of the key any more."""
        cdef dict holders = self.by_key.get(key)
        if holders is None or member not in holders:
            return False
        holders[member] -= 1
        if holders[member]:
            return False
        del holders[member]
        if not holders:
            del self.by_key[key]
        return True

    cdef void remove_member(self, Member member):
        for key, holders in list(self.by_key.items()):
            holders.pop(member, None)
            if not holders:
                del self.by_key[key]

    cdef bint is_held_by_another(self, object key, Member member):
        cdef dict holders = self.by_key.get(key)
        return holders is not None and (len(holders) > 1 or member not in holders)
