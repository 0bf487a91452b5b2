"""What the core of a cluster is told when it starts."""

from hashlib import blake2b
from typing import Final, Literal

import msgspec

Routing = Literal["bloom", "full", "flood", "tree"]
HomeDown = Literal["fresh", "wait"]

SECRET_BYTES_MIN: Final = 16


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`key` is made of the cluster's secret by `key_of`; the core never has the secret itself."""

    name: str
    key: bytes
    failure_s: float = 3.0  # silence after which a node counts as dead
    suback_wait_ms: int = 200
    home_down: HomeDown = "fresh"  # what becomes of a client whose session is at a dead node
    routing: Routing = "bloom"
    neighbours: tuple[str, ...] = ()  # names of nodes, for `flood`
    peers_max: int = 256
    keep_for_dead_s: float = 24 * 3600.0
    digest: bytes = b""  # of the rules and group settings that should be the same everywhere

    @property
    def cluster(self) -> bytes:
        """What nodes of one cluster have in common, and say to each other."""
        return _made_of(self.name, self.key, 16)

    @property
    def tombstone_s(self) -> float:
        """How long it is remembered that a retained message was deleted: longer than a node may be away."""
        return max(24 * 3600.0, self.keep_for_dead_s)

    @property
    def filter_seed(self) -> int:
        return int.from_bytes(_made_of(self.name, self.key, 8), "little")


def key_of(secret: bytes) -> bytes:
    return blake2b(secret, digest_size=32, person=b"braidmq key").digest()


def _made_of(name: str, key: bytes, size_bytes: int) -> bytes:
    return blake2b(name.encode(), key=key, digest_size=size_bytes, person=b"braidmq cluster").digest()


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who this node is. `boot` counts its starts: of two lives of a node the one with the higher is real."""

    node: int  # 64 bits, drawn once
    boot: int  # 32 bits
    name: str
    addresses: tuple[str, ...] = ()  # host:port for links
    client_address: str = ""  # for a client that is sent here
    keeps: bool = False  # whether its sessions and queues survive a restart
    version: str = ""
    host: str = ""  # the same for all workers of a machine
    worker: tuple[int, int] = (0, 1)  # which of how many


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """A member as it is written down, to be found again after a restart."""

    node: int
    boot: int
    name: str
    addresses: tuple[str, ...] = ()
    client_address: str = ""
    keeps: bool = False
    dead_since_ms: int = 0  # wall clock; 0: not dead
    is_forgotten: bool = False  # by the operator: it may not come back under this id
