"""What a subscriber has had from one publisher."""

from math import inf
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from braidmq.overlay.sequence import WINDOW, Sequence


@given(st.lists(st.integers(1, 60), max_size=200))
def test_every_number_is_new_once(numbers: list[int]) -> None:
    sequence: Sequence[int] = Sequence()
    seen: set[int] = set()
    for number in numbers:
        assert sequence.is_new(number) == (number not in seen)
        seen.add(number)


def test_numbers_below_the_window_count_as_seen() -> None:
    sequence: Sequence[int] = Sequence()
    assert sequence.is_new(WINDOW + 10)
    assert not sequence.is_new(10)
    assert sequence.is_new(11)
    assert sequence.is_new(10**9)
    assert not sequence.is_new(WINDOW)


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 5))
def test_what_comes_in_disorder_leaves_in_order_if_nothing_is_missing(
    seed: int, count: int, first: int
) -> None:
    order = list(range(first, first + count))
    shuffled = sorted(order, key=lambda number: number + Random(seed + number).uniform(0, 4))
    sequence: Sequence[int] = Sequence()
    taken = [one for number in shuffled for one in sequence.take(number, number, 0.0, 0.05)]
    taken += sequence.release(1.0)
    assert taken == order
    assert sequence.release_at_s == inf


def test_a_gap_is_waited_for_and_then_given_up() -> None:
    sequence: Sequence[str] = Sequence()
    assert sequence.take(1, "a", 0.0, 0.05) == ["a"]
    assert sequence.take(3, "c", 1.0, 0.05) == []
    assert sequence.release_at_s == 1.05
    assert sequence.take(4, "d", 1.01, 0.05) == []
    assert sequence.release(1.02) == []
    assert sequence.release(1.05) == ["c", "d"]
    assert sequence.take(2, "b", 1.2, 0.05) == ["b"]
    assert sequence.late_count == 1
    assert sequence.take(5, "e", 1.3, 0.0) == ["e"]
