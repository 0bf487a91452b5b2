"""Where a receiver stands in an owner's stream of snapshots and deltas.

Invariant: in step means that every change up to (epoch, sequence) is applied. A receiver out of step has
missed something, maybe a new subscription, and must answer "maybe" to every topic until a snapshot has
brought it back. Positions are compared as pairs. An owner never goes back: a new epoch is a larger one, and
an owner that starts anew with a smaller one is followed by a new receiver.
"""

from enum import Enum

# (epoch, sequence)
Position = tuple[int, int]


class Outcome(Enum):
    """What a receiver did with a message."""

    APPLIED = "applied"
    STALE = "stale"
    """Older than what is known; nothing to do."""
    SNAPSHOT_NEEDED = "snapshot needed"
    """Something before it is missing: ask the owner for a snapshot."""


class StreamPosition:
    """Decides, message by message, whether it is next, late or too early."""

    def __init__(self) -> None:
        self.held: Position | None = None
        self._newest: Position | None = None
        self._damaged = False

    @property
    def in_step(self) -> bool:
        return self.held is not None and not self._damaged and self.held == self._newest

    def judge_snapshot(self, position: Position) -> Outcome:
        """APPLIED means: take it, then call `moved_to`."""
        self._note(position)
        if self.held is not None and (position < self.held or (position == self.held and not self._damaged)):
            return Outcome.STALE if self.in_step else Outcome.SNAPSHOT_NEEDED
        return Outcome.APPLIED

    def judge_delta(self, position: Position) -> Outcome:
        """APPLIED means: it is the next one; take it, then call `moved_to`."""
        self._note(position)
        if self.held is None or position[0] > self.held[0]:
            return Outcome.SNAPSHOT_NEEDED
        if position <= self.held:
            return Outcome.STALE if self.in_step else Outcome.SNAPSHOT_NEEDED
        if position[1] == self.held[1] + 1:
            return Outcome.APPLIED
        return Outcome.SNAPSHOT_NEEDED

    def judge_position(self, position: Position) -> Outcome:
        """The owner says where it is: how a receiver learns that the last message was lost."""
        self._note(position)
        return Outcome.STALE if self.in_step else Outcome.SNAPSHOT_NEEDED

    def moved_to(self, position: Position, *, by_snapshot: bool) -> None:
        self.held = position
        if by_snapshot:
            self._damaged = False

    def damaged(self) -> None:
        """A message came that couldn't be read. Links keep order, so any snapshot from now on heals."""
        self._damaged = True

    def _note(self, position: Position) -> None:
        if self._newest is None or position > self._newest:
            self._newest = position
