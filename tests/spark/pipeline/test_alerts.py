"""Rules against what devices do: raised once, cleared once, and silence judged fairly."""

from braidmq.spark.pipeline.alerts import Digest, Listening, State, advance, topic_of
from braidmq.spark.pipeline.config import Rule

HOT = Rule(name="hot", metric="t", above=80.0)
COLD = Rule(name="cold", schema="a", metric="t", below=0.0)
SILENT = Rule(name="silent", silent_s=60)
S = 1_000_000


def measured(device: str, at_s: int, least: float, most: float, last: float, schema: str = "a") -> Digest:
    return Digest(schema, device, "t", at_s * S, least, most, last, at_s * S)


def heard(device: str, at_s: int) -> Digest:
    return Digest("a", device, None, at_s * S)


def told(
    state: State, digests: list[Digest], rule: Rule, now_s: int | None = None
) -> tuple[State, list[tuple[str, str]]]:
    after, alerts = advance(state, digests, [rule], None if now_s is None else Listening(0, now_s * S))
    return after, [(alert.device, alert.state) for alert in alerts]


def test_a_threshold_is_raised_once_and_cleared_once() -> None:
    state, first = told({}, [measured("d", 1, 70, 90, 90)], HOT)
    assert first == [("d", "raised")]
    state, second = told(state, [measured("d", 2, 81, 95, 85)], HOT)
    assert second == []
    state, third = told(state, [measured("d", 3, 20, 85, 80)], HOT)
    assert third == [("d", "cleared")]
    assert state == {}


def test_a_peak_inside_a_batch_is_told() -> None:
    state, alerts = told({}, [measured("d", 1, 20, 90, 30)], HOT)
    assert alerts == [("d", "raised"), ("d", "cleared")]
    assert state == {}


def test_a_rule_minds_its_schema_and_its_direction() -> None:
    _, alerts = told(
        {}, [measured("d", 1, -5, 90, -5, "b"), measured("e", 1, -5, 90, -5), measured("f", 1, 0, 9, 0)], COLD
    )
    assert alerts == [("e", "raised")]


def test_silence_is_told_once_and_the_next_message_clears_it() -> None:
    state, alerts = told({}, [heard("d", 0), heard("e", 50)], SILENT, 60)
    assert alerts == []
    state, alerts = told(state, [], SILENT, 61)
    assert alerts == [("d", "raised")]
    state, alerts = told(state, [], SILENT, 100)
    assert alerts == []
    state, alerts = told(state, [heard("d", 99)], SILENT, 100)
    assert alerts == [("d", "cleared")]
    state, alerts = told(state, [heard("d", 98)], SILENT, 111)
    assert alerts == [("e", "raised")]


def test_the_same_alert_has_the_same_id() -> None:
    _, first = advance({}, [heard("d", 0)], [SILENT], Listening(0, 100 * S))
    _, again = advance({}, [heard("d", 0)], [SILENT], Listening(0, 105 * S))
    assert [alert.id for alert in first] == [alert.id for alert in again]
    assert first[0].at_us == 60 * S


def test_nobody_is_silent_while_we_do_not_listen() -> None:
    state, alerts = advance({}, [heard("d", 0)], [SILENT], None)
    assert alerts == []
    assert advance(state, [], [SILENT], Listening(500 * S, 560 * S))[1] == []
    _, (alert,) = advance(state, [], [SILENT], Listening(500 * S, 561 * S))
    assert (alert.state, alert.since_us) == ("raised", 560 * S)


def test_the_topic_is_filled_in() -> None:
    _, (alert,) = advance({}, [heard("site/d", 0)], [SILENT], Listening(0, 100 * S))
    assert topic_of("alerts/{schema}/{device}/{rule}", alert) == "alerts/a/site/d/silent"
