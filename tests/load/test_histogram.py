"""A histogram is as good as the list of its values, to within one per cent."""

import math

from hypothesis import given
from hypothesis import strategies as st

from braidmq.load.histogram import Histogram

values = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 10**10), min_size=1, max_size=200)
shares = st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0])


def recorded(numbers: list[int]) -> Histogram:
    histogram = Histogram()
    for number in numbers:
        histogram.record(number)
    return histogram


@given(values, shares)
def test_a_quantile_is_off_by_less_than_one_per_cent(numbers: list[int], share: float) -> None:
    exact = sorted(numbers)[max(1, math.ceil(share * len(numbers))) - 1]
    assert abs(recorded(numbers).quantile(share) - exact) <= exact * 0.01


@given(values)
def test_extremes_count_and_mean_are_exact(numbers: list[int]) -> None:
    histogram = recorded(numbers)
    assert (histogram.minimum, histogram.maximum) == (min(numbers), max(numbers))
    assert histogram.count == len(numbers)
    assert math.isclose(histogram.mean, sum(numbers) / len(numbers), rel_tol=1e-9)


@given(values, values, shares)
def test_merging_is_recording_both(first: list[int], second: list[int], share: float) -> None:
    merged = recorded(first)
    merged.merge(recorded(second))
    together = recorded(first + second)
    assert merged.quantile(share) == together.quantile(share)
    assert (merged.count, merged.minimum, merged.maximum) == (
        together.count, together.minimum, together.maximum)


@given(st.integers(0, 255))
def test_small_values_are_exact(number: int) -> None:
    assert recorded([0, number, 255]).quantile(0.5) == number


def test_an_empty_histogram_says_zero() -> None:
    histogram = recorded([7])
    histogram.clear()
    assert (histogram.quantile(0.99), histogram.count, histogram.mean) == (0, 0, 0.0)
