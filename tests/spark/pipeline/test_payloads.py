"""Payloads against their schema: what fits becomes columns, and what doesn't has its reason."""

import json
from datetime import UTC, datetime

import cbor2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from braidmq.spark.pipeline.fields import FieldSpec
from braidmq.spark.pipeline.payloads import PayloadReader

SPECS = {
    "flag": FieldSpec(type="boolean", optional=True),
    "small": FieldSpec(type="int"),
    "big": FieldSpec(type="long", optional=True),
    "ratio": FieldSpec(type="double", optional=True, min=0, max=1),
    "half": FieldSpec(type="float", optional=True),
    "name": FieldSpec(type="string", optional=True, path="about.name"),
    "at": FieldSpec(type="timestamp", optional=True),
    "seconds": FieldSpec(type="timestamp_s", optional=True),
    "blob": FieldSpec(type="binary", optional=True),
}
DEEP = b'{"small": 1, "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
ENCODERS = {"json": msgspec.json.encode, "messagepack": msgspec.msgpack.encode, "cbor": cbor2.dumps}


@pytest.mark.parametrize("format", list(ENCODERS))
def test_what_fits_becomes_columns(format: str) -> None:
    moment = datetime(2026, 9, 22, 12, 0, 0, 250_000, tzinfo=UTC)
    full = {
        "flag": True, "small": -5, "big": 2**40, "ratio": 1, "half": 0.5, "about": {"name": "pump ☂"},
        "at": moment.isoformat(), "seconds": 1.25, "more": [1, {}],
    }  # fmt: skip
    reading = PayloadReader(format, SPECS).read([ENCODERS[format](full), ENCODERS[format]({"small": 3})])
    assert reading.refused == []
    assert reading.rows == [0, 1]
    columns = {name: column.to_pylist() for name, column in reading.columns.items()}
    assert columns == {
        "flag": [True, None], "small": [-5, 3], "big": [2**40, None], "ratio": [1.0, None],
        "half": [0.5, None], "name": ["pump ☂", None], "at": [moment, None], "blob": [None, None],
        "seconds": [datetime(1970, 1, 1, 0, 0, 1, 250_000, tzinfo=UTC), None],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "malformed"),
        (b"\xff\xfe\x00", "malformed"),
        (b"hello", "malformed"),
        (b'{"small": 1', "malformed"),
        (b'{"small": 1} {', "malformed"),
        (b'{"small": 1, "about": {"name": "\xff"}}', "malformed"),
        (b'{"small": 1, "about": {"name": "\\ud800"}}', "malformed"),
        (b'{"small": 1, "ratio": NaN}', "malformed"),
        (DEEP, "malformed"),
        (b"[]", "wrong_type"),
        (b"null", "wrong_type"),
        (b'{"small": "1"}', "wrong_type"),
        (b'{"small": 1.5}', "wrong_type"),
        (b'{"small": true}', "wrong_type"),
        (b'{"small": null}', "wrong_type"),
        (b'{"small": 1, "about": 3}', "wrong_type"),
        (b"{}", "missing_field"),
        (b'{"Small": 1}', "missing_field"),
        (b'{"small": 2147483648}', "out_of_range"),
        (b'{"small": 1, "big": 9223372036854775808}', "out_of_range"),
        (b'{"small": 1, "ratio": 1.5}', "out_of_range"),
        (b'{"small": 1, "half": 1e300}', "out_of_range"),
        (b'{"small": 1, "half": 1e999}', "out_of_range"),
        (b'{"small": 1, "at": "yesterday"}', "out_of_range"),
        (b'{"small": 1, "seconds": 1e15}', "out_of_range"),
    ],
)
def test_what_does_not_fit_has_a_reason(payload: bytes, reason: str) -> None:
    reading = PayloadReader("json", SPECS).read([b'{"small": 7}', payload])
    assert [(bad.row, bad.reason) for bad in reading.refused] == [(1, reason)]
    assert reading.refused[0].detail
    assert reading.columns["small"].to_pylist() == [7]


def test_of_a_key_that_is_there_twice_the_last_counts() -> None:
    assert PayloadReader("json", SPECS).read([b'{"small": 1, "small": 2}']).columns["small"].to_pylist() == [
        2
    ]


@pytest.mark.parametrize("format", ["messagepack", "cbor"])
def test_what_json_can_not_say_is_refused_too(format: str) -> None:
    encode = ENCODERS[format]
    payloads = [encode({"small": 1, "ratio": value}) for value in (float("nan"), float("inf"))]
    reading = PayloadReader(format, SPECS).read([*payloads, encode({"small": 1, "blob": b"\xff"})])
    assert [bad.reason for bad in reading.refused] == ["out_of_range", "out_of_range"]
    assert reading.columns["blob"].to_pylist() == [b"\xff"]


@pytest.mark.parametrize("format", list(ENCODERS))
@given(payloads=st.lists(st.binary(max_size=60) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.dictionaries(st.sampled_from([*SPECS, "about", "x"]), inner, max_size=4),
).map(lambda value: json.dumps(value).encode()), max_size=8))  # fmt: skip
def test_any_bytes_end_in_a_column_or_among_the_refused(format: str, payloads: list[bytes]) -> None:
    reading = PayloadReader(format, SPECS).read(payloads)
    assert sorted(reading.rows + [bad.row for bad in reading.refused]) == list(range(len(payloads)))
    assert {len(column) for column in reading.columns.values()} == {len(reading.rows)}
