"""One core, played with by hand: a test is the peer at the other end of its links."""

from random import Random
from typing import Any

import msgspec

from braidmq.cluster import effects as do
from braidmq.cluster import events as ev
from braidmq.cluster import frames
from braidmq.cluster.clock import HybridClock
from braidmq.cluster.controls import Draining, Forgot, Introduce, Rules
from braidmq.cluster.core import Cluster
from braidmq.cluster.frames import Controls
from braidmq.cluster.handshake import Goodbye, Handshake, Hello, Proof, Welcome
from braidmq.cluster.settings import Identity, Remembered, Settings
from braidmq.wire.frames import FrameReader
from tests.cluster.world import KEY, WALL_S, Broker

CONTROLS: Controls[Any] = Controls((Hello, Proof, Welcome, Goodbye, Introduce, Draining, Rules, Forgot))
SETTINGS = Settings(name="c", key=KEY)


class Core:
    def __init__(
        self, node: int = 100, settings: Settings = SETTINGS, remembered: tuple[Remembered, ...] = ()
    ) -> None:
        me = Identity(node=node, boot=1, name="me", addresses=("me:1",))
        self.now = 1.0
        self.broker = Broker()
        self.cluster = Cluster(
            me, settings, HybridClock(WALL_S), Random(1), self.broker, self.now, remembered
        )
        self.effects: list[Any] = []

    def tell(self, event: object) -> list[Any]:
        found = self.cluster.handle(event, self.now)
        self.effects += found
        return found

    def said(self, link: int) -> list[Any]:
        """The controls that it has sent over a link."""
        reader = FrameReader(1 << 20)
        for effect in self.effects:
            if isinstance(effect, do.Send) and effect.link == link:
                reader.feed(effect.frame)
        return [CONTROLS.read(body) for first, body in reader if first == frames.CONTROL]

    def closed(self) -> list[int]:
        return [effect.link for effect in self.effects if isinstance(effect, do.Close)]

    def told(self) -> list[str]:
        return [effect.sentence for effect in self.effects if isinstance(effect, do.Tell)]

    def goodbye(self, link: int) -> str | None:
        said = [control.reason for control in self.said(link) if isinstance(control, Goodbye)]
        return said[-1] if said else None


class Peer:
    """A peer of a `Core`, on one link."""

    def __init__(
        self,
        core: Core,
        link: int,
        dialled: str | None = None,
        node: int = 200,
        boot: int = 1,
        life: int = 7,
        settings: Settings = SETTINGS,
        wall_ms: int | None = None,
    ) -> None:
        self.core, self.link = core, link
        me = Identity(node=node, boot=boot, name=f"p{node}", addresses=(f"p{node}:1",), keeps=True)
        self.me = me
        wall_ms = int((core.now + WALL_S) * 1000) if wall_ms is None else wall_ms
        self.handshake = Handshake(me, life, settings, wall_ms, Random(link), dials=dialled is None)
        core.tell(ev.LinkOpened(link, dialled))

    def send(self, control: msgspec.Struct) -> list[Any]:
        return self.core.tell(ev.FrameReceived(self.link, frames.CONTROL, msgspec.msgpack.encode(control)))

    def welcome(self, **changed: Any) -> Welcome:
        given: dict[str, Any] = {
            "name": self.me.name,
            "addresses": self.me.addresses,
            "client_address": "",
            "keeps": True,
            "version": "",
            "host": "",
            "worker": (0, 1),
            "position": 0,
            "hlc": 0,
            "absent": False,
            "draining": False,
            "digest": b"",
            "members": (),
            "forgotten": (),
            "parts": {},
        }
        return Welcome(**{**given, **changed})

    def prove(self) -> None:
        """Up to where each knows the other."""
        if self.handshake.dials:
            self.send(self.handshake.hello())
            answer = self.core.said(self.link)[0]
            assert isinstance(answer, Hello), answer
            self.send(self.handshake.take(answer))  # type: ignore[arg-type]
        else:
            answer = self.handshake.take(self.core.said(self.link)[0])
            self.send(answer)  # type: ignore[arg-type]
            proofs = [control for control in self.core.said(self.link) if isinstance(control, Proof)]
            if proofs:
                self.handshake.take(proofs[0])

    def join(self, **changed: Any) -> "Peer":
        self.prove()
        self.send(self.welcome(**changed))
        return self

    @property
    def is_linked(self) -> bool:
        return self.core.cluster.members.link_of(self.me.node) == self.link
