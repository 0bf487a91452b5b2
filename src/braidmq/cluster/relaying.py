"""The modes `flood` and `tree`, for experiments: no interest is known, and every node passes messages on.

Each node takes a message once, by a window of its origin's numbers, and so no message runs in circles.
"""

from collections.abc import Callable, Iterable
from typing import Final

from braidmq.cluster.hops import Change, Hop, Receipt
from braidmq.topics.bloom import InterestError, Outcome
from braidmq.topics.bloom.stream import Position

TREE_CHILDREN: Final = 3
WINDOW: Final = 4096
_WINDOW_BITS: Final = (1 << WINDOW) - 1


class _Blind:
    """What the modes without interest have in common: they announce nothing, and learn nothing."""

    relays = True
    announces = False
    position = 0, 0
    dirty = False

    def __init__(self) -> None:
        self._peers: set[int] = set()

    def wanted(self, filter: bytes) -> None:
        pass

    def unwanted(self, filter: bytes) -> None:
        pass

    def announcement(self) -> bytes | None:
        return None

    def snapshot(self) -> bytes:
        return b""

    def advance(self) -> bool:
        return False

    def joined(self, peer: int) -> None:
        self._peers.add(peer)

    def restarted(self, peer: int) -> None:
        pass

    def in_step(self, peer: int) -> bool:
        return True

    def died(self, peer: int) -> None:
        self._peers.discard(peer)

    def gone(self, peer: int) -> None:
        self._peers.discard(peer)

    def receive(self, peer: int, announcement: bytes) -> Receipt:
        raise InterestError("a peer announces interest: all nodes of a cluster need the same routing mode")

    def compare(self, peer: int, position: Position) -> Receipt:
        return Receipt(Outcome.STALE, Change.NONE)


class FloodRouting(_Blind):
    def __init__(self, is_neighbour: Callable[[int], bool]) -> None:
        super().__init__()
        self._is_neighbour = is_neighbour

    def hops(self, topic: bytes) -> tuple[Hop, ...]:
        return _hops(filter(self._is_neighbour, self._peers))

    def onward(self, topic: bytes, sender: int) -> tuple[Hop, ...]:
        return _hops(peer for peer in self._peers if peer != sender and self._is_neighbour(peer))


class TreeRouting(_Blind):
    def __init__(self, me: int) -> None:
        super().__init__()
        self._me = me

    def hops(self, topic: bytes) -> tuple[Hop, ...]:
        return _hops(self._edges())

    def onward(self, topic: bytes, sender: int) -> tuple[Hop, ...]:
        return _hops(peer for peer in self._edges() if peer != sender)

    def _edges(self) -> list[int]:
        """Parent and children of this node in the tree that all nodes with the same peers see."""
        order = sorted([*self._peers, self._me])
        here = order.index(self._me)
        parent = order[(here - 1) // TREE_CHILDREN : (here - 1) // TREE_CHILDREN + 1] if here else []
        first = here * TREE_CHILDREN + 1
        return parent + order[first : first + TREE_CHILDREN]


def _hops(peers: Iterable[int]) -> tuple[Hop, ...]:
    return tuple([Hop(peer) for peer in sorted(peers)])


class RecentNumbers:
    """Which of an origin's numbers came lately: each is new once, what is older than the window never.

    An integer of `WINDOW` bits, the lowest for the highest number so far.
    """

    def __init__(self) -> None:
        self._highest = -1
        self._came = 0

    def is_new(self, number: int) -> bool:
        """Whether it comes for the first time. Asking counts as its coming."""
        ahead = number - self._highest
        if ahead > 0:
            self._came = (self._came << min(ahead, WINDOW) | 1) & _WINDOW_BITS
            self._highest = number
            return True
        bit = 1 << -ahead
        if -ahead >= WINDOW or self._came & bit:
            return False
        self._came |= bit
        return True
