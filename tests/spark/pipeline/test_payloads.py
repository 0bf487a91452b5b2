"""Payloads against their schema: what fits becomes columns, and what doesn't has its reason."""

import io
import json
import struct
from datetime import UTC, datetime
from decimal import Decimal

import cbor2
import fastavro
import msgspec
import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st

from braidmq.errors import ConfigError
from braidmq.spark.pipeline.encodings import Definition, loader
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


SHAPED = {
    "price": FieldSpec(type="decimal(8,2)", optional=True, min=0),
    "samples": FieldSpec(type="double[]", optional=True),
    "spot": FieldSpec(type="object", optional=True, fields={"lat": "double", "seen": "timestamp_ms"}),
    "parts": FieldSpec(
        type="object[]", optional=True, path="more.parts", fields={"id": "int", "tags": "string[]"}
    ),
}


@pytest.mark.parametrize("format", list(ENCODERS))
def test_decimals_arrays_and_objects_become_columns(format: str) -> None:
    full = {
        "price": "12.50", "samples": [1, 2.5], "spot": {"lat": 0.5, "seen": 1_000, "x": 1},
        "more": {"parts": [{"id": 1, "tags": ["a"]}, {"id": 2, "tags": []}]},
    }  # fmt: skip
    reading = PayloadReader(format, SHAPED).read([ENCODERS[format](full), ENCODERS[format]({})])
    assert reading.refused == []
    moment = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert {name: column.to_pylist() for name, column in reading.columns.items()} == {
        "price": [Decimal("12.50"), None],
        "samples": [[1.0, 2.5], None],
        "spot": [{"lat": 0.5, "seen": moment}, None],
        "parts": [[{"id": 1, "tags": ["a"]}, {"id": 2, "tags": []}], None],
    }
    assert [str(column.type) for column in reading.columns.values()][:2] == [
        "decimal128(8, 2)",
        "list<item: double>",
    ]


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b'{"price": 12.5}', None),
        (b'{"price": 1.005}', "out_of_range"),
        (b'{"price": 1000000}', "out_of_range"),
        (b'{"price": -1}', "out_of_range"),
        (b'{"price": "1e-999999999"}', "out_of_range"),
        (b'{"price": "NaN"}', "out_of_range"),
        (b'{"samples": [1, "x"]}', "wrong_type"),
        (b'{"spot": {"lat": 1}}', "missing_field"),
        (b'{"more": {"parts": [{"id": 99999999999, "tags": []}]}}', "out_of_range"),
    ],
)
def test_what_does_not_fit_a_shape_has_its_reason(payload: bytes, reason: str | None) -> None:
    reading = PayloadReader("json", SHAPED).read([payload])
    assert [refused.reason for refused in reading.refused] == ([reason] if reason else [])


AVRO = {
    "type": "record", "name": "R", "fields": [
        {"name": "small", "type": "int"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "samples", "type": {"type": "array", "items": "double"}},
        {"name": "note", "type": ["null", "string"]},
    ],
}  # fmt: skip


def test_avro_is_read_by_its_schema_file() -> None:
    moment = datetime(2026, 9, 22, 12, tzinfo=UTC)
    value = {"small": 3, "price": Decimal("1.25"), "at": moment, "samples": [0.5], "note": None}
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(AVRO), value)
    specs = {
        "small": FieldSpec(type="int"),
        "price": FieldSpec(type="decimal(8,2)"),
        "at": FieldSpec(type="timestamp"),
        "samples": FieldSpec(type="double[]"),
        "note": FieldSpec(type="string", optional=True),
    }
    reader = PayloadReader("avro", specs, Definition(json.dumps(AVRO).encode()))
    single = b"\xc3\x01" + bytes(8) + stream.getvalue()
    reading = reader.read([stream.getvalue(), single, stream.getvalue()[:-3], stream.getvalue() + b"x", b""])
    assert {name: column.to_pylist() for name, column in reading.columns.items()} == {
        name: [value[name]] * 2 for name in specs
    }
    assert [(refused.row, refused.reason) for refused in reading.refused] == [
        (row, "malformed") for row in (2, 3, 4)
    ]


def make_descriptors() -> bytes:
    file = descriptor_pb2.FileDescriptorProto(name="r.proto", package="plant", syntax="proto3")
    inner = file.message_type.add(name="Spot")
    inner.field.add(name="lat", number=1, type=1, label=1)
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="UNKNOWN", number=0)
    kind.value.add(name="PUMP", number=1)
    outer = file.message_type.add(name="Reading")
    outer.field.add(name="level", number=1, type=3, label=1)
    outer.field.add(name="samples", number=2, type=1, label=3)
    outer.field.add(name="spot", number=3, type=11, label=1, type_name=".plant.Spot")
    outer.field.add(name="kind", number=4, type=14, label=1, type_name=".plant.Kind")
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


def test_protobuf_is_read_by_its_descriptors() -> None:
    specs = {
        "level": FieldSpec(type="long"),
        "samples": FieldSpec(type="double[]"),
        "lat": FieldSpec(type="double", path="spot.lat", optional=True),
        "kind": FieldSpec(type="string"),
    }
    content = make_descriptors()
    payload = b"\x08\x05\x12\x08%s\x1a\x09\x09%s\x20\x01" % (struct.pack("<d", 0.5), struct.pack("<d", 1.5))
    reader = PayloadReader("protobuf", specs, Definition(content, "plant.Reading"))
    reading = reader.read([payload, b"", b"\x08"])
    assert {name: column.to_pylist() for name, column in reading.columns.items()} == {
        "level": [5, 0], "samples": [[0.5], []], "lat": [1.5, None], "kind": ["PUMP", "UNKNOWN"],
    }  # fmt: skip
    assert [(refused.row, refused.reason) for refused in reading.refused] == [(2, "malformed")]
    with pytest.raises(ConfigError, match=r"no message 'plant\.Other'"):
        loader("protobuf", Definition(content, "plant.Other"))
    with pytest.raises(ConfigError, match="Avro schema can't be read"):
        loader("avro", Definition(b"{"))
