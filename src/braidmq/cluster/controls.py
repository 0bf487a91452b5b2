"""What the members of a cluster tell each other about members. Parts have controls of their own."""

from braidmq.cluster.frames import Control
from braidmq.cluster.handshake import U64, Digest, Introduced


class Introduce(Control, frozen=True):
    """Nodes that are new to the sender, to be dialled."""

    members: tuple[Introduced, ...]


class Draining(Control, frozen=True):
    """The sender takes no new clients, or does again."""

    is_draining: bool


class Rules(Control, frozen=True):
    """The sender has other rules or group settings from now on."""

    digest: Digest


class Forgot(Control, frozen=True):
    """The operator says that this node won't come back."""

    node: U64
