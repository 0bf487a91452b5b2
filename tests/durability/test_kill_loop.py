"""The broker is killed at any moment, again and again; nothing that it acknowledged is lost or doubled.

BRAIDMQ_KILL_ROUNDS=200 makes it a long one; BRAIDMQ_KILL_SEED picks other moments.
"""

import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest

from braidmq.wire import Disconnect, Properties, Publish, Will
from tests.durability.clients import FOR_EVER, Publisher, Subscriber, Wire, run
from tests.support.broker import Broker

ROUNDS = int(os.environ.get("BRAIDMQ_KILL_ROUNDS", "5"))
SEED = int(os.environ.get("BRAIDMQ_KILL_SEED", "1"))
LIMITS = ("queue_messages_max=1000000", "queue_bytes_max=1000000000")


class Node:
    """A broker on one data directory, over several lives."""

    def __init__(self, data: Path, *flags: str) -> None:
        self.data = data
        self.flags = [part for limit in LIMITS for part in ("--limit", limit)] + list(flags)
        self.broker = self.start()

    def start(self) -> Broker:
        command = [sys.executable, "-m", "braidmq", "serve", "--port", "0", "--data-dir", str(self.data)]
        return Broker([*command, *self.flags], Path(tempfile.mkdtemp(prefix="braidmq-kill-")))

    @property
    def port(self) -> int:
        return self.broker.port

    def kill(self) -> None:
        self.broker.process.kill()
        self.broker.process.wait()
        shutil.rmtree(self.broker.directory, ignore_errors=True)

    def restart(self) -> None:
        self.kill()
        self.broker = self.start()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def numbers(seen: list[tuple[str, bytes]], topic: str) -> list[int]:
    return [int(payload) for where, payload in seen if where == topic]


def first_times(seen: list[int]) -> list[int]:
    return list(dict.fromkeys(seen))


@pytest.mark.timeout(120 + 20 * ROUNDS)
@pytest.mark.parametrize("durability", ["process", "fsync"])
def test_nothing_acknowledged_is_lost_or_doubled(
    data: Path, durability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(SEED)
    monkeypatch.setenv("BRAIDMQ_STORE_QUEUE_MEMORY_BYTES_MAX", "1048576")  # the sleeper's wait on disk
    node = Node(data, "--durability", durability)
    one, two = Publisher("one", 1, "load/1"), Publisher("two", 2, "load/2")
    keeper = Publisher("keeper", 1, "kept/value", window=1, retain=True)
    subscriber, sleeper = Subscriber("subscriber", "load/#", "gone/#"), Subscriber("sleeper", "load/#")
    mortal = Wire("mortal", will=Will("gone/mortal", b"0", 1), properties=FOR_EVER)
    passing = Wire("passing", will=Will("gone/passing", b"0", 1), properties=Properties())
    publishers = [one, two, keeper]
    wires: list[Wire] = [*publishers, subscriber, sleeper, mortal, passing]
    try:
        for wire in (subscriber, sleeper):
            wire.connect(node.port)
        assert run([subscriber, sleeper], lambda: subscriber.granted > 0 < sleeper.granted)
        sleeper.close()
        for _ in range(ROUNDS if durability == "process" else (ROUNDS + 1) // 2):
            play_round(node, chance, publishers, subscriber, [mortal, passing])
        for publisher in publishers:
            publisher.is_paused = True
        for wire in wires:
            wire.connect(node.port)
        assert run(wires, lambda: not any(publisher.open for publisher in publishers))
        assert run(wires, lambda: caught_up(subscriber, one, two) and caught_up(sleeper, one, two))
        check_load(subscriber, one, two)
        check_load(sleeper, one, two)
        check_retained(node, keeper)
    finally:
        for wire in wires:
            wire.close()
        node.kill()


def play_round(
    node: Node,
    chance: random.Random,
    publishers: list[Publisher],
    subscriber: Subscriber,
    dying: list[Wire],
) -> None:
    """Load until some number of acknowledgements, then the kill; the wills of the dead come after it."""
    wires: list[Wire] = [*publishers, subscriber, *dying]
    for wire in wires:
        wire.connect(node.port)
    assert run(wires, lambda: all(wire.connack for wire in wires))
    if chance.random() < 0.5:
        subscriber.connect(node.port)  # takes over from itself, with messages under way
    wills = {wire.client_id: wills_of(wire.client_id, subscriber) for wire in dying}
    so_far, wanted = acknowledgements(publishers), chance.randrange(1, 1500)
    assert run(wires, lambda: acknowledgements(publishers) >= so_far + wanted)
    node.restart()
    for wire in wires:
        wire.close()
    subscriber.connect(node.port)
    assert run(
        [subscriber],
        lambda: all(wills_of(client_id, subscriber) > before for client_id, before in wills.items()),
    ), "a will did not survive"


def wills_of(client_id: str, subscriber: Subscriber) -> int:
    return len(numbers(subscriber.at_least_once, f"gone/{client_id}"))


def acknowledgements(publishers: list[Publisher]) -> int:
    return sum(len(publisher.acknowledged) for publisher in publishers)


def caught_up(wire: Subscriber, one: Publisher, two: Publisher) -> bool:
    seen = set(numbers(wire.at_least_once, "load/1"))
    return seen.issuperset(one.acknowledged) and len(numbers(wire.once, "load/2")) >= len(two.acknowledged)


def check_load(wire: Subscriber, one: Publisher, two: Publisher) -> None:
    got_once = numbers(wire.once, "load/2")
    assert got_once == sorted(got_once), "QoS 2 out of order"
    assert len(set(got_once)) == len(got_once), "QoS 2 doubled"
    assert set(two.acknowledged) <= set(got_once), "QoS 2 lost"
    got = first_times(numbers(wire.at_least_once, "load/1"))
    assert set(one.acknowledged) <= set(got), "QoS 1 lost"
    assert got == sorted(got), "QoS 1 out of order"


def check_retained(node: Node, keeper: Publisher) -> None:
    reader = Subscriber("reader", "kept/#", properties=Properties())
    reader.connect(node.port, clean_start=True)
    assert run([reader], lambda: bool(reader.at_least_once))
    assert numbers(reader.at_least_once, "kept/value") == [keeper.acknowledged[-1]]
    reader.close()


@pytest.mark.timeout(120)
def test_expiries_go_on_while_the_broker_is_dead(data: Path) -> None:
    node = Node(data)
    publisher = Publisher("publisher", 1, "t")
    publisher.is_paused = True
    brief = Subscriber("brief", "t", properties=Properties(session_expiry_s=1))
    lasting = Subscriber("lasting", "t")
    try:
        for wire in (brief, lasting, publisher):
            wire.connect(node.port)
        assert run([brief, lasting], lambda: brief.granted > 0 < lasting.granted)
        assert run([publisher], lambda: publisher.connack is not None)
        for wire in (brief, lasting):
            wire.send(Disconnect())
        assert run([brief, lasting], lambda: not brief.is_up and not lasting.is_up)
        for packet_id, expiry_s in ((1, 1), (2, 1000)):
            publisher.open[packet_id] = packet_id
            properties = Properties(message_expiry_s=expiry_s)
            payload = str(packet_id).encode()
            publisher.send(Publish("t", payload, 1, packet_id=packet_id, properties=properties))
        assert run([publisher], lambda: publisher.acknowledged == [1, 2])
        node.kill()
        over_at_s = time.time() + 1.1  # the expiries above are of one second, and no broker is there to ask
        assert run([], lambda: time.time() >= over_at_s)
        node.broker = node.start()
        brief.granted = 0
        for wire in (brief, lasting):
            wire.connect(node.port)
        assert run([brief, lasting], lambda: bool(lasting.at_least_once) and brief.granted > 0)
        assert numbers(lasting.at_least_once, "t") == [2]
        assert not brief.at_least_once
    finally:
        for each in (publisher, brief, lasting):
            each.close()
        node.kill()


@pytest.mark.timeout(120)
def test_a_clean_stop_keeps_everything_and_frees_the_directory(data: Path) -> None:
    node = Node(data)
    publisher, subscriber = Publisher("publisher", 2, "load/2"), Subscriber("subscriber", "load/#")
    wires: list[Wire] = [publisher, subscriber]
    try:
        subscriber.connect(node.port)
        assert run(wires, lambda: subscriber.granted > 0)
        subscriber.close()
        publisher.connect(node.port)
        assert run(wires, lambda: len(publisher.acknowledged) >= 100)
        assert node.broker.stop() == 0
        node.broker = node.start()
        publisher.is_paused = True
        for wire in wires:
            wire.connect(node.port)
        assert run(wires, lambda: not publisher.open)
        assert run(wires, lambda: len(subscriber.once) >= len(publisher.acknowledged))
        assert numbers(subscriber.once, "load/2") == publisher.acknowledged
    finally:
        for wire in wires:
            wire.close()
        node.kill()
