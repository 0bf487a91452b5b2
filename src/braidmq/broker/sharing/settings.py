"""How a shared group deals with what it can't deliver at once. Values, with the reason for each default."""

from typing import Literal

import msgspec

from braidmq.limits import MIB


class GroupSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    messages_max: int = 1_000_000  # hours without any member; bytes are what runs out
    bytes_max: int = 1024 * MIB

    # Of those bytes in memory: what is beyond waits on disk or, without one, is not taken.
    memory_bytes_max: int = 16 * MIB

    # What gives way when the queue is full. drop_new: this group alone goes without, so that one that
    # everybody has abandoned stops nobody. refuse lets QoS 1 and 2 publishers be told (0x97) and slow down;
    # push goes over the windows of late binding, to the member that is expected to be done first.
    overflow: Literal["drop_new", "drop_oldest", "push", "refuse"] = "drop_new"

    # QoS 0 waits too while nobody is online: a group is a work queue, and workers restart.
    keep_qos0: bool = True

    # When others get the QoS 1 messages that a member has not acknowledged. auto: at the end of its session,
    # but at once under policies that keep the order of keys, since its keys go to others at once as well.
    requeue: Literal["auto", "session_end", "disconnect"] = "auto"
