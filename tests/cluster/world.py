"""Cores of nodes and the links between them under a virtual clock: no broker, no socket.

A link keeps the order of its frames and delays them. What is sent into a partition waits and arrives after
it, as TCP would have it; a dial into one is not answered. A host that goes down says nothing: its peers'
links stay until they notice. A process that is killed has its links closed by its kernel.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from math import inf
from random import Random

from braidmq.cluster import effects as do
from braidmq.cluster import events as ev
from braidmq.cluster.clock import HybridClock
from braidmq.cluster.core import Cluster
from braidmq.cluster.parts import Part
from braidmq.cluster.settings import Identity, Remembered, Settings, key_of
from braidmq.sim.world.clock import Clock
from braidmq.wire.frames import FrameReader

KEY = key_of(b"sixteen bytes, at least")
DIAL_S = 1.0  # after which a dial is given up
WALL_S = 1_800_000_000.0


@dataclass
class End:
    """One end of a link."""

    node: "Node"
    number: int
    other: "End | None" = None
    last_s: float = 0.0  # when the last frame that was sent here arrives
    reader: FrameReader = field(default_factory=lambda: FrameReader(1 << 20))
    is_open: bool = True


@dataclass
class Broker:
    """What a core asks of the broker beside it."""

    positions: dict[int, int] = field(default_factory=dict)
    clients: int = 0

    def kept_position(self, peer: int) -> int:
        return self.positions.get(peer, 0)

    def connections(self) -> int:
        return self.clients


class Node:
    def __init__(self, world: "World", name: str, keeps: bool, skew_s: float, settings: Settings) -> None:
        self.world, self.name, self.keeps, self.settings = world, name, keeps, settings
        self.address = f"{name}:7000"
        self.skew_s = skew_s
        self.id = world.rng.getrandbits(64)
        self.boot = 0
        self.remembered: tuple[Remembered, ...] = ()
        self.broker = Broker()
        self.ends: dict[int, End] = {}
        self.told: list[do.Tell] = []
        self.effects: list[object] = []
        self.is_up = False
        self.wakes_at_s = inf
        self.backlog: list[object] | None = None  # what has happened while it stands still
        self.make_parts: Callable[[Cluster], list[Part]] = lambda cluster: []

    def start(self) -> None:
        if not self.keeps:
            self.id, self.remembered = self.world.rng.getrandbits(64), ()
        self.boot += 1
        self.is_up = True
        identity = Identity(
            node=self.id,
            boot=self.boot,
            name=self.name,
            addresses=(self.address,),
            client_address=f"{self.name}:1883",
            keeps=self.keeps,
        )
        self.cluster = Cluster(
            identity,
            self.settings,
            HybridClock(WALL_S + self.skew_s),
            Random(self.world.rng.getrandbits(64)),
            self.broker,
            self.world.clock.now,
            self.remembered,
        )
        for part in self.make_parts(self.cluster):
            self.cluster.add(part)
        self.tell(ev.Discovered(self.world.seeds))

    def tell(self, event: object) -> None:
        if not self.is_up:
            return
        if self.backlog is not None:
            self.backlog.append(event)
            return
        for effect in self.cluster.handle(event, self.world.clock.now):
            self.effects.append(effect)
            self._carry_out(effect)
        next_at_s = self.cluster.next_at_s
        if next_at_s < self.wakes_at_s:
            self.wakes_at_s = next_at_s
            self.world.clock.at(max(next_at_s, self.world.clock.now), self._wake, self.boot, next_at_s)

    def freeze(self, seconds: float) -> None:
        """The process is stopped for a while; what comes meanwhile is found afterwards."""
        if self.backlog is None:
            self.backlog = []
            self.world.clock.at(self.world.clock.now + seconds, self._thaw, self.boot)

    def _thaw(self, boot: int) -> None:
        if boot == self.boot and self.backlog is not None:
            events, self.backlog = self.backlog, None
            for event in events:
                self.tell(event)

    def _wake(self, boot: int, at_s: float) -> None:
        if boot == self.boot and at_s == self.wakes_at_s:
            self.wakes_at_s = inf
            self.tell(ev.TimeCame())
            # else a shell would spin
            assert self.cluster.next_at_s > self.world.clock.now or self.backlog is not None

    def _carry_out(self, effect: object) -> None:
        if isinstance(effect, do.Dial):
            self.world.dial(self, effect.address)
        elif isinstance(effect, do.Send) and effect.link in self.ends:
            self.world.send(self.ends[effect.link], effect.frame)
        elif isinstance(effect, do.Close) and effect.link in self.ends:
            self.world.close(self.ends.pop(effect.link))
        elif isinstance(effect, do.MembersChanged):
            self.remembered = effect.remembered
        elif isinstance(effect, do.Tell):
            self.told.append(effect)

    def stop(self, is_sudden: bool) -> None:
        self.is_up = False
        self.backlog = None
        self.wakes_at_s = inf
        for end in list(self.ends.values()):
            end.is_open = False
            if not is_sudden:
                self.world.close(end)
        self.ends.clear()

    def states(self) -> dict[str, str]:
        return {member.name: str(member.state) for member in self.cluster.members}


class World:
    def __init__(self, seed: int = 1, delay_s: tuple[float, float] = (0.001, 0.02)) -> None:
        self.rng = Random(seed)
        self.clock = Clock()
        self.delay_s = delay_s
        self.nodes: dict[str, Node] = {}
        self.seeds: tuple[str, ...] = ()
        self.blocked: set[tuple[str, str]] = set()  # from, to
        self._waiting: dict[tuple[str, str], list[tuple[Callable[..., None], tuple[object, ...]]]]
        self._waiting = defaultdict(list)
        self._numbers = count(1)

    def add(self, name: str, keeps: bool = True, skew_s: float = 0.0, **settings: object) -> Node:
        given = {"name": "c", "key": KEY, **settings}
        self.nodes[name] = Node(self, name, keeps, skew_s, Settings(**given))  # type: ignore[arg-type]
        return self.nodes[name]

    def run(self, seconds: float) -> None:
        self.clock.run_until(self.clock.now + seconds)

    # -- faults ----------------------------------------------------------------------------------------------

    def block(self, source: str, target: str) -> None:
        self.blocked.add((source, target))

    def heal(self) -> None:
        self.blocked.clear()
        for waiting in self._waiting.values():
            for action, arguments in waiting:
                self.clock.at(self.clock.now, action, *arguments)
        self._waiting.clear()

    def cut(self, end: End) -> None:
        """Both ends see that the connection is gone."""
        for one in (end, end.other):
            if one is not None and one.is_open:
                self._lost(one, "cut")

    # -- links -----------------------------------------------------------------------------------------------

    def dial(self, node: Node, address: str) -> None:
        self.clock.at(self.clock.now + self._delay(), self._answer, node, node.boot, address)

    def _answer(self, node: Node, boot: int, address: str) -> None:
        target = self.nodes.get(address.split(":")[0])
        if boot != node.boot or not node.is_up:
            return
        if target is None or not target.is_up:
            node.tell(ev.NotReached(address, "refused"))
        elif {(node.name, target.name), (target.name, node.name)} & self.blocked:
            self.clock.at(self.clock.now + DIAL_S, self._give_up, node, boot, address)
        else:
            near, far = End(node, next(self._numbers)), End(target, next(self._numbers))
            near.other, far.other = far, near
            node.ends[near.number], target.ends[far.number] = near, far
            target.tell(ev.LinkOpened(far.number, None, f"{node.name}:5"))
            node.tell(ev.LinkOpened(near.number, address))

    def _give_up(self, node: Node, boot: int, address: str) -> None:
        if boot == node.boot:
            node.tell(ev.NotReached(address, "no answer"))

    def send(self, end: End, data: bytes) -> None:
        self._arrange(end, self._arrive, data)

    def close(self, end: End) -> None:
        end.is_open = False
        self._arrange(end, self._lost, "closed")

    def _arrange(self, end: End, action: Callable[..., None], what: object) -> None:
        """Let something happen at the other end, behind all that was sent before."""
        other = end.other
        assert other is not None
        other.last_s = max(other.last_s, self.clock.now + self._delay())
        self.clock.at(other.last_s, self._pass, end, other, action, what)

    def _pass(self, end: End, other: End, action: Callable[..., None], what: object) -> None:
        way = (end.node.name, other.node.name)
        if way in self.blocked:
            self._waiting[way].append((self._pass, (end, other, action, what)))
        elif other.is_open:
            action(other, what)
        elif end.is_open and other.number not in other.node.ends and other.node.is_up:
            self._arrange(other, self._lost, "reset")  # the other side knows nothing of it any more

    def _arrive(self, end: End, data: bytes) -> None:
        end.reader.feed(data)
        for first, body in end.reader:
            if end.is_open:
                end.node.tell(ev.FrameReceived(end.number, first, body))

    def _lost(self, end: End, why: str) -> None:
        end.is_open = False
        end.node.ends.pop(end.number, None)
        end.node.tell(ev.LinkLost(end.number, why))

    def _delay(self) -> float:
        return self.rng.uniform(*self.delay_s)


def cluster_of(count_: int, seed: int = 1, **settings: object) -> World:
    """A world of running nodes n0, n1, ... that were given the first as their seed."""
    world = World(seed)
    world.seeds = ("n0:7000",)
    for index in range(count_):
        world.add(f"n{index}", **settings)  # type: ignore[arg-type]
    for node in world.nodes.values():
        node.start()
    return world
