"""Whom to dial and when."""

from random import Random

from braidmq.cluster.dialling import DELAY_MAX_S, DELAY_MIN_S, Dialling


def test_waits_double_up_to_a_bound_and_are_never_in_step() -> None:
    waits = []
    for seed in (1, 2):
        dialling, now = Dialling(Random(seed)), 0.0
        dialling.want("a:1", ("a:1",), now)
        found = []
        for _ in range(9):
            assert dialling.due(now) == ["a:1"]
            dialling.ended("a:1", now)
            found.append(dialling.next_at_s - now)
            now = dialling.next_at_s
        waits.append(found)
    for number, wait_s in enumerate(waits[0]):
        usual_s = min(DELAY_MIN_S * 2**number, DELAY_MAX_S)
        assert 0.8 * usual_s <= wait_s <= 1.2 * usual_s
    assert waits[0] != waits[1]


def test_nobody_is_dialled_before_the_last_dial_is_answered() -> None:
    dialling = Dialling(Random(1))
    dialling.want(5, ("a:1",), 0.0)
    assert dialling.due(0.0) == ["a:1"]
    assert dialling.due(100.0) == []
    dialling.want(5, ("a:1",), 100.0)  # that it is still wanted changes nothing
    assert dialling.due(100.0) == []


def test_addresses_of_a_member_take_turns() -> None:
    dialling, now, dialled = Dialling(Random(1)), 0.0, []
    dialling.want(5, ("a:1", "b:1", "a:1"), now)
    for _ in range(4):
        (address,) = dialling.due(now)
        dialled.append(address)
        dialling.ended(address, now)
        now = dialling.next_at_s
    assert dialled == ["a:1", "b:1", "a:1", "b:1"]


def test_one_address_is_dialled_by_one_target_at_a_time() -> None:
    dialling = Dialling(Random(1))
    dialling.want("a:1", ("a:1",), 0.0)
    dialling.want(5, ("a:1",), 0.0)
    assert dialling.due(0.0) == ["a:1"]
    assert dialling.next_at_s > 0.0
    assert dialling.due(dialling.next_at_s) == []


def test_a_rest_is_kept_and_who_is_stopped_is_not_dialled() -> None:
    dialling = Dialling(Random(1))
    for target in ("a:1", "b:1"):
        dialling.want(target, (target,), 0.0)
    assert dialling.due(0.0) == ["a:1", "b:1"]
    dialling.ended("a:1", 0.0, rest_s=60.0)
    dialling.stop("b:1")
    assert dialling.due(59.0) == []
    assert dialling.due(60.0) == ["a:1"]
