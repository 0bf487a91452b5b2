"""What linked peers were told and have not seen yet, and who waits for that.

Announcements are numbered on each link by itself, whatever they are about (interest, groups): a peer answers
with SEEN and the highest number that is in force there. They are made in rounds: all that has changed by a
moment goes out together, and who waits, waits for a round to be seen by everybody who is linked.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Final

from braidmq.cluster.frames import FrameError

WAITING_MAX: Final = 65_536
GREETING: Final = 0  # a round before all others


@dataclass(frozen=True, slots=True)
class Seen:
    """An effect: what was awaited is in force at all linked peers, or was waited for too long."""

    token: int
    is_late: bool


class Ledger:
    """The announcements to each linked peer that it has not seen."""

    def __init__(self) -> None:
        self.round = 0  # of the announcements that are being made
        self._last: dict[int, int] = {}  # linked peer -> the number of its last announcement
        self._unseen: dict[int, deque[tuple[int, int]]] = {}  # linked peer -> (number, round) of each
        # Round -> how many of its announcements are unseen. Rounds come in order, but for that of greetings.
        self._open: dict[int, int] = {}

    def __iter__(self) -> Iterator[int]:
        """The linked peers."""
        return iter(self._last)

    def __bool__(self) -> bool:
        return bool(self._last)

    def linked(self, peer: int) -> None:
        self.unlinked(peer)
        self._last[peer] = 0
        self._unseen[peer] = deque()

    def unlinked(self, peer: int) -> None:
        self._last.pop(peer, None)
        for _, round in self._unseen.pop(peer, ()):
            self._close(round)

    def number(self, peer: int) -> int:
        """For an announcement of this round to a linked peer."""
        return self._numbered(peer, self.round)

    def greeting(self, peer: int) -> int:
        """For an announcement of all there is: until it is seen, the peer has seen no round."""
        return self._numbered(peer, GREETING)

    def _numbered(self, peer: int, round: int) -> int:
        self._last[peer] += 1
        self._unseen[peer].append((self._last[peer], round))
        self._open[round] = self._open.get(round, 0) + 1
        return self._last[peer]

    def _close(self, round: int) -> None:
        self._open[round] -= 1
        if not self._open[round]:
            del self._open[round]

    def saw(self, peer: int, number: int) -> None:
        """FrameError if there was no such announcement."""
        if number > self._last[peer]:
            raise FrameError(f"announcement {number} was seen, and only {self._last[peer]} were made")
        unseen = self._unseen[peer]
        while unseen and unseen[0][0] <= number:
            self._close(unseen.popleft()[1])

    def is_seen(self, round: int) -> bool:
        """Whether every linked peer has seen all rounds up to this one. Cost: O(1), for each SEEN asks it."""
        return GREETING not in self._open and next(iter(self._open), round + 1) > round


@dataclass(frozen=True, slots=True)
class _Waiting:
    token: int
    round: int
    until_s: float


class Patience:
    """Who waits for rounds to be seen. They go in the order in which they came."""

    def __init__(self, ledger: Ledger, wait_s: float) -> None:
        self._ledger = ledger
        self._wait_s = wait_s
        self._waiting: deque[_Waiting] = deque()
        self.late_total = 0

    @property
    def next_at_s(self) -> float:
        return self._waiting[0].until_s if self._waiting else inf

    def wait(self, token: int, round: int, now: float) -> list[Seen]:
        if len(self._waiting) >= WAITING_MAX:
            self.late_total += 1
            return [Seen(token, is_late=True)]
        self._waiting.append(_Waiting(token, round, now + self._wait_s))
        return self.release(now)

    def release(self, now: float) -> list[Seen]:
        """Those whose round is seen by now, and those that have waited for too long."""
        released = []
        while self._waiting:
            first = self._waiting[0]
            is_seen = not self._ledger or (
                first.round <= self._ledger.round and self._ledger.is_seen(first.round)
            )
            if not is_seen and now < first.until_s:
                break
            self._waiting.popleft()
            self.late_total += not is_seen
            released.append(Seen(first.token, is_late=not is_seen))
        return released
