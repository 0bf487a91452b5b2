"""The demo's checks, against tables made by hand: right ones pass, and each fault fails."""

from braidmq.demo.checks import (
    Check,
    Summary,
    Window,
    check_aggregates,
    check_alert,
    check_clean,
    check_dead_letters,
    check_published,
    check_raw,
    closed_windows,
    expected_windows,
    read_arrivals,
)
from braidmq.demo.plan import FleetPlan, Name, Script

PLAN = FleetPlan(seed=3, start_ms=1_700_000_000_000, seconds=10, devices=8, rate=200)
SCRIPT = Script(PLAN)
NAMES = list(PLAN.names())
BROKEN = [name for name in NAMES if SCRIPT.readings[name] is None]
ROWS = [PLAN.message(name) for name in NAMES]
WINDOW_MS = 2_000


def passed(checks: list[Check]) -> bool:
    return all(check.passed for check in checks)


def test_a_complete_raw_table_passes() -> None:
    assert passed(check_raw(set(NAMES), read_arrivals(SCRIPT, ROWS)))


def test_a_row_that_nobody_promised_may_be_there() -> None:
    assert passed(check_raw(set(NAMES[:-5]), read_arrivals(SCRIPT, ROWS)))


def test_a_missing_a_doubled_and_a_foreign_row_fail_each() -> None:
    promised = set(NAMES)
    verdicts = [
        [check.passed for check in check_raw(promised, read_arrivals(SCRIPT, rows))]
        for rows in (ROWS[1:], [*ROWS, ROWS[7]], [*ROWS, ("plant/x", b"?")])
    ]
    assert verdicts == [[False, True, True], [True, False, True], [True, True, False]]


def test_nothing_promised_shows_nothing() -> None:
    assert not passed(check_raw(set(), read_arrivals(SCRIPT, [])))


def test_dead_letters_are_the_broken_messages_and_no_others() -> None:
    raw = read_arrivals(SCRIPT, ROWS)
    dead = [PLAN.message(name) for name in BROKEN]
    assert passed(check_dead_letters(SCRIPT, raw, read_arrivals(SCRIPT, dead)))
    good = PLAN.message(next(name for name in NAMES if name not in BROKEN))
    for wrong in (dead[1:], [*dead, dead[0]], [*dead, good], [*dead, ("x", b"")], []):
        assert not passed(check_dead_letters(SCRIPT, raw, read_arrivals(SCRIPT, wrong)))
    assert not passed(check_dead_letters(SCRIPT, read_arrivals(SCRIPT, []), read_arrivals(SCRIPT, [])))


def test_what_is_not_broken_is_clean() -> None:
    raw = read_arrivals(SCRIPT, ROWS)
    good = len(NAMES) - len(BROKEN)
    verdicts = [passed(check_clean(SCRIPT, raw, rows)) for rows in (good - 1, good, good + 1)]
    assert verdicts == [False, True, False]


def test_windows_are_what_a_person_would_compute() -> None:
    names = [Name(1, number) for number in range(PLAN.count(1)) if Name(1, number) not in BROKEN]
    windows = expected_windows(SCRIPT, names, WINDOW_MS)
    temperatures = [
        reading.values["temperature"]
        for name in names
        if (reading := SCRIPT.readings[name]) is not None and reading.at_ms < PLAN.start_ms + WINDOW_MS
    ]
    first = windows[Window(PLAN.start_ms, "mill-01", "temperature")]
    assert first.size == len(temperatures)
    assert (first.least, first.most) == (min(temperatures), max(temperatures))
    assert abs(first.mean - sum(temperatures) / len(temperatures)) < 1e-9
    assert sum(summary.size for summary in windows.values()) == 2 * len(names)


def test_only_windows_behind_the_watermark_must_be_there() -> None:
    newest_ms = max(reading.at_ms for reading in SCRIPT.readings.values() if reading is not None)
    closed = closed_windows(SCRIPT, NAMES, WINDOW_MS, watermark_ms=3_000)
    windows = expected_windows(SCRIPT, NAMES, WINDOW_MS)
    assert 0 < len(closed) < len(windows)
    assert all((window in closed) == (window.start_ms + WINDOW_MS <= newest_ms - 3_000) for window in windows)
    assert closed_windows(SCRIPT, [], WINDOW_MS, watermark_ms=0) == set()


def test_each_fault_in_the_aggregates_fails() -> None:
    expected = expected_windows(SCRIPT, NAMES, WINDOW_MS)
    rows = list(expected.items())
    closed = {window for window, _ in rows[:4]}
    assert passed(check_aggregates(expected, closed, rows))
    assert passed(check_aggregates(expected, closed, rows[:4])), "later windows may still be open"
    window, right = rows[0]
    slightly = right._replace(mean=right.mean + 1e-13)
    assert passed(check_aggregates(expected, closed, [(window, slightly), *rows[1:]]))
    faults = (
        right._replace(size=right.size - 1), right._replace(mean=right.mean + 0.01),
        right._replace(least=right.least - 0.01), right._replace(most=right.most + 0.01),
    )  # fmt: skip
    for fault in faults:
        assert not passed(check_aggregates(expected, closed, [(window, fault), *rows[1:]]))
    assert not passed(check_aggregates(expected, closed, rows[1:]))
    assert not passed(check_aggregates(expected, closed, [*rows, rows[0]]))
    foreign = (Window(0, "nobody", "temperature"), Summary(1, 1.0, 1.0, 1.0))
    assert not passed(check_aggregates(expected, closed, [*rows, foreign]))
    assert not passed(check_aggregates(expected, set(), []))


def test_alerts_must_be_raised_and_told() -> None:
    raised = [("silent", "quarry-10"), ("hot", "harbour-01")]
    assert passed(check_alert("silent", "quarry-10", raised))
    assert not passed(check_alert("silent", "harbour-01", raised))
    assert passed(check_published(["a", "b"], ["b", "a", "c"]))
    assert not passed(check_published(["a", "b"], ["a"]))
