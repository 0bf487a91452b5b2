"""Positions in few bytes, and nothing but positions out of hostile ones."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braidmq.topics.bloom.rice import decode_positions, encode_positions, rice_width


@given(st.sets(st.integers(0, 5000), max_size=200), st.integers(0, 16))
def test_there_and_back(positions: set[int], width: int) -> None:
    ordered = sorted(positions)
    coded = encode_positions(ordered, width)
    assert decode_positions(coded, len(ordered), width, 5001) == ordered


@given(st.binary(max_size=60), st.integers(0, 600), st.integers(0, 40), st.integers(0, 10_000))
def test_any_bytes_give_positions_or_a_value_error(data: bytes, count: int, width: int, limit: int) -> None:
    try:
        positions = decode_positions(data, count, width, limit)
    except ValueError:
        return
    assert len(positions) == count
    assert all(0 <= position < limit for position in positions)
    assert positions == sorted(set(positions))


def test_a_forged_count_costs_nothing() -> None:
    with pytest.raises(ValueError, match="the data ends"):
        decode_positions(b"\0" * 8, 2**40, 3, 2**30)


def test_the_size_is_what_theory_says() -> None:
    rng = random.Random(2)
    positions = sorted(rng.sample(range(524_288), 370))
    width = rice_width(len(positions), 524_288)
    assert width == 9
    bits_each = len(encode_positions(positions, width)) * 8 / len(positions)
    entropy = math.log2(math.e * 524_288 / 370)
    assert entropy * 0.98 < bits_each < entropy * 1.05


def test_descending_positions_are_refused() -> None:
    with pytest.raises(ValueError, match="ascend"):
        encode_positions([5, 4], 2)
