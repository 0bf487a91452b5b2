"""What a case asks for, worked out by hand."""

import msgspec
import pytest

from braidmq.errors import ConfigError
from braidmq.load.case import Case, Result, fan_out, streams


def test_fan_out_counts_plain_subscribers_and_groups_once_each() -> None:
    subscriptions = ("a/+", "a/+", "#", "$share/g/a/#", "$share/g/a/#", "$share/h/a/#", "b")
    assert fan_out(("a/x", "a", "b"), subscriptions) == [5, 3, 2]


def test_members_of_a_group_read_one_stream() -> None:
    assert streams(("a", "$share/g/a", "a", "$share/g/a", "$share/h/a")) == [0, 1, 2, 1, 3]


@pytest.mark.parametrize(
    ("wrong", "detail"),
    [
        ({"version": 3}, "version"),
        ({"payload_bytes": 15}, "stamp"),
        ({"qos": 1}, "window"),
        ({"qos": 2, "window": 65536}, "window"),
        ({"batch": 0}, "batch"),
        ({"topics": ()}, "topic"),
        ({"window": 1, "check_every": 2}, "checked"),
        ({"publishers": 1 << 20, "subscriptions": ("a",) * 8}, "pairs"),
    ],
)
def test_a_load_that_would_mean_nothing_is_refused(wrong: dict[str, object], detail: str) -> None:
    with pytest.raises(ConfigError, match=detail):
        msgspec.convert(wrong, Case).check()


def test_rates_and_loss_follow_from_the_counts() -> None:
    result = Result(
        expected=100, delivered=95, duplicates=5, steady_s=2.0, steady_delivered=50, steady_sent=60
    )
    assert (result.lost, result.delivery_ratio) == (10, 0.9)
    assert (result.delivered_per_s, result.sent_per_s) == (25.0, 30.0)
