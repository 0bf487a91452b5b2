"""Timers fire in order, and those that were cancelled leave nothing behind."""

from math import inf
from random import Random

from braidmq.timing.timers import Timer, Timers


def test_a_reconnecting_client_leaves_no_timers_behind() -> None:
    timers = Timers()
    timers.set(1e9, lambda: None)
    for number in range(10_000):
        timers.set(86_400.0 + number, lambda: None).cancel()
    assert len(timers) < 200


def test_what_was_not_cancelled_fires_in_order() -> None:
    rng = Random(1)
    timers, fired = Timers(), list[int]()
    living: dict[int, tuple[float, Timer]] = {}
    for number in range(2_000):
        at_s = float(rng.randrange(1_000))
        living[number] = at_s, timers.set(at_s, lambda number=number: fired.append(number))  # type: ignore[misc]
        if rng.random() < 0.7:
            _, timer = living.pop(rng.choice(list(living)))
            timer.cancel()
            timer.cancel()  # once more changes nothing
    expected = sorted(living, key=lambda number: (living[number][0], number))
    for now in range(1_000):
        timers.run_due(now)
    assert fired == expected
    assert (len(timers), timers.next_at_s) == (0, inf)


def test_a_timer_that_has_fired_can_be_cancelled() -> None:
    timers = Timers()
    fired = timers.set(1.0, lambda: None)
    timers.run_due(1.0)
    rest = [timers.set(2.0 + number, lambda: None) for number in range(100)]
    for _ in range(1_000):
        fired.cancel()
    assert len(timers) == len(rest)


def test_a_timer_may_set_and_cancel_others_when_it_fires() -> None:
    timers, fired = Timers(), list[str]()
    second = timers.set(2.0, lambda: fired.append("second"))

    def first() -> None:
        second.cancel()
        timers.set(1.5, lambda: fired.append("third"))

    timers.set(1.0, first)
    timers.run_due(3.0)
    assert fired == ["third"]
