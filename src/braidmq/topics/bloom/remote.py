"""What one peer wants: the receiver's side of its interest filter."""

from braidmq.topics.bloom.messages import (
    InterestError,
    Kind,
    apply_delta,
    open_message,
    read_delta,
    read_snapshot,
)
from braidmq.topics.bloom.prefix import PrefixFilter
from braidmq.topics.bloom.stream import Outcome, StreamPosition


class RemoteInterest:
    """A copy of one peer's filter, kept up to date by its messages.

    While it is out of step (before the first snapshot, after a gap or a damaged message) every topic may
    match.
    """

    def __init__(self) -> None:
        self.filter: PrefixFilter | None = None
        self._stream = StreamPosition()

    @property
    def in_step(self) -> bool:
        return self._stream.in_step

    @property
    def position(self) -> tuple[int, int] | None:
        return self._stream.held

    def may_match(self, topic: bytes) -> bool:
        return self.filter is None or not self._stream.in_step or self.filter.may_match(topic)

    def receive(self, message: bytes) -> Outcome:
        """Take a snapshot or a delta. InterestError if it is damaged: then, too, a snapshot is needed."""
        try:
            return self._receive(message)
        except InterestError:
            self._stream.damaged()
            raise

    def compare(self, position: tuple[int, int]) -> Outcome:
        """Hold the owner's position against ours: SNAPSHOT_NEEDED if its last message never came."""
        return self._stream.judge_position(position)

    def _receive(self, message: bytes) -> Outcome:
        envelope = open_message(message)
        position = envelope.epoch, envelope.sequence
        if envelope.kind is Kind.SNAPSHOT:
            filter = read_snapshot(envelope).filter
            outcome = self._stream.judge_snapshot(position)
            if outcome is Outcome.APPLIED:
                self.filter = filter
                self._stream.moved_to(position, by_snapshot=True)
            return outcome
        outcome = self._stream.judge_delta(position)
        if outcome is Outcome.APPLIED and self.filter is not None:
            apply_delta(read_delta(envelope, self.filter.blocks), self.filter)
            self._stream.moved_to(position, by_snapshot=False)
        return outcome
