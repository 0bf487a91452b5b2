"""A store without a disk: turns are kept some time after they were handed over, and a crash loses a random
suffix of those that were not reported as kept.
"""

from collections import deque
from collections.abc import Callable, Iterator
from random import Random

from braidmq.sim.world.clock import Clock
from braidmq.store.decoding import Decoder
from braidmq.store.encoding import Encoder
from braidmq.store.records import Record
from braidmq.store.state import State

Kept = Callable[[], None]
Report = Callable[[Kept], None]  # runs it in a turn of the broker


class Disk:
    """What has been written, file by file, each a list of turns. It survives a crash."""

    def __init__(self) -> None:
        self.files: list[list[bytes]] = []

    def read(self, wall_offset_s: float) -> State:
        state, decoder = State(), Decoder(wall_offset_s)
        for turns in self.files:
            decoder.begin_file()
            for turn in turns:
                state.apply(decoder.decode(turn))
        return state


class SimulatedStore:
    """Honours `braidmq.store.Store`."""

    pages = None
    is_failing = False

    def __init__(
        self, disk: Disk, clock: Clock, rng: Random, delay_s: tuple[float, float], checkpoints: float,
        wall_offset_s: float, report: Report,
    ) -> None:  # fmt: skip
        self.journal = Encoder(wall_offset_s)
        self._disk = disk
        self._clock = clock
        self._rng = rng
        self._delay_s = delay_s  # least and most
        self._checkpoints = checkpoints  # share of turns behind which one is written
        self._wall_offset_s = wall_offset_s
        self._report = report
        self._living: Callable[[], Iterator[list[Record]]] | None = None
        self._waiting: deque[tuple[bytes, Kept, bool]] = deque()  # and whether it replaces all before it
        self._kept_at_s = 0.0
        self._is_lost = False

    def load(self) -> State:
        state = self._disk.read(self._wall_offset_s)
        self._disk.files.append([])
        return state

    def checkpoint_from(self, living: Callable[[], Iterator[list[Record]]]) -> None:
        self._living = living

    def commit(self, turn: bytes, kept: Kept) -> None:
        if not turn and not self._waiting:
            kept()
            return
        self._write(turn, kept, is_whole=False)
        if self._living is not None and turn and self._rng.random() < self._checkpoints:
            self.journal.begin_file()
            records = [record for part in self._living() for record in part]
            self._write(self.journal.encode(records), _nobody_waits, is_whole=True)

    def _write(self, turn: bytes, kept: Kept, *, is_whole: bool) -> None:
        self._waiting.append((turn, kept, is_whole))
        self._kept_at_s = max(self._kept_at_s, self._clock.now + self._rng.uniform(*self._delay_s))
        self._clock.at(self._kept_at_s, self._keep_first)

    def _keep_first(self) -> None:
        if not self._is_lost:
            kept = self._keep()
            self._report(kept)

    def _keep(self) -> Kept:
        turn, kept, is_whole = self._waiting.popleft()
        if is_whole:
            self._disk.files = [[turn]]
        elif turn:
            self._disk.files[-1].append(turn)
        return kept

    def crash(self) -> None:
        """Some of what waits has been written, of which nobody was told."""
        self._is_lost = True
        for _ in range(self._rng.randint(0, len(self._waiting))):
            self._keep()

    def close(self) -> None:
        pass


def _nobody_waits() -> None:
    """A checkpoint promises nothing to anybody."""
