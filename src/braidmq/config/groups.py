"""What a node is told about shared groups: the table [groups] of its configuration (see `config`)."""

from typing import Annotated, Any, Literal

import msgspec

from braidmq.limits import MIB

PolicyName = Literal[
    "random", "round_robin", "weighted", "sticky", "hash_client", "hash_topic",
    "capacity", "status", "status2", "least_inflight", "adaptive",
]
OverflowRule = Literal["drop_new", "drop_oldest", "push", "refuse"]
RequeueRule = Literal["auto", "session_end", "disconnect"]


class GroupOverride(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is different for some shared groups; what isn't set is as [groups] says."""

    policy: PolicyName | None = None
    options: dict[str, Any] | None = None
    messages_max: Annotated[int, msgspec.Meta(ge=1)] | None = None
    bytes_max: Annotated[int, msgspec.Meta(ge=1024)] | None = None
    memory_bytes_max: Annotated[int, msgspec.Meta(ge=1024)] | None = None
    overflow: OverflowRule | None = None
    keep_qos0: bool | None = None
    requeue: RequeueRule | None = None


class GroupsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Shared subscriptions: who gets a message, and what waits in a group (docs/shared-subscriptions.md)."""

    policy: Annotated[PolicyName, msgspec.Meta(
        description="How the member that gets a message is chosen, in groups without a policy of their own.",
    )] = "adaptive"
    options: Annotated[dict[str, Any], msgspec.Meta(
        description="Options of that policy, such as `weights` of weighted.",
    )] = {}
    messages_max: Annotated[int, msgspec.Meta(
        ge=1,
        description="How many messages wait in a group for which no member is free, or none is there.",
    )] = 1_000_000
    bytes_max: Annotated[int, msgspec.Meta(
        ge=1024,
        description="The same bound in bytes of topics, payloads and properties, with 200 more a message.",
    )] = 1024 * MIB
    memory_bytes_max: Annotated[int, msgspec.Meta(
        ge=1024,
        description="How many of those bytes wait in memory. What is beyond waits on disk, in order; "
        "without a data directory the group is full then.",
    )] = 16 * MIB
    overflow: Annotated[OverflowRule, msgspec.Meta(
        description="What happens when so much waits. drop_new: this group goes without the new message, the "
        "others get it. drop_oldest: the oldest is dropped. push: the oldest goes to the member that is "
        "expected to be done first, even if its window is full; if none has room it is dropped. Each is "
        "counted as queue_full, and the publisher is told success. refuse: QoS 1 and 2 publishers are told "
        "0x97 (MQTT 3: the connection ends) and QoS 2 goes to nobody, so that what was acknowledged is never "
        "given up: for groups whose publishers should wait for them, since one that is abandoned stops them.",
    )] = "drop_new"
    keep_qos0: Annotated[bool, msgspec.Meta(
        description="Let QoS 0 messages wait too while no member is there. They don't survive a restart.",
    )] = True
    requeue: Annotated[RequeueRule, msgspec.Meta(
        description="When others get the QoS 1 messages that a member hasn't acknowledged: at the end of its "
        "session, or when it disconnects. auto: when it disconnects under policies that keep an order "
        "(sticky, hash_client, hash_topic), else at the end.",
    )] = "auto"
    status_interval_ms: Annotated[int, msgspec.Meta(
        ge=50, le=3_600_000,
        description="How often clients that report their status are asked to, in the CONNACK.",
    )] = 1_000
    status_topic: Annotated[bool, msgspec.Meta(
        description="Take a PUBLISH to `$load/CLIENT-ID` as the status report of that client, for clients of "
        "MQTT 3.1.1. MQTT 5 clients can agree on it in CONNECT, whatever is set here.",
    )] = False
    override: Annotated[dict[str, GroupOverride], msgspec.Meta(
        description="Other values of policy, options, messages_max, bytes_max, memory_bytes_max, "
        "overflow, keep_qos0 and requeue for the groups of a name, or for one `name/filter` alone, which "
        "comes before its name's.",
    )] = {}
