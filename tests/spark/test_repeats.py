"""Marks and the filter that drops repeats."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braidmq.spark.repeats import MARK, Marker, RepeatFilter


def test_a_mark_says_where_the_row_stands() -> None:
    assert Marker("q", "7", 3).mark(42) == (MARK, "q/7/3/42")
    assert Marker("q", "7", 3).mark(42, row_id="pump-1") == (MARK, "q/7/id/pump-1")


@given(st.lists(st.integers(0, 20)))
def test_each_row_is_given_out_once_however_often_it_comes(rows: list[int]) -> None:
    marker, repeats = Marker("q", "0", 0), RepeatFilter()
    kept = [row for row in rows if not repeats.is_repeat([("other", "x"), marker.mark(row)])]
    assert kept == list(dict.fromkeys(rows))


def test_a_message_without_a_mark_is_never_a_repeat() -> None:
    repeats = RepeatFilter()
    assert not any(repeats.is_repeat([("other", "x")]) for _ in range(3))


def test_only_so_many_marks_are_remembered() -> None:
    marker, repeats = Marker("q", "0", 0), RepeatFilter(marks_max=2)
    assert [repeats.is_repeat([marker.mark(row)]) for row in (1, 2, 2, 3, 3, 1)] == [
        False, False, True, False, True, False,
    ]  # fmt: skip
    with pytest.raises(ValueError, match="marks_max"):
        RepeatFilter(0)
