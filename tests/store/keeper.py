"""A durable store whose reports are run by the test, on the test's own thread."""

import shutil
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from braidmq.store.durable import DurableStore
from braidmq.store.records import Record
from braidmq.store.state import State


class Keeper:
    """An opened store in a directory, with the state that it found there."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.reports: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.told: list[str] = []
        self.store = DurableStore(
            directory, post=self.reports.put, wall_offset_s=0.0, tell=self.told.append, **options
        )
        self.state = self.store.load()
        self.kept = 0

    def commit(self, records: list[Record]) -> None:
        self.store.commit(self.store.journal.encode(records), self._count)

    def _count(self) -> None:
        self.kept += 1

    def run_reports(self, until: Callable[[], bool]) -> None:
        while not until():
            self.reports.get()()

    def keep(self, records: list[Record]) -> None:
        """Commit a turn and wait until it is kept."""
        wanted = self.kept + 1
        self.commit(records)
        self.run_reports(lambda: self.kept >= wanted)

    def close(self) -> None:
        self.store.close()


def image(directory: Path, target: Path) -> Path:
    """The files as a crash at this moment would leave them."""
    shutil.copytree(directory, target)
    return target


def plain_state(state: State) -> object:
    """A state as comparable values; messages are told apart by their payloads."""
    sessions = {
        client_id: (
            saved.owner, saved.expiry_s, saved.away_since_s, saved.subscriptions,
            [(sequence, message and message.payload, saved.terms_of(sequence)) for sequence, message
             in saved.deliveries.items()],
            saved.sent, saved.received, saved.inbound,
        )
        for client_id, saved in state.sessions.items()
    }
    retained = {topic: message.payload for topic, message in state.retained.items()}
    wills = {client_id: (saved.will, saved.due_s, saved.owner) for client_id, saved in state.wills.items()}
    return sessions, retained, wills
