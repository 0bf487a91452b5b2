"""Nodes that are wrong on purpose: some seed tells. A checker that nothing can offend proves nothing."""

from collections.abc import Callable

import pytest

from braidmq.cluster.announcing import Announcing
from braidmq.cluster.ledger import Seen
from braidmq.clustered.routes import Routes
from braidmq.sim.cluster import machine
from braidmq.sim.cluster.plan import Task
from braidmq.sim.cluster.store import Kept, SimulatedStore
from braidmq.sim.cluster.trial import run
from braidmq.store.decoding import Decoder
from braidmq.store.encoding import Encoder
from braidmq.store.records import PEER_POSITION, Record

SEEDS_MAX = 100
KNOWN = (28, 37, 71)  # that have told of one of these before, so that it is soon found


def wrong_of_first(
    nodes: int = 3,
    faults: tuple[str, ...] = ("crash", "slow"),
    features: tuple[str, ...] = ("clean", "tight"),
) -> str:
    """What is wrong in the first story that goes wrong."""
    for seed in (*KNOWN, *range(SEEDS_MAX)):
        result = run(Task(seed, nodes, faults, features, messages=150, troubles=25))
        if result.wrong:
            return result.wrong[0]
    return "nothing was found"


class HastyStore(SimulatedStore):
    """Says that a turn is kept before it is."""

    def commit(self, turn: bytes, kept: Kept) -> None:
        super().commit(turn, lambda: None)
        kept()


class SplittingStore(SimulatedStore):
    """Keeps how far a peer was heard in a turn of its own, behind what was heard."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._decoder = Decoder(0.0)
        self._encoder = Encoder(0.0)
        self._checkpoints = 0.0

    def commit(self, turn: bytes, kept: Kept) -> None:
        records = self._decoder.decode(turn)
        positions = [record for record in records if record[0] == PEER_POSITION]
        others = [record for record in records if record[0] != PEER_POSITION]
        if positions and others:
            super().commit(self._encoder.encode(self.first(positions, others)), lambda: None)
            super().commit(self._encoder.encode(self.second(positions, others)), kept)
        else:
            super().commit(self._encoder.encode(records) if turn else turn, kept)

    def first(self, positions: list[Record], others: list[Record]) -> list[Record]:
        return others

    def second(self, positions: list[Record], others: list[Record]) -> list[Record]:
        return positions


class BackwardsStore(SplittingStore):
    """Keeps it before."""

    def first(self, positions: list[Record], others: list[Record]) -> list[Record]:
        return positions

    def second(self, positions: list[Record], others: list[Record]) -> list[Record]:
        return others


@pytest.mark.parametrize(
    ("store", "nodes", "harm"),
    [
        (HastyStore, 1, "got message"),
        (HastyStore, 3, "got message"),
        (SplittingStore, 3, "times"),
        (BackwardsStore, 3, "never got"),
    ],
)
def test_a_store_that_breaks_its_word_is_found(
    store: Callable[..., SimulatedStore], nodes: int, harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "SimulatedStore", store)
    assert harm in wrong_of_first(nodes)


def test_a_suback_that_waits_for_nobody_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(self: Announcing, token: int, now: float) -> list[Seen]:
        return [Seen(token, is_late=False)]

    monkeypatch.setattr(Announcing, "_await_seen", at_once)
    assert "never got" in wrong_of_first(faults=("away",))


def test_stamps_that_two_nodes_may_both_give_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    stamp = Routes.stamp
    monkeypatch.setattr(Routes, "stamp", lambda self: (stamp(self)[0], 1))
    assert "have retained" in wrong_of_first(faults=("away",), features=("retained",))
