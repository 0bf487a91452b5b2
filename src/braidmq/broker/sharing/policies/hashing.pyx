"""Policies that bind a key to a member: hash_client (the publisher) and hash_topic, by rendezvous hashing.

A key belongs to the member for which mix(hash(key) ^ hash(member)) is largest. So a join takes 1/n of the
keys from the others and touches no other key, a leave spreads only the keys of the one that left, and all
brokers that know the same members agree without talking. The hash has a fixed key for that reason: it is
shared by processes. (Rejected: hash modulo n as EMQX has it, which moves nearly all keys at each join.)

A member with full Receive Maximum is waited for: its keys' messages stay in the group, in order. Cost: one
SipHash of the key and one multiply-mix per member, about 1 ns each.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint64_t

from braidmq.broker.sharing.policies.base cimport Policy, Seat, has_room
from braidmq.broker.sharing.member cimport Member
from braidmq.topics.siphash cimport SipKey, siphash

cdef SipKey KEY_SEED = [0x6272616964206b65, 0x7973206f66206772]
cdef SipKey MEMBER_SEED = [0x6272616964206d65, 0x6d62657273206f66]


cdef uint64_t hash_of(object value, SipKey seed) except? 0:
    """`value`: text or UTF-8 bytes; None is as the empty text."""
    cdef bytes data
    if value is None:
        data = b""
    elif isinstance(value, str):
        data = (<str>value).encode()
    else:
        data = value
    return siphash(<const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), seed)


cdef inline uint64_t mixed(uint64_t x) noexcept:
    """Finaliser of splitmix64: every bit of the input reaches every bit of the result."""
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL
    return x ^ (x >> 31)


cdef class HashPolicy(Policy):
    cdef bint is_by_topic

    def __init__(self, bint by_topic):
        self.name = "hash_topic" if by_topic else "hash_client"
        self.is_ordered = True
        self.is_by_topic = by_topic

    cpdef object key(self, object publisher, object topic):
        return topic if self.is_by_topic else publisher

    cpdef Member owner(self, object publisher, object topic):
        cdef Seat seat = self.owner_seat(publisher, topic)
        return None if seat is None else seat.member

    cdef Seat owner_seat(self, object publisher, object topic):
        cdef uint64_t key_hash = hash_of(topic if self.is_by_topic else publisher, KEY_SEED)
        cdef uint64_t weight, best_weight = 0
        cdef Seat seat, best = None
        for seat in self.rotation:
            if seat.is_barred:
                continue
            weight = mixed(key_hash ^ seat.name_hash)
            if best is None or weight > best_weight:
                best, best_weight = seat, weight
        return best

    cpdef Member choose(self, double now, object publisher, object topic, int qos=0, Py_ssize_t pending=1):
        cdef Seat seat = self.owner_seat(publisher, topic)
        if seat is None or not has_room(seat, qos):
            return None
        return seat.member

    cdef void seated(self, Seat seat, double now):
        seat.name_hash = hash_of(seat.member.name, MEMBER_SEED)
