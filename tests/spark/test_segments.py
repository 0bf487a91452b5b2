"""From messages to columns, to a file and back: nothing may change on the way."""

from datetime import UTC, datetime

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from braidmq.spark._columns import ColumnBuilder, identify
from braidmq.spark.reading import combine
from braidmq.spark.schema import ARROW_SCHEMA
from braidmq.spark.segments import pack, unpack
from braidmq.wire import Properties, Publish
from tests.spark.messages import batch_of

TIME_US = 1_700_000_000_000_000

words = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn"]), max_size=20)
topic_names = words.filter(lambda text: text and not set(text) & set("+#"))
properties = st.builds(
    Properties,
    payload_format=st.none() | st.integers(0, 1),
    message_expiry_s=st.none() | st.integers(0, 2**32 - 1),
    content_type=st.none() | words,
    response_topic=st.none() | topic_names,
    correlation_data=st.none() | st.binary(max_size=20),
    user_properties=st.lists(st.tuples(words, words), max_size=4).map(tuple),
)
messages = st.builds(
    lambda topic, payload, qos, retain, told, number: Publish(
        topic, payload, qos, retain, packet_id=number if qos else 0, properties=told
    ),
    topic_names,
    st.binary(max_size=50),
    st.integers(0, 2),
    st.booleans(),
    properties | st.just(Properties()),
    st.integers(1, 65_535),
)


def rows_of(*batches: list[Publish]) -> pa.RecordBatch:
    builder = ColumnBuilder()
    for packets in batches:
        batch = batch_of(*packets)
        builder.add(batch, TIME_US, identify(batch))
    stored = pack(builder, "h:1883")
    stored.validate(full=True)
    return unpack(stored, "me", 40)


@given(
    st.lists(
        st.lists(messages, min_size=1, max_size=6, unique_by=lambda m: m.packet_id), min_size=1, max_size=3
    )
)
def test_a_row_says_what_the_message_said(batches: list[list[Publish]]) -> None:
    rows = rows_of(*batches)
    rows.validate(full=True)
    assert rows.schema == ARROW_SCHEMA
    sent = [packet for packets in batches for packet in packets]
    for number, (row, packet) in enumerate(zip(rows.to_pylist(), sent, strict=True)):
        told = packet.properties
        assert (row["topic"], row["payload"]) == (packet.topic, packet.payload)
        assert (row["qos"], row["retain"], row["dup"]) == (packet.qos, packet.retain, False)
        assert row["content_type"] == told.content_type
        assert row["response_topic"] == told.response_topic
        assert row["correlation_data"] == told.correlation_data
        assert dict(row["user_properties"]) == dict(reversed(told.user_properties))
        assert (row["broker"], row["subscriber"], row["offset"]) == ("h:1883", "me", 40 + number)
        assert row["received_at"] == datetime.fromtimestamp(TIME_US / 1e6, UTC)


def published_at(text: str) -> datetime | None:
    (row,) = rows_of([Publish("t", b"", properties=Properties(user_properties=(("ts", text),)))]).to_pylist()
    return row["published_at"]


def test_the_time_of_publishing_is_a_whole_number_of_milliseconds() -> None:
    assert published_at("1700000000123") == datetime.fromtimestamp(1_700_000_000.123, UTC)
    for text in ("", "yesterday", "1.5", "-1", "9" * 16, "٣"):
        assert published_at(text) is None


def test_repeats_are_left_out() -> None:
    batch = batch_of(*[Publish("t", b"%d" % number, 1, packet_id=number) for number in range(1, 5)])
    builder = ColumnBuilder()
    builder.add(batch, TIME_US, identify(batch), bytes([0, 1, 0, 1]))
    assert unpack(pack(builder, "h"), "me", 0).column("payload").to_pylist() == [b"1", b"3"]


def test_messages_are_told_apart_by_topic_and_payload() -> None:
    pairs = [
        ("a", b"bc"),
        ("ab", b"c"),
        ("abc", b""),
        ("a", b"bd"),
        ("a", b"bc" + bytes(8)),
        ("a", b"bc" + bytes(9)),
    ]
    digests = memoryview(identify(batch_of(*[Publish(topic, payload) for topic, payload in pairs]))[2]).cast(
        "Q"
    )
    assert len(set(digests)) == len(pairs)
    assert digests[0] == memoryview(identify(batch_of(Publish("a", b"bc", 1, packet_id=9)))[2]).cast("Q")[0]


@given(st.lists(st.integers(1, 9), max_size=20), st.integers(1, 20))
def test_small_batches_are_joined_in_their_order(sizes: list[int], rows_min: int) -> None:
    numbers = iter(range(1_000))
    batches = [pa.record_batch({"n": [next(numbers) for _ in range(size)]}) for size in sizes]
    joined = list(combine(batches, rows_min))
    assert [n for batch in joined for n in batch.column("n").to_pylist()] == list(range(sum(sizes)))
    assert all(batch.num_rows >= rows_min for batch in joined[:-1])
