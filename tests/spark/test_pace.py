from braidmq.spark.options import Connection
from braidmq.spark.pace import Pace, Rate
from braidmq.spark.watching import GroupWatch, outage_warning


def test_a_segment_is_closed_when_it_is_large_or_old() -> None:
    pace = Pace(rows_max=100, bytes_max=1_000, delay_s=0.5)
    assert pace.patience_s(rows=100, size_bytes=1, waited_s=0) == 0
    assert pace.patience_s(rows=1, size_bytes=1_000, waited_s=0) == 0
    assert pace.patience_s(rows=1, size_bytes=1, waited_s=0.2) == 0.3
    assert pace.patience_s(rows=1, size_bytes=1, waited_s=0.6) == 0


def test_a_broker_that_waits_for_us_is_not_kept_waiting() -> None:
    pace = Pace(rows_max=100, bytes_max=1_000, delay_s=0.5)
    for _ in range(2):
        assert pace.patience_s(20, 1, 0.0) > 0
        pace.stored(20, waited_s=0.5)
    assert pace.patience_s(19, 1, 0.0) > 0
    assert pace.patience_s(20, 1, 0.0) == 0


def test_more_messages_than_that_show_that_it_was_chance() -> None:
    pace = Pace(rows_max=100, bytes_max=1_000, delay_s=0.5)
    pace.stored(20, waited_s=0.5)
    pace.stored(20, waited_s=0.5)
    assert pace.patience_s(21, 1, 0.0) > 0
    assert pace.patience_s(20, 1, 0.0) > 0


def test_a_rate_follows_what_comes_and_survives_a_restart() -> None:
    rate = Rate()
    values = [rate.update(1_000 * second, float(second)) for second in range(600)]
    assert values[0] == 0
    assert abs(values[-1] - 1_000) < 10
    assert rate.update(500, 600.0) > 900


def test_an_outage_that_the_group_can_not_hold_is_told_before_it_comes() -> None:
    assert outage_warning(10.0, None, 100) is None
    assert outage_warning(10.0, 60.0, None) is None
    assert outage_warning(10.0, 60.0, 600) is None
    told = outage_warning(100.0, 3_600.0, 10_000)
    assert told is not None
    assert "full after 100 s" in told
    assert "groups.messages_max" in told


def test_what_brokers_say_of_the_group_is_added_up() -> None:
    watch = GroupWatch(Connection(brokers=()), "g")
    assert watch.waiting is None
    watch.take("a:1", "t", b'{"waiting_messages": 5, "messages_max": 100, "members": []}')
    watch.take("b:1", "t", b'{"waiting_messages": 7, "messages_max": 50}')
    assert (watch.waiting, watch.messages_max) == (12, 50)
    watch.take("b:1", "t", b"")
    assert watch.waiting == 5
