"""Counts that are kept nowhere and have to be taken by looking at every session, a slice at a time.

Keeping them up to date would cost on the path of every message. Looking costs O(sessions), in slices short
enough that nobody else notices; so the numbers of a large broker are those of a moment, not of one instant.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from braidmq.broker.broker import Broker

SLICE_SESSIONS: Final = 2_000  # about a millisecond's work


class Census(msgspec.Struct):
    """What all sessions have together."""

    sessions: int = 0
    connected: int = 0
    subscriptions: int = 0
    in_flight_messages: int = 0
    queued_messages: int = 0
    queued_bytes: int = 0

    @property
    def away(self) -> int:
        """Sessions whose client is not connected."""
        return self.sessions - self.connected


def take_census(broker: "Broker") -> Generator[None, None, Census]:
    """Count, yielding after every slice of the work; what the generator returns is the result."""
    census = Census()
    for number, session in enumerate(list(broker.sessions.values()), start=1):
        census.sessions += 1
        census.connected += session.is_connected
        census.subscriptions += len(session.subscriptions)
        census.in_flight_messages += session.inflight.count
        census.queued_messages += session.queued
        census.queued_bytes += session.queue_bytes
        if number % SLICE_SESSIONS == 0:
            yield
    return census
