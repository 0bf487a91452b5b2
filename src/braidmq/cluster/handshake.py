"""How two nodes get to trust a link: each proves that it knows the secret before it is told anything.

```
dialler                                acceptor
   │── Hello ─────────────────────────────▶│
   │◀───────────────────── Hello + proof ──│
   │── Proof, Welcome ────────────────────▶│   open for the acceptor
   │◀─────────────────────────── Welcome ──│   open for the dialler
```

A Hello has nothing but what the proofs need: names, addresses and members are in the Welcome. A proof is an
HMAC over the role and all of both Hellos, so it is worth nothing on another link, nor in the other direction.
"""

import hmac
from enum import Enum, auto
from hashlib import sha256
from random import Random
from struct import pack
from typing import Annotated, Any, Final

import msgspec

from braidmq.cluster.clock import SKEW_MAX_S
from braidmq.cluster.frames import Control, Controls
from braidmq.cluster.settings import Identity, Settings

PROTOCOLS: Final = (1, 1)  # the oldest and the newest that this version speaks
_NONCE_BYTES: Final = 16

U32 = Annotated[int, msgspec.Meta(ge=0, le=0xFFFF_FFFF)]
U64 = Annotated[int, msgspec.Meta(ge=0)]  # msgpack has no larger ones
Name = Annotated[str, msgspec.Meta(max_length=255)]
Names = Annotated[tuple[Name, ...], msgspec.Meta(max_length=16)]
Digest = Annotated[bytes, msgspec.Meta(max_length=64)]
Nonce = Annotated[bytes, msgspec.Meta(min_length=_NONCE_BYTES, max_length=_NONCE_BYTES)]


class Hello(Control, frozen=True):
    protocols: tuple[U32, U32]
    cluster: Annotated[bytes, msgspec.Meta(max_length=64)]
    node: U64
    boot: U32
    life: U64  # drawn at each start: tells a copy of a node, and oneself
    wall_ms: U64
    nonce: Nonce
    proof: Annotated[bytes, msgspec.Meta(max_length=32)] = b""  # only in the acceptor's


class Proof(Control, frozen=True):
    proof: Annotated[bytes, msgspec.Meta(max_length=32)]


class Introduced(msgspec.Struct, frozen=True, array_like=True):
    """A member that others may dial."""

    node: U64
    boot: U32
    name: Name
    addresses: Names
    keeps: bool


class Welcome(Control, frozen=True):
    name: Name
    addresses: Names
    client_address: Name
    keeps: bool
    version: Name
    host: Name
    worker: tuple[U32, U32]
    position: U64  # the highest sequence of yours that I have kept
    hlc: U64
    absent: bool  # I counted you dead
    draining: bool
    digest: Digest
    members: tuple[Introduced, ...]
    forgotten: tuple[U64, ...]  # ids that the operator won't have back
    parts: dict[str, Any]


class Goodbye(Control, frozen=True):
    reason: Name


HANDSHAKE: Final[Controls[Hello | Proof | Welcome | Goodbye]] = Controls((Hello, Proof, Welcome, Goodbye))


class RefusalError(Exception):
    """The handshake ends with this `Goodbye`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Stage(Enum):
    """What is expected next."""

    HELLO = auto()
    PROOF = auto()
    WELCOME = auto()


class Handshake:
    """One side of a handshake, up to where the peer is proven. What it has received is given to `take`."""

    def __init__(
        self, identity: Identity, life: int, settings: Settings, wall_ms: int, rng: Random, dials: bool
    ) -> None:
        self.dials = dials
        self.stage = Stage.HELLO
        self.peer: Hello | None = None  # what it said; proven when `stage` is WELCOME
        self._key = settings.key
        self._mine = Hello(
            protocols=PROTOCOLS,
            cluster=settings.cluster,
            node=identity.node,
            boot=identity.boot,
            life=life,
            wall_ms=wall_ms,
            nonce=rng.getrandbits(8 * _NONCE_BYTES).to_bytes(_NONCE_BYTES, "little"),
        )

    @property
    def is_proven(self) -> bool:
        return self.stage is Stage.WELCOME

    def hello(self) -> Hello:
        """The dialler's first word."""
        return self._mine

    def take(self, control: Hello | Proof) -> Hello | Proof | None:
        """What to answer. The peer is proven when `is_proven` has become true; raises RefusalError."""
        if isinstance(control, Hello) and self.stage is Stage.HELLO:
            return self._take_hello(control)
        if isinstance(control, Proof) and self.stage is Stage.PROOF:
            self._check(control.proof, b"dialler")
            self.stage = Stage.WELCOME
            return None
        raise RefusalError("order")

    def _take_hello(self, hello: Hello) -> Hello | Proof:
        if not hmac.compare_digest(hello.cluster, self._mine.cluster):
            raise RefusalError("cluster")
        oldest, newest = hello.protocols
        if max(oldest, PROTOCOLS[0]) > min(newest, PROTOCOLS[1]):
            raise RefusalError("protocol")
        self.peer = hello
        if self.dials:
            self._check(hello.proof, b"acceptor")
            self.stage = Stage.WELCOME
            return Proof(self._proof(b"dialler"))
        self.stage = Stage.PROOF
        return msgspec.structs.replace(self._mine, proof=self._proof(b"acceptor"))

    def _check(self, proof: bytes, role: bytes) -> None:
        if not hmac.compare_digest(proof, self._proof(role)):
            raise RefusalError("proof")

    def _proof(self, role: bytes) -> bytes:
        assert self.peer is not None
        dialler, acceptor = (self._mine, self.peer) if self.dials else (self.peer, self._mine)
        return hmac.digest(self._key, role + b"\0" + _bytes_of(dialler) + _bytes_of(acceptor), sha256)


def _bytes_of(hello: Hello) -> bytes:
    """All of a Hello but its proof; of fixed length, so that two of them can't be cut differently."""
    numbers = (*hello.protocols, hello.node, hello.boot, hello.life, hello.wall_ms)
    return pack("<IIQIQQ", *numbers) + hello.nonce


def are_apart(wall_ms: int, other_ms: int) -> bool:
    """Whether two clocks differ by more than a cluster bears."""
    return abs(wall_ms - other_ms) > SKEW_MAX_S * 1000
