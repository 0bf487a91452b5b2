"""Exactly once between two nodes, whichever of them crashes and when.

A turn that was not kept is lost by a crash. Both nodes keep their turns one by one, bytes move when the
test says so; whatever the order, and wherever it is cut short by a crash, a QoS 2 publisher that repeats
what was not answered makes every message arrive once, in order.
"""

from collections.abc import Callable
from random import Random

import pytest

from braidmq.wire import (
    Connack,
    Connect,
    Properties,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Subscription,
)
from tests.broker.linked import Link, Side, restarted
from tests.broker.world import Client, SlowStore

LASTING = Properties(session_expiry_s=3_600)
MESSAGES = 5


class Cluster:
    """Two nodes with slow stores, a publisher on the first, and a lasting session on the second."""

    def __init__(self) -> None:
        self.stores = [SlowStore(), SlowStore()]
        self.sides = [Side(1, 2, self.stores[0]), Side(2, 1, self.stores[1])]
        subscriber = self.connect(1, "subscriber")
        subscriber.send(Subscribe(1, (Subscription("t", 2),)))
        self.stores[1].keep_all()
        subscriber.vanish()
        self.stores[1].keep_all()
        self.publisher = self.connect(0, "publisher")
        self.link = Link(*self.sides)
        self.sent = 0
        self.received: set[int] = set()  # packet ids that were answered with PUBREC,
        self.completed: set[int] = set()  # and PUBCOMP

    def connect(self, at: int, client_id: str) -> Client:
        client = self.sides[at].world.open()
        client.send(Connect(client_id, clean_start=False, properties=LASTING))
        self.stores[at].keep_all()
        assert isinstance(client.read()[0], Connack)
        return client

    def publish(self) -> None:
        if self.sent < MESSAGES:
            self.sent += 1
            self.publisher.send(self._packet(self.sent))

    def _packet(self, number: int, dup: bool = False) -> Publish:
        return Publish("t", b"%d" % number, qos=2, packet_id=number, dup=dup)

    def read_answers(self) -> None:
        for packet in self.publisher.read():
            if isinstance(packet, Pubrec):
                self.received.add(packet.packet_id)
                self.publisher.send(Pubrel(packet.packet_id))
            elif isinstance(packet, Pubcomp):
                self.completed.add(packet.packet_id)

    def keep_one(self, at: int) -> None:
        if self.stores[at].turns:
            self.stores[at].keep_one()

    def relink(self) -> None:
        self.link.cut()
        self.link = Link(*self.sides)

    def crash(self, victims: tuple[int, ...]) -> None:
        """Lose what was not kept, and go on from what was."""
        self.link.cut()
        for victim in victims:
            side = restarted(self.sides[victim], self.stores[victim])
            self.sides[victim] = side
            assert isinstance(side.world.store, SlowStore)
            self.stores[victim] = side.world.store
            side.broker.hub.end_turn()
        if 0 in victims:
            self.publisher = self.connect(0, "publisher")
            for number in range(1, self.sent + 1):
                if number not in self.received:
                    self.publisher.send(self._packet(number, dup=True))
                elif number not in self.completed:
                    self.publisher.send(Pubrel(number))
        self.link = Link(*self.sides)

    def finish(self) -> list[bytes]:
        """Let everything happen; what the subscriber then finds."""
        while self.sent < MESSAGES:
            self.publish()
        for _ in range(8):
            for store in self.stores:
                store.keep_all()
            self.link.flow()
            self.read_answers()
        assert len(self.completed) == MESSAGES
        assert self.sides[0].peer.queued_count == 0
        subscriber = self.sides[1].world.open()
        subscriber.send(Connect("subscriber", clean_start=False, properties=LASTING))
        self.stores[1].keep_all()
        return subscriber.payloads()


def steps(cluster: Cluster) -> list[Callable[[], object]]:
    """Everything that can happen next. Bytes move on the present link, which may be another one later."""
    return [
        cluster.publish,
        cluster.read_answers,
        lambda: cluster.keep_one(0),
        lambda: cluster.keep_one(1),
        lambda: cluster.link.carry(0),
        lambda: cluster.link.carry(1),
        cluster.relink,
    ]


WEIGHTS = (3, 3, 6, 6, 6, 6, 1)
ALL = [b"%d" % number for number in range(1, MESSAGES + 1)]


def play(seed: int, until: int) -> Cluster:
    """The first steps of a history."""
    rng = Random(seed)
    cluster = Cluster()
    possible = steps(cluster)
    for _ in range(until):
        rng.choices(possible, WEIGHTS)[0]()
    return cluster


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("victims", [(0,), (1,), (0, 1), ()])
def test_every_message_arrives_once_wherever_a_crash_cuts_the_history_short(
    seed: int, victims: tuple[int, ...]
) -> None:
    for until in range(60):
        cluster = play(seed, until)
        cluster.crash(victims)
        assert cluster.finish() == ALL, (seed, until, victims)


@pytest.mark.parametrize("seed", range(20))
def test_every_message_arrives_once_over_many_crashes(seed: int) -> None:
    rng = Random(seed)
    cluster = Cluster()
    for _ in range(12):
        possible = steps(cluster)
        for _ in range(rng.randrange(12)):
            rng.choices(possible, WEIGHTS)[0]()
        cluster.crash(rng.choice(((0,), (1,), (0, 1))))
    assert cluster.finish() == ALL
