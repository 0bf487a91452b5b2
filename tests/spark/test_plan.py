"""Planning as arithmetic: whatever the limits, every row is read exactly once."""

from hypothesis import given
from hypothesis import strategies as st

from braidmq.spark.offsets import Log, Logs, Offsets, Segment, earliest, end_offset, latest, read_log
from braidmq.spark.plan import (
    Gap,
    Keep,
    TriggerLimits,
    next_end,
    partitions,
    rows_waiting,
    share,
    slices,
    trimmable,
)

NO_LIMITS = TriggerLimits()


def log_of(*rows: int, first: int = 0, row_bytes: int = 10) -> Log:
    segments = []
    for count in rows:
        segments.append(Segment(first, count, count * row_bytes))
        first += count
    return tuple(segments)


logs = st.dictionaries(
    st.sampled_from("abc"),
    st.builds(
        lambda rows, first, row_bytes: log_of(*rows, first=first, row_bytes=row_bytes),
        st.lists(st.integers(1, 50), min_size=1, max_size=6),
        st.integers(0, 1000),
        st.integers(0, 100),
    ),
    min_size=1,
)
limits = st.builds(
    TriggerLimits,
    rows_max=st.none() | st.integers(1, 60),
    bytes_max=st.none() | st.integers(1, 3000),
)


def rows_between(start: Offsets, end: Offsets, known: Logs) -> list[tuple[str, int]]:
    found, gaps = slices(start, end, known)
    assert gaps == []
    return [
        (piece.subscriber, piece.segment.first + piece.skip + row)
        for piece in found
        for row in range(piece.rows)
    ]


@given(logs, limits)
def test_batch_after_batch_reads_every_row_once_and_comes_to_an_end(
    known: Logs, chosen: TriggerLimits
) -> None:
    start: Offsets = {}
    read: list[tuple[str, int]] = []
    while (end := next_end(start, known, chosen, 0.0)) != start:
        batch = rows_between(start, end, known)
        assert batch, "a batch without rows"
        if chosen.rows_max is not None:
            assert len(batch) <= chosen.rows_max
        read += batch
        start = end
    assert sorted(read) == sorted(
        (name, row) for name, log in known.items() for row in range(log[0].first, end_offset(log))
    )
    assert rows_waiting(start, known) == 0


@given(logs, limits)
def test_the_same_offsets_give_the_same_rows(known: Logs, chosen: TriggerLimits) -> None:
    start: Offsets = {}
    end = next_end(start, known, chosen, 0.0)
    grown = {name: (*log, Segment(end_offset(log), 5, 50)) for name, log in known.items()}
    assert rows_between(start, end, known) == rows_between(start, end, grown)


@given(logs, st.integers(1, 500))
def test_partitions_keep_order_and_are_bounded(known: Logs, bytes_max: int) -> None:
    found, _ = slices({}, latest(known), known)
    parts = partitions(found, bytes_max)
    assert [piece for part in parts for piece in part] == found
    for part in parts:
        assert len(part) == 1 or sum(piece.size_bytes for piece in part) <= bytes_max


def test_a_small_batch_is_one_partition_and_a_large_one_is_bounded() -> None:
    small = {name: log_of(10, 10) for name in "abcdefgh"}
    assert len(partitions(slices({}, latest(small), small)[0])) == 1
    large = {name: log_of(*[1] * 200, row_bytes=1 << 20) for name in "abcdefgh"}
    parts = partitions(slices({}, latest(large), large)[0])
    assert {sum(piece.size_bytes for piece in part) >> 20 for part in parts} == {32}


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 1000), min_size=1), st.integers(1, 2000))
def test_shares_add_up(wanted: dict[str, int], total_max: int) -> None:
    shares = share(wanted, total_max)
    assert sum(shares.values()) == min(total_max, sum(wanted.values()))
    assert all(0 <= shares[name] <= wanted[name] for name in wanted)


def test_bytes_bound_a_batch() -> None:
    known = {"a": log_of(10, 10, row_bytes=10)}
    end = next_end({"a": 0}, known, TriggerLimits(bytes_max=120), 0.0)
    assert end == {"a": 12}


def test_one_row_is_read_even_if_it_is_over_the_bytes() -> None:
    known = {"a": log_of(3, row_bytes=1000)}
    assert next_end({"a": 0}, known, TriggerLimits(bytes_max=1), 0.0) == {"a": 1}


def test_a_slow_source_waits_for_enough_rows_but_not_for_ever() -> None:
    known = {"a": log_of(5)}
    chosen = TriggerLimits(rows_min=10, delay_max_s=3.0)
    assert next_end({"a": 0}, known, chosen, 2.9) == {"a": 0}
    assert next_end({"a": 0}, known, chosen, 3.0) == {"a": 5}
    assert next_end({"a": 0}, {"a": log_of(10)}, chosen, 0.0) == {"a": 10}


def test_a_subscriber_without_rows_makes_no_batch() -> None:
    assert next_end({"a": 5}, {"a": log_of(5), "b": ()}, NO_LIMITS, 0.0) == {"a": 5}


def test_a_new_subscriber_is_read_from_its_first_segment() -> None:
    known = {"a": log_of(5), "b": log_of(2, first=100)}
    end = next_end({"a": 5}, known, NO_LIMITS, 0.0)
    assert end == {"a": 5, "b": 102}
    assert rows_between({"a": 5}, end, known) == [("b", 100), ("b", 101)]


def test_missing_rows_are_named() -> None:
    known = {"a": (Segment(10, 5, 50), Segment(20, 5, 50))}
    _, gaps = slices({"a": 8, "b": 0}, {"a": 27, "b": 3}, known)
    assert gaps == [Gap("a", 8, 10), Gap("a", 15, 20), Gap("a", 25, 27), Gap("b", 0, 3)]
    assert str(gaps[0]) == "rows 8 to 9 of a"


def test_a_row_that_two_segments_have_is_read_once() -> None:
    known = {"a": (Segment(0, 10, 100), Segment(5, 10, 100))}
    assert rows_between({"a": 0}, {"a": 15}, known) == [("a", row) for row in range(15)]


keeps = st.builds(Keep, st.integers(0, 100), st.integers(0, 2000), st.integers(0, 6))


@given(logs, st.integers(0, 1200), keeps)
def test_trimming_keeps_what_is_needed(known: Logs, committed: int, keep: Keep) -> None:
    for log in known.values():
        trimmed = set(trimmable(log, committed, keep))
        assert log[-1] not in trimmed
        assert all(segment.end <= committed for segment in trimmed)
        left = [segment for segment in log if segment not in trimmed]
        assert end_offset(tuple(left)) == end_offset(log)


def test_repeats_stay_known_as_long_as_there_is_room() -> None:
    log = log_of(10, 10, 10, 10)
    assert [segment.first for segment in trimmable(log, 40, Keep(15, 1_000, 99))] == [10, 0]
    assert [segment.first for segment in trimmable(log, 40, Keep(1_000, 150, 99))] == [10, 0]
    assert [segment.first for segment in trimmable(log, 40, Keep(1_000, 1_000, 3))] == [0]
    assert trimmable(log, 5, Keep(0, 0, 0)) == []


@given(logs)
def test_names_say_all_that_planning_needs(known: Logs) -> None:
    for log in known.values():
        names = [segment.name for segment in log] + [
            "LOCK",
            "0-1-2.arrow.unfinished",
            log[0].name + ".unfinished",
        ]
        assert read_log(sorted(names, reverse=True)) == log
    assert earliest(known) == {name: log[0].first for name, log in known.items()}
