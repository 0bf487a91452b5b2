"""What the groups of one broker ask of a cluster: where a group is, and to tell other nodes something."""

from typing import Protocol

from braidmq.broker.sharing.far_events import FromMember, FromOwner
from braidmq.messages.message import Message
from braidmq.wire.status import StatusReport


class Giver(Protocol):
    def give(self, node: int, event: FromOwner, message: Message | None) -> None:
        """Let a member's node know what the member gets, or has to forget."""


class Placement(Giver, Protocol):
    boot: int
    """How often this node was started."""

    def number(self, name: str, filter: bytes) -> int:
        """By which all nodes know the group."""

    def owner(self, number: int) -> int | None:
        """The node that has a group of which this node is about to have a member; None: this one."""

    def owner_of(self, number: int) -> int | None:
        """The node that has a group; None if that isn't known."""

    def may_be_elsewhere(self, number: int) -> bool:
        """Whether another node has members of the group, or may have: some have yet to say so."""

    def wait_for_owner(self) -> None:
        """Something waits in a group that stands aside, and nobody knows who has it."""

    def appeared(self, number: int, name: str, filter: bytes) -> None:
        """A session of this node subscribes to the group: the first."""

    def vanished(self, number: int, name: str, filter: bytes) -> None:
        """None does any more."""

    def fill_changed(self, number: int, name: str, filter: bytes, is_full: bool) -> None:
        """The group, which is here, can hardly take more; or it can again."""

    def tell(self, node: int | None, event: FromMember, message: Message | None = None) -> None:
        """Let the node that has a group, or gave something, know of a member. None: let all nodes know."""

    def report(self, node: int, client: str, report: StatusReport) -> None:
        """Let it know what a client says of itself; nothing is lost if that doesn't arrive."""

    def pass_on(self, number: int, message: Message, hops: int) -> None:
        """The message is for a group that another node has, or nobody knows of."""
