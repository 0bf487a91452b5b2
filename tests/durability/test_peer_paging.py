"""What waits for another node on disk: read, skipped or moved, it arrives once and in order."""

from pathlib import Path
from random import Random

import pytest

from braidmq.broker.restoring import living, restore
from braidmq.messages.message import Message
from braidmq.store.state import State
from tests.broker.linked import Link, Side
from tests.durability.paged import PagingStore, settle, unfolded


class History:
    """A node whose queue goes to disk at once, and another that counts what it gets."""

    def __init__(self, directory: Path, payload_bytes: int = 300) -> None:
        self._payload = bytes(payload_bytes)
        self.store = PagingStore(directory, file_bytes=2_000)
        self.one, self.two = Side(1, 2, self.store), Side(2, 1)
        self.link: Link | None = None
        self.published = 0

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.published += 1
            self.one.peer.enter(1, b"%d" % self.published, Message(b"t", self._payload, qos=1), b"\0\0")
        self.one.broker.hub.end_turn()

    def carry(self, sender: int) -> None:
        if self.link is not None:
            self.link.carry(sender)

    def read(self) -> None:
        """One round of what the store's thread does."""
        self.store.read()
        self.one.broker.hub.end_turn()

    def relink(self) -> None:
        self.cut()
        self.link = Link(self.one, self.two)

    def cut(self) -> None:
        if self.link is not None:
            self.link.cut()
            self.link = None

    def restart(self) -> None:
        self.cut()
        self.one.broker.hub.end_turn()
        self.store._posted.clear()  # nobody is left to be told
        self.one = Side(1, 2, self.store, self.one.boot + 1)
        restore(self.one.broker, self.store.state(), self.one.world.now)
        self.one.meet()
        self.one.broker.hub.end_turn()

    def tidy(self) -> None:
        """As a checkpoint does: pages in files of which little is needed are written anew."""
        for _ in living(self.one.broker):
            pass

    def check(self) -> None:
        self.one.peer.check()
        self.two.peer.check()

    def finish(self) -> list[int]:
        self.relink()
        while self.one.peer.queued_count:
            settle(self.one.broker, self.store)
            assert self.link is not None
            self.link.flow()
        return [int(head) for _, head, _, _ in self.two.entered_here]


# Large ones fill what may be unacknowledged, so that some wait though there is a link.
@pytest.mark.parametrize(
    ("seed", "payload_bytes", "at_a_time"),
    [(seed, 300, 400) for seed in range(20)] + [(seed, 500_000, 30) for seed in range(3)],
)
def test_whatever_happens_all_arrives_once_and_in_order(
    tmp_path: Path, seed: int, payload_bytes: int, at_a_time: int
) -> None:
    rng = Random(seed)
    history = History(tmp_path, payload_bytes)
    for _ in range(80):
        step = rng.choices(
            (
                lambda: history.publish(rng.randrange(1, at_a_time)),
                lambda: history.carry(0),
                lambda: history.carry(1),
                history.read,
                history.relink,
                history.cut,
                history.restart,
                history.tidy,
            ),
            (4, 6, 6, 6, 3, 1, 1, 1),
        )[0]
        step()
        history.check()
    assert history.finish() == list(range(1, history.published + 1))
    assert history.store.told == []


def test_a_checkpoint_says_the_same_as_all_the_records(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.publish(700)
    history.relink()
    history.read()
    history.carry(0)
    history.cut()
    history.publish(5)
    by_records, by_checkpoint = State(), State()
    store = history.store
    by_records.apply(unfolded(store, [record for part in records(store.state()) for record in part]))
    by_checkpoint.apply(unfolded(store, [record for part in living(history.one.broker) for record in part]))
    assert history.one.peer.queued_count == 705
    [one] = by_records.sessions.values()
    [other] = by_checkpoint.sessions.values()
    assert sorted(one.deliveries) == sorted(other.deliveries)
    assert len(one.deliveries) == 705


def records(state: State) -> list[list[tuple[object, ...]]]:
    """What rebuilds a state, by way of a broker that has it."""
    again = Side(1, 2)
    restore(again.broker, state, again.world.now)
    return list(living(again.broker))
