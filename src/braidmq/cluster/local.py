"""What a cluster's core has to know of the broker beside it."""

from typing import Protocol


class Local(Protocol):
    def kept_position(self, peer: int) -> int:
        """The highest sequence of this peer that the store has kept."""

    def connections(self) -> int:
        """How many clients are connected."""
