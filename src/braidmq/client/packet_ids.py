"""Packet identifiers: 1..65535, each in use at most once at a time.

Publishes, subscribes and unsubscribes share them. Identifiers are handed out in rising order and wrap around,
so one that was just freed is the last to come again: a late answer to an old packet finds nobody. `take` is
O(1) while few are in use, and never looks at more identifiers than are in use.
"""

IDENTIFIER_MAX = 65_535


class PacketIds:
    def __init__(self) -> None:
        self._used: set[int] = set()
        self._last = 0

    def __len__(self) -> int:
        return len(self._used)

    def take(self) -> int:
        """A free identifier, now in use; 0 if all are."""
        if len(self._used) == IDENTIFIER_MAX:
            return 0
        candidate = self._last % IDENTIFIER_MAX + 1
        while candidate in self._used:
            candidate = candidate % IDENTIFIER_MAX + 1
        self._used.add(candidate)
        self._last = candidate
        return candidate

    def release(self, identifier: int) -> None:
        self._used.discard(identifier)

    def clear(self) -> None:
        self._used.clear()
