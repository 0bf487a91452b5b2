"""A machine's place in the cluster: who it is over its lives, and how one life is joined to the others."""

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

from braidmq.broker.peers import Peer
from braidmq.cluster.clock import HybridClock
from braidmq.cluster.events import Discovered
from braidmq.cluster.settings import Identity, Remembered, Settings, key_of
from braidmq.clustered.assembly import make_node
from braidmq.sim.cluster.network import End

if TYPE_CHECKING:
    from braidmq.sim.cluster.machine import Life

NOTED_S: Final = 0.02  # within this the file with the members is written
SETTINGS: Final = Settings(name="simulated", key=key_of(b"sixteen bytes or more"))


@dataclass(slots=True)
class Papers:
    """What a node's directory says of its place; gone with the disk."""

    node: int
    boots: int = 0
    members: tuple[Remembered, ...] = ()


@dataclass(frozen=True, slots=True)
class Plans:
    """What its configuration says."""

    seeds: tuple[str, ...]  # addresses of links
    settings: Settings = field(default=SETTINGS)


class Joined:
    """One life as a node of the cluster; the shell of its joint."""

    def __init__(self, life: "Life", papers: Papers, plans: Plans) -> None:
        self._life = life
        self._papers = papers
        self._latest = papers.members
        papers.boots += 1
        machine = life.machine
        identity = Identity(
            node=papers.node,
            boot=papers.boots,
            name=machine.name,
            addresses=(f"{machine.name}:link",),
            client_address=f"{machine.name}:mqtt",
            keeps=True,
        )
        self.node = make_node(
            life.broker,
            identity,
            plans.settings,
            HybridClock(life.wall_offset_s),
            Random(machine.rng.getrandbits(64)),
            self,
            life.now,
            papers.members,
        )
        life.turn(lambda: self._start(plans.seeds))

    def _start(self, seeds: tuple[str, ...]) -> None:
        self.node.start(self._life.now)
        self.node.tell(Discovered(seeds))

    def linked(self) -> tuple[str, ...]:
        """Names of the nodes with which this one takes itself to be linked."""
        members = self.node.cluster.members
        return tuple(sorted(member.name for member in members if member.is_linked))

    def ways(self, topic: str) -> set[str]:
        """Names of the nodes to which this one sends what is published here on a topic."""
        found = set()
        for target in self.node.routes.hops(topic.encode()):
            peer = target.receiver
            assert isinstance(peer, Peer)
            member = self.node.cluster.members.info(peer.node)
            found.add(member.name if member is not None else "")
        return found

    # ---- what the joint asks of its shell ------------------------------------------------------------

    def dial(self, address: str) -> None:
        life = self._life
        life.machine.network.dial(
            life.machine.name,
            address,
            lambda end: self._opened(end, address),
            lambda why: life.turn(lambda: self.node.not_reached(address, why, life.now)),
        )

    def _opened(self, end: End, address: str) -> None:
        life = self._life
        if life.is_over:
            end.vanish()
        else:
            life.open_link(end, lambda link: self.node.open_link(link, address, life.now))

    def accept(self, end: End) -> None:
        life = self._life
        life.open_link(end, lambda link: self.node.open_link(link, None, life.now))

    def remember(self, members: tuple[Remembered, ...]) -> None:
        """Written aside, so a crash may come first."""
        machine = self._life.machine
        self._latest = members
        written_s = machine.network.clock.now + machine.rng.uniform(0.0, NOTED_S)
        machine.network.clock.at(written_s, self._write)

    def _write(self) -> None:
        if not self._life.is_over:
            self._papers.members = self._latest

    def tell(self, level: str, sentence: str) -> None:
        """Nobody listens."""
