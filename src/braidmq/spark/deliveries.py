"""Which deliveries are stored, by the numbers that our broker gives them.

A receiver stores messages and acknowledges them afterwards. If it or its connection dies between the two, the
broker delivers them again. Our broker numbers the deliveries of a session, gives a delivery that is repeated
its number again, and uses no number of the session for anything else. So what is stored already is dropped,
and nothing else: no content is compared. A session with another identity begins anew.

Numbers rise, so the stored ones are a few runs; `encode` fits into the metadata of a segment. Should there be
many gaps, the lowest runs are forgotten: the broker has long had their acknowledgements, and forgetting can
only double, never lose. Pure; a batch of new numbers costs a few vector operations.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

RUNS_MAX = 4_096
NONE = 0  # what a message without a number has: it is never a repeat

Run = tuple[int, int]  # the first number, and the one after the last


class StoredDeliveries:
    def __init__(self, session: str = "", runs: list[Run] | None = None) -> None:
        self.session = session  # its identity
        self._runs = runs or []

    @classmethod
    def decode(cls, text: str) -> "StoredDeliveries":
        """What `encode` said."""
        session, _, runs = text.partition(":")
        bounds = [part.split("-") for part in runs.split(",") if part]
        return cls(session, [(int(first), int(end)) for first, end in bounds])

    def encode(self) -> str:
        return f"{self.session}:" + ",".join(f"{first}-{end}" for first, end in self._runs)

    def repeats(self, numbers: Any) -> NDArray[np.uint8] | None:
        """Marks the messages of a batch that are stored already; None: not one. Remembers the others."""
        given = np.frombuffer(numbers, np.int64)
        repeated = (given != NONE) & (self._has(given) | _came_before(given))
        fresh = given[(given != NONE) & ~repeated]
        if len(fresh):
            self._runs = _joined(self._runs, _runs_of(np.sort(fresh)))[-RUNS_MAX:]
        return repeated.astype(np.uint8) if repeated.any() else None

    def _has(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        if not self._runs or not len(numbers) or int(numbers.min()) >= self._runs[-1][1]:
            return np.zeros(len(numbers), bool)
        firsts, ends = np.array(self._runs, np.int64).T
        run = np.searchsorted(firsts, numbers, side="right") - 1
        known: NDArray[np.bool_] = (run >= 0) & (numbers < ends[np.maximum(run, 0)])
        return known


def _came_before(numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether the number is a second one within the batch."""
    if len(numbers) < 2 or bool((np.diff(numbers) > 0).all()):
        return np.zeros(len(numbers), bool)
    again = np.ones(len(numbers), bool)
    again[np.unique(numbers, return_index=True)[1]] = False
    return again


def _runs_of(rising: NDArray[np.int64]) -> list[Run]:
    cuts = np.flatnonzero(np.diff(rising) != 1) + 1
    bounds = [0, *cuts.tolist(), len(rising)]
    return [(int(rising[begin]), int(rising[end - 1]) + 1) for begin, end in pairwise(bounds)]


def _joined(known: list[Run], fresh: list[Run]) -> list[Run]:
    """Both, in order; runs that touch become one."""
    runs: list[Run] = []
    for first, end in [*known, *fresh] if not known or fresh[0][0] >= known[-1][1] else sorted(known + fresh):
        if runs and runs[-1][1] == first:
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((first, end))
    return runs
