"""A trace, read once for all checkers: messages, subscriptions, sessions, links and faults."""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Final

from braidmq.sim.cluster import trace as seen
from braidmq.sim.cluster.trace import Trace
from braidmq.topics import split_shared

# What both ends have had for so long has told all there was to tell: of a link whose one way is broken an end
# learns after a second of silence and a beat or two.
STEADY_S: Final = 1.6

GIVEN_UP: Final = frozenset({"dropped_queue_full"})

Span = tuple[float, float]  # from when to when


@dataclass(frozen=True, slots=True)
class Letter:
    """One message, and what became of its publisher's tries."""

    number: int
    publisher: str
    topic: str
    qos: int
    retain: bool
    first_s: float  # of the first try
    last_s: float  # of the last try
    origins: tuple[str, ...]  # nodes to which it was sent
    acknowledged_by: str | None


@dataclass(frozen=True, slots=True)
class Wish:
    """A subscription, from its SUBACK to its end."""

    client: str
    life: int
    filter: str  # without the group
    group: str | None
    qos: int
    node: str
    asked_s: float
    granted_s: float
    over_s: float


class Story:
    """A trace, read once for all checkers."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    @cached_property
    def letters(self) -> dict[int, Letter]:
        tries: dict[int, list[seen.Published]] = defaultdict(list)
        for event in self.trace.all(seen.Published):
            tries[event.number].append(event)
        answered = {event.number: event.node for event in self.trace.all(seen.Acknowledged)}
        return {number: _letter(found, answered.get(number)) for number, found in tries.items()}

    @cached_property
    def wishes(self) -> list[Wish]:
        """The first grant of each filter in each session, the least QoS it has asked for, and its end."""
        granted: dict[tuple[str, int, str], seen.Subscribed] = {}
        least: dict[tuple[str, int, str], int] = defaultdict(lambda: 2)
        found: list[Wish] = []
        for event in self.trace.events:
            if isinstance(event, seen.Subscribing):
                key = event.client, event.life, event.filter
                least[key] = min(least[key], event.qos)
            elif isinstance(event, seen.Subscribed):
                granted.setdefault((event.client, event.life, event.filter), event)
            elif isinstance(event, seen.Unsubscribing):
                key = event.client, event.life, event.filter
                if key in granted:
                    found.append(_wish(granted.pop(key), least[key], event.at_s))
        return found + [_wish(event, least[key], inf) for key, event in granted.items()]

    @cached_property
    def got(self) -> dict[tuple[str, int], list[seen.Got]]:
        """What each session of each client got, in order."""
        found: dict[tuple[str, int], list[seen.Got]] = defaultdict(list)
        for event in self.trace.all(seen.Got):
            found[event.client, event.life].append(event)
        return found

    @cached_property
    def began_s(self) -> dict[tuple[str, int], float]:
        """When each session of each client was first there."""
        found: dict[tuple[str, int], float] = {}
        for event in self.trace.all(seen.Connected):
            found.setdefault((event.client, event.life), event.at_s)
        return found

    @cached_property
    def last_lives(self) -> dict[str, int]:
        """The session that each client has at the end, if it is connected then."""
        lives: dict[str, int] = {}
        for event in self.trace.events:
            if isinstance(event, seen.Connected):
                lives[event.client] = event.life
            elif isinstance(event, seen.Disconnected):
                lives.pop(event.client, None)
        return lives

    @cached_property
    def disks_lost(self) -> dict[str, float]:
        """When each node lost its disk for the last time."""
        return {event.node: event.at_s for event in self.trace.all(seen.NodeCrashed) if event.loses_disk}

    def last_start_s(self, node: str, at_s: float) -> float:
        """When the node was started that ran at that time."""
        starts = [event.at_s for event in self.trace.all(seen.NodeStarted) if event.node == node]
        return max((start_s for start_s in starts if start_s <= at_s), default=0.0)

    def is_lasting(self, wish: Wish) -> bool:
        """Whether the subscription is there to the end, and all the time.

        After the loss of a disk a client that has missed a CONNACK may take another session for its own.
        """
        is_last = wish.over_s == inf and self.last_lives.get(wish.client) == wish.life
        return is_last and self.disks_lost.get(wish.node, -inf) < wish.asked_s

    @cached_property
    def links(self) -> "Links":
        return Links(self.trace)

    @cached_property
    def given_up(self) -> int:
        """How many messages of QoS 1 and 2 nodes say that they have given up for want of room."""
        counts = [pair for event in self.trace.all(seen.Dropped) for pair in event.counts]
        return sum(count for name, count in counts if name in GIVEN_UP)

    @cached_property
    def faults(self) -> list[Span]:
        """Each fault from its beginning until it was mended."""
        begun_s: dict[object, float] = {}
        spans: list[Span] = []
        for event in self.trace.events:
            match event:
                case seen.Broken(at_s=at_s, what=what):
                    begun_s.setdefault(what, at_s)
                case seen.NodeCrashed(at_s=at_s, node=node):
                    begun_s.setdefault(node, at_s)
                case seen.Mended(at_s=at_s, what=what) if what in begun_s:
                    spans.append((begun_s.pop(what), at_s))
                case seen.NodeStarted(at_s=at_s, node=node) if node in begun_s:
                    spans.append((begun_s.pop(node), at_s))
        return spans + [(at_s, inf) for at_s in begun_s.values()]

    def is_quiet(self, from_s: float, to_s: float) -> bool:
        """Whether no fault was in force, nor one just mended."""
        return not any(begun_s <= to_s and over_s >= from_s - STEADY_S for begun_s, over_s in self.faults)

    @cached_property
    def _stays(self) -> dict[str, list[Span]]:
        spans: dict[str, list[Span]] = defaultdict(list)
        since_s: dict[str, float] = {}
        for event in self.trace.events:
            if isinstance(event, seen.Connected):
                since_s[event.client] = event.at_s
            elif isinstance(event, seen.Disconnected):
                spans[event.client].append((since_s.pop(event.client), event.at_s))
        for client, at_s in since_s.items():
            spans[client].append((at_s, inf))
        return spans

    def is_here(self, client: str, from_s: float, to_s: float) -> bool:
        """Whether the client was connected all that time."""
        return any(begun_s <= from_s and to_s <= over_s for begun_s, over_s in self._stays[client])

    @cached_property
    def _numbers(self) -> dict[tuple[str, int], set[int]]:
        return {key: {event.number for event in events} for key, events in self.got.items()}

    def has_got(self, wish: Wish, letter: Letter) -> bool:
        return letter.number in self._numbers.get((wish.client, wish.life), ())


class Links:
    """From when to when two nodes took themselves to be linked with each other."""

    def __init__(self, trace: Trace) -> None:
        self._spans: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
        views: dict[str, frozenset[str]] = {}
        since_s: dict[tuple[str, str], float] = {}
        for event in trace.all(seen.LinksChanged):
            views[event.node] = frozenset(event.linked)
            for other in sorted(views):
                self._look(event.node, other, views, since_s, event.at_s)
        for pair, from_s in since_s.items():
            self._spans[pair].append((from_s, inf))

    def _look(
        self, node: str, other: str, views: dict[str, frozenset[str]],
        since_s: dict[tuple[str, str], float], at_s: float,
    ) -> None:  # fmt: skip
        pair = (min(node, other), max(node, other))
        is_linked = other in views[node] and node in views[other]
        if is_linked and pair not in since_s:
            since_s[pair] = at_s
        elif not is_linked and pair in since_s:
            self._spans[pair].append((since_s.pop(pair), at_s))

    def during(self, one: str, other: str, from_s: float, to_s: float) -> bool:
        """Whether they were linked all that time."""
        if one == other:
            return True
        spans = self._spans[min(one, other), max(one, other)]
        return any(begun_s <= from_s and to_s <= over_s for begun_s, over_s in spans)

    def steady(self, one: str, other: str, from_s: float, to_s: float) -> bool:
        """Whether they were linked for a while at some time between."""
        if one == other:
            return True
        spans = self._spans[min(one, other), max(one, other)]
        return any(min(over_s, to_s) - max(begun_s, from_s) >= STEADY_S for begun_s, over_s in spans)


def _letter(tries: list[seen.Published], acknowledged_by: str | None) -> Letter:
    first = tries[0]
    origins = tuple(dict.fromkeys(event.node for event in tries))
    return Letter(
        first.number, first.client, first.topic, first.qos, first.retain, first.at_s, tries[-1].at_s,
        origins, acknowledged_by,
    )  # fmt: skip


def _wish(event: seen.Subscribed, qos: int, over_s: float) -> Wish:
    group, plain = split_shared(event.filter)
    return Wish(event.client, event.life, plain, group, qos, event.node, event.asked_s, event.at_s, over_s)
