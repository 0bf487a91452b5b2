"""The hybrid clock."""

from braidmq.cluster.clock import SKEW_MAX_S, HybridClock, milliseconds


def test_times_grow_within_a_millisecond_and_when_the_wall_clock_goes_back() -> None:
    clock = HybridClock(1000.0)
    first, second = clock.tick(1.0), clock.tick(1.0)
    assert milliseconds(first) == 1_001_000
    assert second == first + 1
    clock.wall_offset_s = 0.0
    assert clock.tick(1.0) > second


def test_what_was_seen_is_before_what_follows() -> None:
    clock = HybridClock(0.0)
    far = 50_000 << 16
    assert clock.seen(far, 1.0)
    assert clock.tick(1.0) == far + 1


def test_a_time_too_far_ahead_is_refused() -> None:
    clock = HybridClock(0.0)
    limit_ms = int((1.0 + SKEW_MAX_S) * 1000)
    assert not clock.seen((limit_ms + 1) << 16, 1.0)
    assert milliseconds(clock.tick(1.0)) == 1000
    assert clock.seen(limit_ms << 16, 1.0)
