"""Shared subscriptions: who of a group gets a message, and what waits in the group. Pure: no I/O and no
clock.

    member      what is known of one session that is in groups
    base        Policy, the interface; simple, hashing, reported, acknowledged: the policies
    registry    their names and options
    group       SharedGroup: messages from publication to acknowledgement; queue, holders, effects, settings

Members' status reports are read by `wire.status`, the packet that carries them by `wire.pingreq`.
"""

from braidmq.broker.policies.base import Policy
from braidmq.broker.policies.effects import (
    DROP_REASONS,
    DropMessage,
    KeepMessage,
    SendMessage,
    WithdrawMessage,
)
from braidmq.broker.policies.group import SharedGroup
from braidmq.broker.policies.member import Member
from braidmq.broker.policies.registry import DEFAULT_POLICY, POLICIES, make_policy, migrate
from braidmq.broker.policies.settings import GroupSettings
from braidmq.wire.status import StatusFault, StatusReport, parse_status

__all__ = [
    "DEFAULT_POLICY",
    "DROP_REASONS",
    "POLICIES",
    "DropMessage",
    "GroupSettings",
    "KeepMessage",
    "Member",
    "Policy",
    "SendMessage",
    "SharedGroup",
    "StatusFault",
    "StatusReport",
    "WithdrawMessage",
    "make_policy",
    "migrate",
    "parse_status",
]
