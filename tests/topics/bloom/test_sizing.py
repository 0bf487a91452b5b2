"""The formulas against the paper's vector, against each other and against filters that were filled."""

import random

import pytest

from braidmq.topics.bloom import sizing
from braidmq.topics.bloom.classic import ClassicBloom
from braidmq.topics.bloom.prefix import PrefixFilter


def test_the_papers_example() -> None:
    bits = sizing.classic_bits(100_000, 0.001)
    assert bits == 1_437_759
    assert sizing.classic_hashes(bits, 100_000) == 10


def test_the_best_number_of_hashes_gives_the_rate_asked_for() -> None:
    for rate in (0.1, 0.01, 1e-4, 1e-6):
        bits = sizing.classic_bits(5_000, rate)
        hashes = sizing.classic_hashes(bits, 5_000)
        assert sizing.classic_rate(bits, hashes, 5_000) == pytest.approx(rate, rel=0.05)


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.5, 2.0])
def test_an_impossible_rate_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        sizing.classic_bits(10, rate)


@pytest.mark.parametrize(
    ("bits_per_key", "hashes", "rate"),
    [(9.6, 7, 1.15e-2), (14.4, 10, 1.58e-3), (16, 8, 8.7e-4), (19.2, 9, 2.76e-4), (24, 10, 5.9e-5)],
)
def test_the_blocked_formula(bits_per_key: float, hashes: int, rate: float) -> None:
    blocks = 4096
    keys = int(blocks * 512 / bits_per_key)
    assert sizing.blocked_rate(blocks, hashes, keys) == pytest.approx(rate, rel=0.01)


def test_the_blocked_formula_at_its_edges() -> None:
    assert sizing.blocked_rate(8, 10, 0) == 0.0
    assert sizing.blocked_rate(1, 10, 100_000) == pytest.approx(1.0)


def test_blocks_are_powers_of_two_that_hold_the_keys() -> None:
    for keys in (0, 1, 23, 24, 1000, 23_831, 23_832):
        blocks = sizing.blocks_for(keys, 22)
        assert blocks & (blocks - 1) == 0
        assert sizing.keys_capacity(blocks, 22) >= keys
        assert blocks == 1 or sizing.keys_capacity(blocks // 2, 22) < keys


def test_more_bits_want_more_hashes() -> None:
    chosen = [sizing.blocked_hashes(bits) for bits in (6, 10, 16, 22, 40)]
    assert chosen == sorted(chosen)
    assert chosen[0] < chosen[-1] <= sizing.BLOCKED_HASHES_MAX


@pytest.mark.parametrize(("bits_per_element", "hashes", "asked"), [(9.6, 7, 200_000), (14.4, 10, 800_000)])
def test_a_classic_filter_lies_as_often_as_the_formula_says(
    bits_per_element: float, hashes: int, asked: int
) -> None:
    elements = 20_000
    bloom = ClassicBloom(int(elements * bits_per_element), hashes)
    for index in range(elements):
        bloom.add(b"in/%d" % index)
    assert all(b"in/%d" % index in bloom for index in range(0, elements, 7))
    wrong = sum(b"out/%d" % index in bloom for index in range(asked))
    assert wrong / asked == pytest.approx(sizing.classic_rate(bloom.bits, hashes, elements), rel=0.1)


@pytest.mark.parametrize(("bits_per_key", "hashes", "asked"), [(9.6, 7, 200_000), (14.4, 10, 800_000)])
def test_a_blocked_filter_lies_as_often_as_the_formula_says(
    bits_per_key: float, hashes: int, asked: int
) -> None:
    rng = random.Random(11)
    blocks = 1024
    keys = int(blocks * 512 / bits_per_key)
    filter = PrefixFilter(blocks, hashes, 1)
    filter.add_keys(rng.getrandbits(64) for _ in range(keys))
    wrong = sum(filter.has_key(rng.getrandbits(64)) for _ in range(asked))
    assert wrong / asked == pytest.approx(sizing.blocked_rate(blocks, hashes, keys), rel=0.1)
