"""What the parts of a node share: its virtual nodes, what they wait for, and the effects of one turn."""

from collections import Counter, deque
from dataclasses import dataclass, field
from functools import partial
from math import inf
from random import Random

from braidmq.overlay.keys import Kind, key_of, kind_of, range_of, topic_of
from braidmq.overlay.messages import Link, Message, Search, Status
from braidmq.overlay.sequence import Sequence
from braidmq.overlay.settings import OverlaySettings, Reading
from braidmq.overlay.table import Peer, RoutingTable, Shape, Side
from braidmq.timing.timers import Timers


@dataclass(frozen=True, slots=True)
class Send:
    """Bring a message to the broker at `to.address`. An empty `to.key` means any of its virtual nodes."""

    to: Peer
    message: Message


@dataclass(frozen=True, slots=True)
class Deliver:
    topic: str
    payload: bytes
    origin: bytes  # key of the publisher
    seq: int
    hops: int


@dataclass(frozen=True, slots=True)
class SetPresence:
    """Whether a topic that is published here has subscribers anywhere."""

    topic: str
    is_present: bool


@dataclass(frozen=True, slots=True)
class Joined:
    """Subscribing, or beginning to publish, is complete: nothing published from now on is missed."""

    topic: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Completed:
    """Every subscriber that could be reached has had this publication."""

    topic: str
    seq: int


Effect = Send | Deliver | SetPresence | Joined | Completed


@dataclass(slots=True)
class Relay:
    """A range that was delegated to us, or by us: open as long as a child has not served its part."""

    upstream: Peer | None
    token: int
    started_s: float
    fan: int = 0
    open: set[int] = field(default_factory=set)
    is_blind: bool = False  # nobody here can tell whether all of it was served
    topic: str = ""  # of a publication of our own
    seq: int = 0


@dataclass(slots=True)
class Request:
    """A message that is repeated until it is answered or given up."""

    key: bytes  # of the virtual node that asks
    to: Peer
    message: Message
    deadline_s: float
    attempts: int = 1
    relay: Relay | None = None


@dataclass(slots=True)
class Lost:
    """A neighbour that failed, and is looked for in case the network was at fault."""

    peer: Peer
    since_s: float
    pause_s: float
    next_s: float


class VirtualNode:
    """The state of one (topic, kind) at this broker."""

    __slots__ = (
        "asks_about_end", "branching", "confirmed", "deferred", "holes", "idle_since_s", "kind", "lost",
        "payloads", "peer", "presence_at_s", "presence_seq", "present", "published", "range", "status",
        "table", "topic", "waits_for", "walk_pause_s", "was_end_checked",
    )  # fmt: skip

    def __init__(self, peer: Peer, settings: OverlaySettings, now: float) -> None:
        self.peer = peer
        self.topic, self.kind = topic_of(peer.key), kind_of(peer.key)
        plain = settings.reading is Reading.NOBODY or (
            settings.reading is Reading.PUBLISHERS and self.kind is Kind.SUBSCRIBER
        )
        shape = Shape.SKIP_GRAPH if plain else Shape.FLEXIBLE
        self.table = RoutingTable(peer, settings.entries_max, settings.near_count, shape)
        self.range = range_of(self.topic, Kind.SUBSCRIBER)
        self.status = Status.JOINING
        self.confirmed: list[bytes] = [b"", b""]  # keys of the neighbours that took us for theirs, by side
        self.holes: set[Side] = set()  # where a neighbour was lost and the next one has not answered yet
        self.deferred: deque[Message] = deque()  # needs a place in the list to be answered rightly
        self.asks_about_end = False  # a contact is asked whether this is really an end of the list
        self.was_end_checked = False
        self.waits_for = b""  # key of a left neighbour that isn't ready yet
        self.lost: dict[bytes, Lost] = {}
        self.branching: set[bytes] = set()  # children that passed on what they got last
        self.walk_pause_s = settings.settle_s
        # publishers
        self.published = 0
        self.idle_since_s = now
        self.payloads: deque[tuple[bytes, int]] = deque()  # wait until it has joined
        self.present: bool | None = None  # None: not known, which counts as yes
        self.presence_seq = 0
        self.presence_at_s = -inf

    @property
    def is_rendezvous(self) -> bool:
        """The last publisher of its topic: its right neighbour shows whether there are subscribers."""
        right = self.table.neighbour(Side.RIGHT)
        return right is None or right.key not in range_of(self.topic, Kind.PUBLISHER)


class Shared:
    """One broker's part of the overlay, between turns."""

    __slots__ = (
        "address", "contacts", "counters", "due", "incarnation", "nodes", "pid", "relays", "requests", "rng",
        "sequences", "settings", "timers", "token", "tombstones",
    )  # fmt: skip

    def __init__(self, pid: int, address: str, boot: int, settings: OverlaySettings, rng: Random) -> None:
        self.pid = pid
        self.address = address
        self.incarnation = boot << 20
        self.settings = settings
        self.rng = rng
        self.contacts: list[str] = []
        self.nodes: dict[bytes, VirtualNode] = {}
        self.requests: dict[int, Request] = {}
        self.sequences: dict[tuple[bytes, int], Sequence[Deliver]] = {}  # by publisher and its incarnation
        self.relays: dict[tuple[bytes, int, int], Relay] = {}
        self.tombstones: dict[bytes, tuple[int, float]] = {}  # boot, until
        self.timers = Timers()
        self.due: list[tuple[str, bytes, int]] = []  # what, key of the virtual node, token
        self.counters: Counter[str] = Counter()
        self.token = 0

    def new_peer(self, topic: str, kind: Kind) -> Peer:
        self.incarnation += 1
        return Peer(key_of(topic, kind, self.pid), self.address, self.incarnation)


class Turn:
    """One call of a node: the time, and what comes of it."""

    __slots__ = ("effects", "local", "now", "shared")

    def __init__(self, shared: Shared, now: float) -> None:
        self.shared = shared
        self.now = now
        self.effects: list[Effect] = []
        self.local: deque[tuple[bytes, Message]] = deque()  # from one virtual node to another of this broker

    def send(self, to: Peer, message: Message) -> None:
        if to.address == self.shared.address and to.key:
            self.local.append((to.key, message))
        else:
            self.effects.append(Send(to, message))

    def new_token(self) -> int:
        self.shared.token += 1
        return self.shared.token

    def request(self, node: VirtualNode, to: Peer, message: Message, token: int, relay: Relay | None) -> None:
        """Send, and repeat until there is an answer with this token."""
        deadline_s = self.now + self.shared.settings.ack_s
        self.shared.requests[token] = Request(node.peer.key, to, message, deadline_s, 1, relay)
        self.wake("request", node.peer.key, deadline_s, token)
        self.send(to, message)

    def wake(self, what: str, key: bytes, at_s: float, token: int = 0) -> None:
        self.shared.timers.set(at_s, partial(self.shared.due.append, (what, key, token)))

    def learn(self, node: VirtualNode, peer: Peer, is_direct: bool = False) -> None:
        """Take a peer into the table, on hearsay only if it hasn't just failed."""
        key = peer.key
        tombstones = self.shared.tombstones
        if tombstones and key in tombstones:
            boot, until_s = tombstones[key]
            if peer.boot <= boot and self.now < until_s and not is_direct:
                lost = node.lost.get(key)
                if lost is not None:  # others can reach it: perhaps we were wrong
                    self.look_for(node, lost)
                return
            del tombstones[key]
        if key == node.peer.key:
            return
        table = node.table
        if is_direct:
            node.lost.pop(key, None)
        if table.add(peer) and node.status is Status.LINKED and _is_nearest(table, key):
            self.link(node, peer)

    def link(self, node: VirtualNode, peer: Peer) -> None:
        token = self.new_token()
        self.request(node, peer, Link(node.peer, token, node.status), token, None)

    def ask_contact(self, node: VirtualNode) -> bool:
        """Search for the node's place from a contact; False if there is none."""
        contacts = self.shared.contacts
        if contacts:
            start = Peer(b"", self.shared.rng.choice(contacts), 0)
            self.effects.append(Send(start, Search(node.peer, node.peer, 0, 0)))
        return bool(contacts)

    def look_for(self, node: VirtualNode, lost: Lost) -> None:
        """Ask a lost neighbour whether it is there, at growing intervals."""
        if self.now >= lost.next_s:
            lost.next_s = self.now + lost.pause_s
            lost.pause_s = min(2 * lost.pause_s, self.shared.settings.walk_max_s)
            self.send(lost.peer, Link(node.peer, 0, node.status))

    def lose(self, peer: Peer, is_certain: bool = False) -> None:
        """A peer has failed, or is gone for certain: no virtual node here knows it any more."""
        settings = self.shared.settings
        known = self.shared.tombstones.get(peer.key)
        boot = peer.boot if known is None else max(peer.boot, known[0])
        self.shared.tombstones[peer.key] = (boot, self.now + settings.tombstone_s)
        if len(self.shared.tombstones) > settings.tombstones_max:
            del self.shared.tombstones[next(iter(self.shared.tombstones))]
        for node in self.shared.nodes.values():
            entry = node.table.get(peer.key)
            if entry is None or entry.boot > peer.boot:
                continue
            was_near = any(peer.key == near.key for side in Side for near in node.table.near(side))
            before = [node.table.neighbour(side) for side in Side]
            node.table.remove(peer.key)
            node.branching.discard(peer.key)
            if was_near and not is_certain:
                node.lost[peer.key] = Lost(entry, self.now, settings.wait_s, self.now)
            if node.status is Status.LINKED:
                for side, old in zip(Side, before, strict=True):
                    new = node.table.neighbour(side)
                    if old is None or old.key != peer.key:
                        continue
                    node.holes.add(side)
                    if new is not None:
                        self.link(node, new)
                    else:  # hardly the end of the list: all that were near are gone
                        self.ask_contact(node)


def _is_nearest(table: RoutingTable, key: bytes) -> bool:
    nearest = table.neighbour(Side.LEFT if key < table.owner.key else Side.RIGHT)
    return nearest is not None and nearest.key == key
