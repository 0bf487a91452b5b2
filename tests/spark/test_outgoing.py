"""Rows become packets: which column or option gives what, and what is refused."""

from typing import Any

import pyarrow as pa
import pytest

from braidmq.errors import ConfigError
from braidmq.spark.outgoing import RowError, RowPackets, template_parts
from braidmq.spark.repeats import Marker
from braidmq.spark.sink_options import parse_sink_options
from braidmq.wire import Properties, Publish

PLAIN = {"topic": "string", "payload": "binary"}
EVERYTHING = PLAIN | {
    "qos": "int", "retain": "boolean", "message_expiry_s": "bigint", "content_type": "string",
    "response_topic": "string", "correlation_data": "binary", "user_properties": "map<string,string>",
    "offset": "bigint",
}  # fmt: skip
ARROW = {
    "string": pa.string(), "binary": pa.binary(), "int": pa.int32(), "bigint": pa.int64(),
    "boolean": pa.bool_(), "map<string,string>": pa.map_(pa.string(), pa.string()), "double": pa.float64(),
}  # fmt: skip


def packets(
    types: dict[str, str], rows: list[dict[str, Any]], marker: Marker | None = None, **options: str
) -> list[Publish]:
    schema = pa.schema([(name, ARROW[kind]) for name, kind in types.items()])
    batch = pa.RecordBatch.from_pylist(rows, schema)
    return list(RowPackets(parse_sink_options({"brokers": "b"} | options), types).packets(batch, marker, 0))


def test_a_row_with_every_column_becomes_a_message_with_every_property() -> None:
    row = {
        "topic": "a/b", "payload": b"\xff", "qos": 2, "retain": True, "message_expiry_s": 9,
        "content_type": "text", "response_topic": "r", "correlation_data": b"c", "offset": 1,
        "user_properties": [("k", "v"), ("n", None)],
    }  # fmt: skip
    expected = Properties(
        message_expiry_s=9, content_type="text", response_topic="r", correlation_data=b"c",
        user_properties=(("k", "v"), ("n", ""), ("spark-row", "q/1/0/0")),
    )  # fmt: skip
    [packet] = packets(EVERYTHING, [row], Marker("q", "1", 0))
    assert packet == Publish("a/b", b"\xff", 2, True, properties=expected)


def test_nulls_are_the_defaults() -> None:
    row = dict.fromkeys(EVERYTHING) | {"topic": "a", "payload": b""}
    assert packets(EVERYTHING, [row]) == [Publish("a", b"", 1, False, properties=Properties())]


def test_an_option_stands_above_the_column() -> None:
    given = {"topic": "a", "payload": b"", "qos": 2, "retain": False, "content_type": "x"}
    row = dict.fromkeys(EVERYTHING) | given
    [packet] = packets(EVERYTHING, [row], qos="0", retain="true", contentType="y")
    assert (packet.qos, packet.retain, packet.properties.content_type) == (0, True, "y")


def test_topics_come_from_a_template() -> None:
    types = {"site": "string", "n": "int", "payload": "string"}
    rows = [{"site": "x", "n": 1, "payload": "ä"}, {"site": "y", "n": 2, "payload": ""}]
    made = packets(types, rows, topic="s/{site}/{{{n}}}/end")
    assert [packet.topic for packet in made] == ["s/x/{1}/end", "s/y/{2}/end"]
    assert made[0].payload == "ä".encode()


def test_a_template_without_columns_is_a_topic() -> None:
    assert template_parts("a/b") == [("a/b", None)]
    [packet] = packets({"payload": "string"}, [{"payload": "1"}], topic="a/b")
    assert packet.topic == "a/b"


def test_a_column_may_identify_the_row() -> None:
    types = PLAIN | {"id": "bigint"}
    row = {"topic": "a", "payload": b"", "id": 17}
    [packet] = packets(types, [row], Marker("q", "1", 0), idColumn="id")
    assert packet.properties.user_properties == (("spark-row", "q/1/id/17"),)
    with pytest.raises(RowError, match=r"'id'.*null"):
        packets(types, [row | {"id": None}], Marker("q", "1", 0), idColumn="id")


@pytest.mark.parametrize("template", ["a/{", "a/{}", "a/{x!r}", "a/{x:>3}"])
def test_a_template_that_is_none_is_refused(template: str) -> None:
    with pytest.raises(ConfigError, match="topic"):
        template_parts(template)


@pytest.mark.parametrize(
    ("types", "options", "named"),
    [
        ({"topic": "string"}, {}, "'payload'"),
        ({"payload": "binary"}, {}, "'topic'"),
        ({"topic": "string", "payload": "int"}, {}, "'payload'.*int"),
        ({"topic": "binary", "payload": "binary"}, {}, "'topic'.*binary"),
        (PLAIN, {"topic": "a/{device}"}, "'device'"),
        (PLAIN | {"t": "double"}, {"topic": "a/{t}"}, "'t'.*double"),
        (PLAIN | {"qos": "string"}, {}, "'qos'.*string"),
        (PLAIN | {"user_properties": "string"}, {}, "'user_properties'"),
        (PLAIN, {"idColumn": "id"}, "'id'"),
    ],
)  # fmt: skip
def test_a_schema_that_does_not_fit_is_refused(
    types: dict[str, str], options: dict[str, str], named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        RowPackets(parse_sink_options({"brokers": "b"} | options), types)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"topic": None, "payload": b""}, "topic"),
        ({"topic": "a", "payload": None}, "payload is null"),
        ({"topic": "a", "payload": b"", "qos": 3}, "qos"),
        ({"topic": "a", "payload": b"", "message_expiry_s": -1}, "message_expiry_s"),
    ],
)
def test_a_row_that_can_not_be_a_message_says_why(row: dict[str, Any], why: str) -> None:
    with pytest.raises(RowError, match=why):
        packets(EVERYTHING, [dict.fromkeys(EVERYTHING) | row])
