"""Makes a broker a node of its cluster: its identity, its links, and whom it looks for.

How a node starts. It listens for other nodes before it listens for clients, and dials whom it remembers and
whom it was told of. If it remembers somebody, or was told of nobody, it goes on at once. Else it waits for
one of its seeds, 30 seconds at most. Any two nodes that wait for each other meet on the way, so all of a
cluster can be started at the same time. A node that finds its own address among its seeds may be the first:
it waits for `failure_s` only, then serves alone; whoever comes later finds it, and both learn from each other
as after a partition. So three nodes with one list of three seeds can be started one by one, or together.
"""

import asyncio
import re
import socket
import time
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from random import SystemRandom
from typing import Final

import msgspec
import structlog

import braidmq
from braidmq.cluster.clock import HybridClock
from braidmq.cluster.effects import Level
from braidmq.cluster.events import Discovered, RulesChanged
from braidmq.cluster.settings import Identity, Remembered, Settings, key_of
from braidmq.clustered.assembly import make_node
from braidmq.clustered.operating import Operator
from braidmq.clustered.topics import ClusterTopics
from braidmq.config import Config, Place, parse_place
from braidmq.errors import ConfigError, StoreError
from braidmq.net.discovery import ANYWHERE, ANYWHERE6, ASK_AGAIN_S, Seeds, address_towards
from braidmq.net.identity import Memory, NodeId, start_as
from braidmq.net.keepalive import keep_alive
from braidmq.net.peers import PeerLinks, bind
from braidmq.net.sockets import Poller
from braidmq.net.stream import Turn, clock_s
from braidmq.net.tls import LinkContexts
from braidmq.worker import Worker

log = structlog.get_logger("braidmq.cluster")

JOIN_S: Final = 30.0
LOOK_S: Final = 0.02  # how often somebody who waits looks whether it is over
ASK_FOR_SEEDS_S: Final = 1.0  # while nobody has been met
WILDCARDS: Final = ("0.0.0.0", "::")
NAME_MAX: Final = 48
ID_SHOWN: Final = 4  # digits of a node's id that make its name its own


async def open_cluster(
    config: Config,
    turn: Turn,
    poller: Poller | None,
    contexts: LinkContexts | None,
    stop: Callable[[], None],
    worker: Worker | None = None,
) -> "Clustering":
    """The cluster of a broker, whose other nodes may dial it from now on.

    `contexts` encrypt its links; `stop` ends the node. A worker's cluster is its siblings.
    """
    listening = await bind(config.cluster.place) if worker is None else [_given(worker.link)]
    places = [Place(*one.getsockname()[:2]) for one in listening]
    me = identity_of(config, start_as(config.store.directory), places)
    if worker is not None:
        me = msgspec.structs.replace(me, worker=(worker.index, worker.count))
    clustering = Clustering(config, turn, poller, contexts, me, places, stop)
    clustering.links.accept(listening)
    return clustering


def _given(descriptor: int) -> socket.socket:
    listening = socket.socket(fileno=descriptor)
    listening.setblocking(False)
    keep_alive([listening])
    return listening


class Clustering:
    """A broker's cluster, as its node holds it; made by `open_cluster`."""

    def __init__(
        self,
        config: Config,
        turn: Turn,
        poller: Poller | None,
        contexts: LinkContexts | None,
        me: Identity,
        places: list[Place],
        stop: Callable[[], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        self._config = config.cluster
        self._turn = turn
        self._siblings = me.worker[1] - 1
        self._memory: Memory[tuple[Remembered, ...]] = Memory(
            config.store.directory,
            tuple[Remembered, ...],
            lambda write: loop.run_in_executor(None, _write_or_tell, write),
        )
        remembered = self._memory.load(())
        self._remembers_somebody = any(not entry.is_forgotten for entry in remembered)
        clock = HybridClock(time.time() - clock_s())
        self.node = make_node(
            turn.broker, me, settings_of(config), clock, SystemRandom(), self, clock_s(), remembered
        )
        turn.broker.hub.awaits_peers = config.cluster.ack == "peers"
        self.operator = Operator(self.node, config.cluster.drain_per_s, stop)
        self.links = PeerLinks(turn, poller, self.node, contexts, config.limits.peers_max)
        self.addresses = [place.text for place in places]
        own = [*places, *(place for text in me.addresses if (place := parse_place(text)) is not None)]
        self._seeds = Seeds(config.cluster.seeds, config.cluster.discovery, own)
        self._others: list[str] = []
        self._complaint: str | None = None  # what the operator was last told to do
        self._looking: asyncio.Task[None] | None = None

    # ---- what the joint asks for ---------------------------------------------------------------------

    def dial(self, address: str) -> None:
        self.links.dial(address)

    def remember(self, members: tuple[Remembered, ...]) -> None:
        self._memory.remember(members)

    def tell(self, level: Level, sentence: str) -> None:
        if level == "error":
            self._complaint = sentence
        getattr(log, level)(sentence)

    # ---- finding the others --------------------------------------------------------------------------

    async def join(self) -> None:
        """Look for the others; back when clients may come. ConfigError: nobody was there to be joined."""
        self.node.start(clock_s())
        ClusterTopics(self._turn.broker, self.operator.status)
        await self._look()
        knows_nobody = not self._remembers_somebody and (self._others or self._config.discover is not None)
        if self._siblings or knows_nobody:
            await self._wait_for(max(1, self._siblings))
        self.operator.is_joining = False
        self._looking = asyncio.ensure_future(self._keep_looking())

    async def _look(self) -> None:
        """Tell the core where others may be."""
        self._others = await self._seeds.find()
        self._turn.broker.turn(clock_s())
        self.node.tell(Discovered(tuple(self._others)))
        self._turn.begun()

    async def _wait_for(self, company: int) -> None:
        """Wait until so many others are there: a worker for all of its siblings, so that none is missed."""
        began_s = asked_s = clock_s()
        while len(self.node.cluster.members.linked()) < company:
            now = clock_s()
            self._give_up(now - began_s)
            if self._seeds.includes_us and now - began_s >= self._config.failure_s:
                missing = "not all workers are there yet: this one begins"
                log.info(missing if self._siblings else "nobody else is there yet: this node is the first")
                return
            if self._config.discover is not None and now - asked_s >= ASK_FOR_SEEDS_S:
                asked_s = now
                await self._look()
            await asyncio.sleep(LOOK_S)

    def _give_up(self, waited_s: float) -> None:
        """Raise ConfigError if there is no hope that somebody will let this node in."""
        if self._complaint is not None and waited_s >= self._config.failure_s:
            raise ConfigError(f"[cluster] not let in: {self._complaint}")
        if waited_s >= JOIN_S:
            where = ", ".join(self._others) or f"the name {self._config.discover}, which has no address"
            raise ConfigError(
                f"[cluster] join: nobody was met at {where} in {JOIN_S:.0f} seconds; start one of them, or "
                "this node as the first: without --join, or with its own address among the seeds"
            )

    async def _keep_looking(self) -> None:
        """Ask again where others may be, while somebody is missing. Never returns."""
        while True:
            await asyncio.sleep(ASK_AGAIN_S)
            self.node.cluster.clock.wall_offset_s = time.time() - clock_s()
            members = self.node.cluster.members
            if not members.linked() or len(members.linked()) < len(members):
                await self._look()

    def rules_changed(self, config: Config) -> None:
        """What clients may do, or how groups choose, was reloaded: others compare it with theirs."""
        self.node.tell(RulesChanged(_digest(config)))

    async def close(self) -> None:
        """End all links; what is remembered is written."""
        if self._looking is not None:
            self._looking.cancel()
        await self.links.close()
        _write_or_tell(self._memory.write)


def _write_or_tell(write: Callable[[], None]) -> None:
    """A disk that is full now may have room when there is more to be remembered."""
    try:
        write()
    except StoreError as error:
        log.warning("the other nodes are not written down", why=str(error))


def settings_of(config: Config) -> Settings:
    """What the core needs of a configuration."""
    cluster = config.cluster
    return Settings(
        name=cluster.name,
        key=key_of(cluster.shared_secret()),
        failure_s=float(cluster.failure_s),
        suback_wait_ms=cluster.suback_wait_ms if cluster.suback == "propagated" else 0,
        home_down=cluster.home_down,
        routing=cluster.routing,
        neighbours=cluster.neighbours,
        peers_max=config.limits.peers_max,
        keep_for_dead_s=float(cluster.keep_for_dead_s),
        digest=_digest(config),
    )


def _digest(config: Config) -> bytes:
    """Tells apart what should be the same at all nodes: what clients may do, and how groups choose."""
    rules = Path(config.acl.file).read_bytes() if config.acl.file is not None else b""
    return blake2b(rules, digest_size=16, key=blake2b(msgspec.json.encode(config.groups)).digest()).digest()


def identity_of(config: Config, started: NodeId, places: list[Place]) -> Identity:
    """Who this node is to the others; `places` are where it listens for them."""
    cluster, listener = config.cluster, config.listeners[0]
    host_name = socket.gethostname()
    name = re.sub(r"[^A-Za-z0-9._-]", "-", host_name)[:NAME_MAX]
    addresses = [cluster.advertise] if cluster.advertise else [_reached(place).text for place in places]
    client_place = _reached(Place(listener.host, listener.port)).text if listener.port else ""
    return Identity(
        node=started.node,
        boot=started.boot,
        name=cluster.node_name or f"{name}-{started.node:016x}"[: len(name) + 1 + ID_SHOWN],
        addresses=tuple(dict.fromkeys(addresses)),
        client_address=cluster.client_address or client_place,
        keeps=config.store.directory is not None,
        version=braidmq.__version__,
        host=host_name,
    )


def _reached(place: Place) -> Place:
    """Where others reach what listens at a place."""
    if place.host not in WILDCARDS:
        return place
    return Place(address_towards(ANYWHERE6 if ":" in place.host else ANYWHERE), place.port)
