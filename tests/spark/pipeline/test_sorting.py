"""Messages into tables: every one in raw, and in exactly one of the clean tables and the dead letters."""

from datetime import UTC, datetime
from pathlib import Path

import cbor2
import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from braidmq.spark.pipeline.config import PipelineConfig
from braidmq.spark.pipeline.sorting import Sorted, Sorter
from braidmq.spark.pipeline.tables import user_tables
from tests.spark.pipeline.samples import (
    EVERYTHING,
    NOON_US,
    make_config,
    make_messages,
    telemetry,
)

NOON = datetime(2026, 9, 22, 12, tzinfo=UTC)
CLEAN = ("telemetry", "packed", "compact", "pictures")


@pytest.fixture
def config(tmp_path: Path) -> PipelineConfig:
    return make_config(tmp_path, EVERYTHING)


def offsets(sorted_: Sorted, *tables: str) -> list[int]:
    return sorted(
        offset for table in tables if table in sorted_ for offset in sorted_[table]["offset"].to_pylist()
    )


def check_nothing_is_dropped(sorted_: Sorted, messages: pa.Table, config: PipelineConfig) -> None:
    assert sorted_["raw"].equals(messages)
    assert offsets(sorted_, *CLEAN, "dead_letters") == messages["offset"].to_pylist()
    for table, schema in user_tables(config).items():
        if table in sorted_:
            assert sorted_[table].schema.names == schema.names


HOSTILE = [
    (b"\xff\xfe{", "malformed"),
    (b"", "malformed"),
    (b"[1, 2]", "wrong_type"),
    (b'{"ts": "now", "temperature": 1}', "wrong_type"),
    (b'{"ts": 1, "temperature": "warm"}', "wrong_type"),
    (b'{"temperature": 1}', "missing_field"),
    (b'{"ts": 1, "temperature": 1e9}', "out_of_range"),
    (b'{"ts": 1e400, "temperature": 1}', "out_of_range"),
    (b'{"ts": 999999999999999, "temperature": 1}', "out_of_range"),
    (b'{"ts": 99999999999999, "temperature": 1}', "clock_ahead"),
    (b'{"ts": 1, "temperature": 1, "x": "' + b"y" * 1000 + b'"}', "too_large"),
    (b'{"x": ' + b"[" * 990, "malformed"),
]


def test_hostile_payloads_become_dead_letters_with_their_reasons(config: PipelineConfig) -> None:
    topic = "sites/north/d1/telemetry"
    bad = [(topic, payload) for payload, _ in HOSTILE]
    twice = (topic, b'{"ts": 1, "temperature": 1, "temperature": 2}')
    messages = make_messages([telemetry("d1"), *bad, ("elsewhere", b"{}"), ("$SYS/x", b""), twice])
    sorted_ = Sorter(config).sort(messages)
    check_nothing_is_dropped(sorted_, messages, config)
    dead = {row["offset"]: row for row in sorted_["dead_letters"].to_pylist()}
    reasons = [dead[offset + 1]["reason"] for offset in range(len(HOSTILE))]
    assert reasons == [reason for _, reason in HOSTILE]
    assert {dead[offset]["reason"] for offset in dead if offset > len(HOSTILE)} == {"unmatched_topic"}
    assert all(row["payload"] == messages["payload"][offset].as_py() for offset, row in dead.items())
    assert sorted_["telemetry"]["temperature"].to_pylist() == [20.0, 2.0]


def test_a_clean_row_has_its_device_its_levels_and_its_times(config: PipelineConfig) -> None:
    messages = make_messages([telemetry("d7", 21, env={"humidity": 0.5}, count=3)])
    (row,) = Sorter(config).sort(messages)["telemetry"].to_pylist()
    assert row == {
        "topic": "sites/north/d7/telemetry", "device": "d7", "site": "north", "event_time": NOON,
        "received_at": NOON, "published_at": None, "broker": "127.0.0.1:1883", "subscriber": "plant-0",
        "offset": 0, "ts": NOON, "temperature": 21.0, "humidity": 0.5, "count": 3,
    }  # fmt: skip


def test_every_format_has_its_table(config: PipelineConfig) -> None:
    messages = make_messages(
        [
            ("packed/d1", msgspec.msgpack.encode({"level": 5})),
            ("compact/d1", cbor2.dumps({"level": 0.5})),
            ("pictures/door/1", b"\x89PNG"),
            ("pictures", b""),
            ("packed/d1", b"\xc1"),
            ("compact/d1", b"\x9b" + b"\xff" * 8),
        ]
    )
    sorted_ = Sorter(config).sort(messages)
    check_nothing_is_dropped(sorted_, messages, config)
    assert sorted_["packed"]["level"].to_pylist() == [5]
    assert sorted_["compact"]["level"].to_pylist() == [0.5]
    assert sorted_["pictures"].select(["device", "payload"]).to_pylist() == [
        {"device": "pictures/door/1", "payload": b"\x89PNG"},
        {"device": "pictures", "payload": b""},
    ]
    assert len(sorted_["dead_letters"]) == 2


def test_a_field_may_be_called_like_a_column_of_the_source(tmp_path: Path) -> None:
    text = EVERYTHING.replace("[[schema]]\n", '[[schema]]\nname = "odd"\ntopic = "odd"\n[schema.fields]\n'
                              'payload = "int"\nqos = "string"\n[[schema]]\n', 1)  # fmt: skip
    config = make_config(tmp_path, text)
    messages = make_messages([("odd", b'{"payload": 1, "qos": "high"}')])
    (row,) = Sorter(config).sort(messages)["odd"].to_pylist()
    assert (row["payload"], row["qos"]) == (1, "high")


def test_equal_messages_without_a_time_of_their_own_are_all_handed_off(config: PipelineConfig) -> None:
    messages = make_messages([("packed/d1", msgspec.msgpack.encode({"level": 5}))] * 20)
    assert len(Sorter(config).sort(messages)["_aggregates_feed"]) == 20


def test_a_fast_clock_stays_below_the_watermark_or_counts_as_its_arrival(tmp_path: Path) -> None:
    ahead_ms = [NOON_US // 1000 + 1000 * seconds for seconds in (29, 31, 200)]
    messages = make_messages([telemetry("d1", ts_ms=ts_ms) for ts_ms in ahead_ms])
    sorted_ = Sorter(make_config(tmp_path, EVERYTHING)).sort(messages)  # watermark_s = 60
    assert sorted_["dead_letters"]["offset"].to_pylist() == [1, 2]
    clamping = EVERYTHING.replace("[pipeline]", '[pipeline]\nclock_ahead = "clamp"', 1)
    sorted_ = Sorter(make_config(tmp_path, clamping)).sort(messages)
    assert "dead_letters" not in sorted_
    times = [time.timestamp() - NOON.timestamp() for time in sorted_["telemetry"]["event_time"].to_pylist()]
    assert times == [29, 0, 0]


def test_the_hand_off_for_aggregates_has_the_numbers(config: PipelineConfig) -> None:
    messages = make_messages([telemetry("d1", 5, count=2), telemetry("d1", "?")])
    (row,) = Sorter(config).sort(messages)["_aggregates_feed"].to_pylist()
    assert row["metrics"] == [("temperature", 5.0), ("humidity", None), ("count", 2.0)]
    assert (row["schema"], row["device"], row["event_time"]) == ("telemetry", "d1", NOON)


def test_the_hand_off_for_alerts_is_one_row_a_device_and_metric(config: PipelineConfig) -> None:
    noon_ms = NOON_US // 1000
    messages = make_messages(
        [
            telemetry("d1", 5, ts_ms=noon_ms),
            telemetry("d1", 90, ts_ms=noon_ms - 5),
            telemetry("d1", 1, ts_ms=noon_ms - 9),
            telemetry("d2", "broken"),
            ("packed/d9", msgspec.msgpack.encode({"level": 5})),
        ],
        received_us=[NOON_US, NOON_US + 1, NOON_US + 2, NOON_US + 3, NOON_US],
    )
    digests = Sorter(config).sort(messages)["_alerts_feed"].to_pylist()
    heard = {row["device"]: row["seen_at"].microsecond for row in digests if row["metric"] is None}
    assert heard == {"d1": 2, "d2": 3}  # a broken message is a sign of life; nothing watches packed/d9
    (measured,) = [row for row in digests if row["metric"] is not None]
    assert (measured["device"], measured["least"], measured["most"], measured["last"]) == ("d1", 1, 90, 5)
    assert measured["last_at"] == NOON


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    messages=st.lists(
        st.tuples(
            st.sampled_from(["sites/n/d/telemetry", "packed/d", "compact/d", "pictures/x", "lost"]),
            st.binary(max_size=40) | st.sampled_from([payload for payload, _ in HOSTILE]),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_nothing_is_dropped_whatever_comes(config: PipelineConfig, messages: list[tuple[str, bytes]]) -> None:
    table = make_messages(messages)
    check_nothing_is_dropped(Sorter(config).sort(table), table, config)
