"""What is known of a shared group and its members, as values: for the admin API, $SYS and metrics."""

from typing import Final

import msgspec

from braidmq.broker.sharing.member import Member
from braidmq.broker.sharing.receiver import GroupReceiver, SessionMember

MEMBERS_SHOWN_MAX: Final = 1_000
MS_PER_S: Final = 1000.0


class MemberState(msgspec.Struct, frozen=True):
    """A member of a shared group.

    `given_messages` and `share` count what the group has given it since it came, out of what it gave to all
    who are there; `in_flight_messages` is all that the client has not acknowledged. `reported_queue` and
    `service_ms` are what it reported or, if it acknowledges when it has processed, what that tells; null is
    not known. `expected_wait_ms` is how long a message would wait there.
    """

    client_id: str
    connected: bool
    qos: int
    in_flight_messages: int
    queued_messages: int
    given_messages: int
    share: float
    acks_when_processed: bool
    reported_queue: int | None
    service_ms: float | None
    expected_wait_ms: float | None


class GroupState(msgspec.Struct, frozen=True):
    """A shared group; the waiting messages wait in it, because no member is free or none is connected.

    `lasting` says that they survive a crash, since the session of a member does.
    """

    name: str
    filter: str
    policy: str
    waiting_messages: int
    waiting_bytes: int
    messages_max: int
    bytes_max: int
    lasting: bool
    member_count: int
    members: list[MemberState]


def state_of(group: GroupReceiver, now: float, members_max: int = MEMBERS_SHOWN_MAX) -> GroupState:
    core = group.core
    members = core.members
    given_total = sum(seat.chosen for seat in core.policy.rotation)
    shown = [_state_of_member(group, member, given_total, now) for member in members[:members_max]]
    return GroupState(
        group.name,
        group.filter.decode(),
        core.policy.name,
        len(core.queue),
        core.queue.size_bytes,
        core.queue.messages_max,
        core.queue.bytes_limit,
        group.is_lasting,
        len(members),
        shown,
    )


def _state_of_member(group: GroupReceiver, member: Member, given_total: int, now: float) -> MemberState:
    policy, place = group.core.policy, group.core.place(member)
    assert place is not None
    is_seated = member in policy
    given = policy.share(member) if is_seated else 0
    service_s = known_service_s(member)
    return MemberState(
        member.name,
        place.is_online,
        place.qos,
        member.session.inflight.count if isinstance(member, SessionMember) else member.inflight,
        member.session.queued if isinstance(member, SessionMember) else 0,
        given,
        given / given_total if given_total else 0.0,
        member.acks_when_processed,
        member.reported_queue if member.has_status else None,
        service_s * MS_PER_S if service_s is not None else None,
        policy.expected_wait(member, now) * MS_PER_S if is_seated else None,
    )


def known_service_s(member: Member) -> float | None:
    """How long the member takes for a message, by its reports or acknowledgements; None: they don't tell."""
    if member.has_status and member.reported_service_s >= 0:
        return member.reported_service_s
    if member.acks_when_processed and member.acked_service_s >= 0:
        return member.acked_service_s
    return None
