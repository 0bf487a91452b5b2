"""How long messages are in hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braidmq.client.workbench import Workbench


def test_one_message_at_a_time_takes_the_time_it_takes() -> None:
    bench = Workbench()
    bench.take(1, 1.0)
    assert (bench.messages, bench.waiting) == (1, 0)
    assert bench.finish(1, 1.5, whole_delivery=True) == (1, 0.5)
    bench.take(1, 9.0)  # idle until now
    assert bench.finish(1, 9.25, whole_delivery=True) == (1, 0.25)


def test_a_batch_is_one_piece_of_work_and_the_rest_of_it_waits() -> None:
    bench = Workbench()
    bench.take(10, 0.0)
    assert bench.waiting == 9
    assert bench.finish(1, 1.0, whole_delivery=False) == (1, 1.0)
    assert bench.waiting == 8
    assert bench.finish(9, 4.0, whole_delivery=True) == (9, 3.0)
    assert (bench.messages, bench.waiting) == (0, 0)


def test_workers_side_by_side_share_the_time() -> None:
    bench = Workbench()
    for _ in range(4):
        bench.take(1, 0.0)
    assert bench.waiting == 0
    works = [bench.finish(1, 2.0, whole_delivery=True)[1] for _ in range(4)]
    assert sum(works) == 2.0


def test_what_is_not_in_hand_is_not_finished() -> None:
    bench = Workbench()
    bench.take(0, 0.0)
    assert bench.finish(3, 1.0, whole_delivery=True) == (0, 0.0)
    bench.take(1, 2.0)
    assert bench.finish(3, 3.0, whole_delivery=True) == (1, 1.0)
    assert bench.messages == 0


step = st.tuples(st.booleans(), st.integers(1, 5), st.booleans(), st.floats(0.0, 10.0))


@given(st.lists(step, max_size=40))
def test_the_work_is_the_time_with_something_in_hand(steps: list[tuple[bool, int, bool, float]]) -> None:
    bench, now, busy_s, work_s, in_hand = Workbench(), 0.0, 0.0, 0.0, 0
    unfinished_s = 0.0  # busy since the last one was finished
    for takes, count, whole, passing_s in steps:
        if takes:
            bench.take(count, now)
            in_hand += count
        else:
            done, spent_s = bench.finish(count, now, whole_delivery=whole)
            assert done == min(count, in_hand)
            in_hand -= done
            work_s += spent_s
            unfinished_s = 0.0 if done else unfinished_s
        assert bench.messages == in_hand
        assert 0 <= bench.waiting <= max(in_hand - 1, 0)
        now += passing_s
        if in_hand:
            busy_s += passing_s
            unfinished_s += passing_s
    assert work_s + unfinished_s == pytest.approx(busy_s)
