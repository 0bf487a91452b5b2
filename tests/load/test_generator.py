"""The generator against a real broker: Mosquitto where it is installed, BraidMQ otherwise."""

from collections.abc import Iterator

import msgspec
import pytest

from bench import contenders
from bench.contenders import BenchError, Contender
from braidmq.load.case import Case, Result
from braidmq.load.generator import run

TOPIC = "load/topic"
EXACT = Case(topics=(TOPIC,), subscriptions=(TOPIC,), ramp_s=0.0, steady_s=30.0, quiet_s=2.0, spin=False)
VERSIONS = [4, 5]


@pytest.fixture(scope="module")
def broker() -> Iterator[Contender]:
    start = contenders.mosquitto if contenders.find_mosquitto() else contenders.braidmq
    try:
        with start() as contender:
            yield contender
    except BenchError as error:
        pytest.skip(str(error))


def load(broker: Contender, **how: object) -> Result:
    return run(msgspec.structs.replace(EXACT, port=broker.port, **how))


def assert_exact(result: Result, sent: int, delivered: int) -> None:
    assert (result.sent, result.expected, result.delivered) == (sent, delivered, delivered)
    assert (result.lost, result.duplicates, result.order_faults, result.foreign) == (0, 0, 0, 0)
    assert (result.refused, result.broken_links, result.drained) == (0, 0, True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [1, 2])
def test_acknowledged_messages_arrive_once_in_order(broker: Contender, version: int, qos: int) -> None:
    result = load(
        broker, version=version, qos=qos, subscriber_qos=qos, publishers=3, subscriptions=(TOPIC, "load/#"),
        messages=300, window=50, batch=8,
    )
    assert_exact(result, 900, 1800)
    assert result.acknowledged == 900


@pytest.mark.parametrize("version", VERSIONS)
def test_plain_messages(broker: Contender, version: int) -> None:
    result = load(broker, version=version, messages=2000, batch=64, subscriptions=(TOPIC,) * 3)
    assert_exact(result, 2000, 6000)
    assert result.latency.count == result.delivered


def test_a_closed_loop_of_one(broker: Contender) -> None:
    assert_exact(load(broker, messages=200, window=1, publishers=5), 1000, 1000)


def test_many_publishers_one_message_a_write(broker: Contender) -> None:
    assert_exact(load(broker, messages=10, window=4, publishers=200), 2000, 2000)


def test_a_shared_group_gets_each_message_once(broker: Contender) -> None:
    result = load(
        broker, subscriptions=(f"$share/group/{TOPIC}",) * 5, qos=1, subscriber_qos=1, publishers=10,
        messages=100, window=20,
    )
    assert_exact(result, 1000, 1000)


def test_random_topics_reach_those_who_want_them(broker: Contender) -> None:
    topics = tuple(f"load/{a}/{b}" for a in range(10) for b in range(10))
    result = load(
        broker, topics=topics, random_topics=True, subscriptions=("load/3/#", "load/+/4", "#"), messages=3000,
        batch=16,
    )
    assert 3000 < result.expected < 6000
    assert_exact(result, 3000, result.expected)


def test_the_same_seed_draws_the_same_topics(broker: Contender) -> None:
    def drawn(seed: int) -> int:
        topics = tuple(f"load/{n}" for n in range(100))
        return load(
            broker, topics=topics, random_topics=True, subscriptions=topics[:37], messages=999, batch=16,
            seed=seed,
        ).expected

    assert drawn(1) == drawn(1)
    assert len({drawn(seed) for seed in range(1, 5)}) > 1


def test_payloads_larger_than_a_read(broker: Contender) -> None:
    assert_exact(load(broker, payload_bytes=400_000, messages=30, batch=4), 30, 30)


@pytest.mark.parametrize("spin", [False, True])
def test_paced(broker: Contender, spin: bool) -> None:
    result = load(broker, messages=100, publishers=4, rate_per_s=4000.0, spin=spin)
    assert_exact(result, 400, 400)


def test_idle_connections_and_the_probe(broker: Contender) -> None:
    moments = iter(range(10))
    idle = {"publishers": 0, "subscriptions": (), "idle": 150, "steady_s": 0.05}
    case = msgspec.structs.replace(EXACT, port=broker.port, **idle)
    result = run(case, lambda: {"moment": float(next(moments))})
    assert [probe["moment"] for probe in result.probes.values()] == [0, 1, 2, 3, 4]
    assert list(result.probes) == ["before", "connected", "begin", "end", "drained"]
    assert result.broken_links == 0
