"""Guesses which messages of a foreign broker were stored before: for `dedupRedelivered=true` only.

A message is taken for a repeat if it is marked DUP, its packet identifier was last used by a stored message
with the same topic and payload, and that message is among the last `window` deliveries. The window is wider
than our receive maximum, because Mosquitto (2.0.11) delivers another receive maximum on top with every
connection that ends before we have answered.

It can be wrong, and then an acknowledged message is lost: a broker that restarts may begin its identifiers
anew, and a new message that was under way when a connection broke is marked DUP too. If an equal message had
its identifier before, the two can't be told apart. Unless payloads differ (a time or a number in them is
enough), this must stay off; our broker numbers its deliveries instead (`deliveries.py`).

Pure, a constant 1.5 MB, and a few vector operations per batch.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

DUP = 0x08
IDENTIFIERS = 65_536
NEVER = -1
WINDOW = 32_000  # deliveries


class RepeatGuess:
    def __init__(self, window: int = WINDOW) -> None:
        self._window = window
        self.reset()

    def reset(self) -> None:
        """The broker has forgotten the session: nothing will be repeated."""
        self._delivered = 0
        self._floor = NEVER
        self._delivery_of = np.full(IDENTIFIERS, NEVER, np.int64)
        self._digest_of = np.zeros(IDENTIFIERS, np.uint64)

    def repeats(self, flags: Any, packet_ids: Any, digests: Any) -> NDArray[np.uint8] | None:
        """Marks the messages of a batch that seem to be stored; None: not one. Remembers the others."""
        marked = np.frombuffer(flags, np.uint8) & DUP != 0
        ids = np.frombuffer(packet_ids, np.uint16)
        sums = np.frombuffer(digests, np.uint64)
        found: NDArray[np.uint8] | None = None
        if marked.any():
            known = self._delivery_of[ids]
            repeated = marked & (self._digest_of[ids] == sums) & self._may_repeat(known)
            found = repeated.astype(np.uint8) if repeated.any() else None
        self._remember(ids, sums, fresh=~marked)
        return found

    def restore(self, packet_ids: Any, digests: Any) -> None:
        """What was stored by an earlier process, oldest first. Says nothing about how the broker numbers."""
        ids = np.asarray(packet_ids, np.uint16)
        self._remember(ids, np.asarray(digests, np.uint64), fresh=np.zeros(len(ids), bool))

    def _may_repeat(self, known: NDArray[np.int64]) -> NDArray[np.bool_]:
        return (known > self._floor) & (known >= self._delivered - self._window)

    def _remember(self, ids: NDArray[np.uint16], sums: NDArray[np.uint64], fresh: NDArray[np.bool_]) -> None:
        counted = ids != 0  # QoS 0 has no identifier and is never repeated
        if not counted.all():
            ids, sums, fresh = ids[counted], sums[counted], fresh[counted]
        if fresh.any():
            # A broker that uses an identifier again has the acknowledgement of its last message and,
            # acknowledgements being sent in order, of all before it: these can't be repeated any more.
            self._floor = max(self._floor, int(self._delivery_of[ids[fresh]].max()))
        self._delivery_of[ids] = self._delivered + np.arange(len(ids))
        self._digest_of[ids] = sums
        self._delivered += len(ids)
