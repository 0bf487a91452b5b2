from braidmq.spark.pace import Pace


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
