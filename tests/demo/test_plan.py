"""The plan of the fleet: the same for the same seed, every message its own, and as broken as it says."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braidmq.demo.plan import METRICS, FleetPlan, Name

PLAN = FleetPlan(seed=1, start_ms=1_700_000_000_000, seconds=10, devices=12, rate=300)


def test_the_same_seed_says_the_same_and_another_says_something_else() -> None:
    again = FleetPlan(seed=1, start_ms=PLAN.start_ms, seconds=10, devices=12, rate=300)
    other = FleetPlan(seed=2, start_ms=PLAN.start_ms, seconds=10, devices=12, rate=300)
    names = list(PLAN.names())
    assert [PLAN.message(name) for name in names] == [again.message(name) for name in names]
    assert [PLAN.message(name) for name in names] != [other.message(name) for name in names]


def test_no_two_messages_are_the_same() -> None:
    messages = [PLAN.message(name) for name in PLAN.names()]
    assert len(set(messages)) == len(messages)


def test_devices_have_names_of_their_own() -> None:
    assert len({PLAN.device_name(device) for device in range(PLAN.devices)}) == PLAN.devices
    assert PLAN.topic(0) == "plant/harbour/harbour-01/reading"


@given(cuts=st.lists(st.floats(0, 10), max_size=8), brokers=st.integers(1, 4))
def test_however_time_is_cut_everything_is_said_once(cuts: list[float], brokers: int) -> None:
    times = [0.0, *sorted(cuts), PLAN.seconds]
    said = [
        name
        for broker in range(brokers)
        for after_s, until_s in itertools.pairwise(times)
        for name in PLAN.due_between(PLAN.devices_of(broker, brokers), after_s, until_s)
    ]
    assert sorted(said) == sorted(PLAN.names())


def test_one_device_falls_silent_and_one_overheats() -> None:
    counts = [PLAN.count(device) for device in range(PLAN.devices)]
    assert counts[PLAN.silent_device] < min(counts[:-1]) / 2
    assert PLAN.due_s(Name(PLAN.silent_device, counts[PLAN.silent_device] - 1)) < 0.3 * PLAN.seconds
    hottest = max(
        (reading.values["temperature"], name.device)
        for name in PLAN.names()
        if (reading := PLAN.written(name)[1]) is not None
    )
    assert hottest[0] > 80
    assert hottest[1] == PLAN.hot_device


def test_what_is_broken_can_not_be_read_and_the_rest_says_its_reading() -> None:
    broken = 0
    for name in PLAN.names():
        message, reading = PLAN.written(name)
        payload = message.payload
        if reading is None:
            broken += 1
            assert not _fits(payload)
        else:
            fields = json.loads(payload)
            assert (fields["n"], fields["at_ms"]) == (name.number, reading.at_ms)
            assert {metric: fields[metric] for metric in METRICS} == reading.values
    assert 0 < broken < 0.05 * len(list(PLAN.names()))


def _fits(payload: bytes) -> bool:
    try:
        fields = json.loads(payload)
        return all(isinstance(fields[metric], float) for metric in METRICS)
    except (ValueError, TypeError, KeyError):
        return False


@pytest.mark.parametrize("device", [0, 5, 11])
def test_event_times_rise_with_the_interval(device: int) -> None:
    times = [PLAN.due_s(Name(device, number)) for number in range(PLAN.count(device))]
    assert times == sorted(times)
    assert times[1] - times[0] == pytest.approx(PLAN.devices / PLAN.rate)
