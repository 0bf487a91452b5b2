"""Whether the tables hold what the devices said: no more, no less. Pure.

What may be in a table follows from the plan; what must be there follows from the ledgers: a message that was
acknowledged to its publisher. A message that was sent and whose acknowledgement nobody has seen may be there.
Every check gives its verdict with the numbers it is made of.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from braidmq.demo.plan import Message, Name, Script

TOLERANCE: Final = 1e-9  # of a mean, relative: sums may be added up in another order


class Check(NamedTuple):
    text: str
    passed: bool


class Window(NamedTuple):
    """Names a row of the aggregates."""

    start_ms: int
    device: str
    metric: str


class Summary(NamedTuple):
    """What a row of the aggregates says."""

    size: int  # how many values
    mean: float
    least: float
    most: float


class Arrivals(NamedTuple):
    """The raw table, understood."""

    counts: Counter[Name]  # how often each message of the plan is there
    foreign: int  # rows that no device has sent


def read_arrivals(script: Script, rows: Iterable[tuple[str, bytes]]) -> Arrivals:
    """Which messages these rows (topic, payload) are."""
    counts: Counter[Name] = Counter()
    foreign = 0
    for topic, payload in rows:
        name = script.names.get(Message(topic, payload))
        if name is None:
            foreign += 1
        else:
            counts[name] += 1
    return Arrivals(counts, foreign)


def check_raw(promised: set[Name], raw: Arrivals) -> list[Check]:
    """Every message that was acknowledged to a publisher is in the raw table exactly once."""
    missing = sum(not raw.counts[name] for name in promised)
    doubled = sum(count > 1 for count in raw.counts.values())
    there = len(promised) - missing
    return [
        Check(
            f"every acknowledged message is in the raw table ({there:,} of {len(promised):,})",
            bool(promised) and not missing,
        ),
        Check(f"none is there twice ({doubled:,} are)", not doubled),
        Check(f"nothing else is there ({raw.foreign:,} rows that nobody sent)", not raw.foreign),
    ]


def check_dead_letters(script: Script, raw: Arrivals, dead: Arrivals) -> list[Check]:
    """Every broken message, and no other, is in the dead-letter table, once."""
    broken = {name for name in raw.counts if script.readings[name] is None}
    right = dead.counts == Counter(broken) and not dead.foreign
    found = dead.counts.total() + dead.foreign
    text = f"dead letters are the broken messages ({found:,} of {len(broken):,})"
    return [Check(text, right and bool(broken))]


def check_clean(script: Script, raw: Arrivals, clean_rows: int) -> list[Check]:
    """All others are in the clean table."""
    good = sum(script.readings[name] is not None for name in raw.counts)
    return [Check(f"all others are in the clean table ({clean_rows:,} of {good:,})", clean_rows == good)]


def expected_windows(script: Script, names: Iterable[Name], window_ms: int) -> dict[Window, Summary]:
    """The aggregates of these messages, computed without Spark."""
    values: dict[Window, list[float]] = {}
    for name in names:
        reading = script.readings[name]
        if reading is None:
            continue
        start_ms = reading.at_ms - reading.at_ms % window_ms
        device = script.plan.device_name(name.device)
        for metric, value in reading.values.items():
            values.setdefault(Window(start_ms, device, metric), []).append(value)
    return {
        window: Summary(len(found), sum(found) / len(found), min(found), max(found))
        for window, found in values.items()
    }


def closed_windows(
    script: Script, names: Iterable[Name], window_ms: int, watermark_ms: int
) -> set[Window]:
    """The windows that must be there when these messages have come: the watermark has passed their end."""
    windows = expected_windows(script, arrived := list(names), window_ms)
    times_ms = [reading.at_ms for name in arrived if (reading := script.readings[name]) is not None]
    passed_ms = max(times_ms, default=0) - watermark_ms
    return {window for window in windows if window.start_ms + window_ms <= passed_ms}


def check_aggregates(
    expected: Mapping[Window, Summary], closed: set[Window], rows: Iterable[tuple[Window, Summary]]
) -> list[Check]:
    """Every window that was closed is there once, and each says what the devices said."""
    found = list(rows)
    by_window = dict(found)
    agreeing = {window for window, summary in found if _agree(summary, expected.get(window))}
    right = len(by_window) == len(found) == len(agreeing) and closed <= agreeing
    missing = len(closed - by_window.keys())
    wrong = len(found) - len(agreeing)
    faults = f"{wrong:,} don't, {missing:,} are missing"
    text = f"{len(agreeing):,} windows agree with what the devices sent ({faults})"
    return [Check(text, right and bool(closed))]


def _agree(one: Summary, other: Summary | None) -> bool:
    if other is None or one.size != other.size:
        return False
    pairs = zip(one[1:], other[1:], strict=True)
    return all(abs(left - right) <= TOLERANCE * max(1.0, abs(right)) for left, right in pairs)


def check_alert(rule: str, device: str, raised: Iterable[tuple[str, str]]) -> list[Check]:
    """The rule was raised for the device; `raised` are (rule, device) pairs."""
    return [Check(f"{rule}: an alert was raised for {device}", (rule, device) in set(raised))]


def check_published(raised: Iterable[str], received: Iterable[str]) -> list[Check]:
    """Every alert of the table was also told by MQTT; both are ids of alerts."""
    ids, told = set(raised), set(received)
    return [Check(f"every alert was published over MQTT ({len(ids & told):,} of {len(ids):,})", ids <= told)]
