"""Records come back from bytes as they went in, with each message and client id written once a file."""

from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from braidmq.messages.message import Message
from braidmq.messages.wills import PendingWill
from braidmq.store import records
from braidmq.store.decoding import Decoder
from braidmq.store.encoding import KINDS, Encoder
from braidmq.store.records import GroupName, Record

OFFSET_S = 1_000_000.0


class Plain(NamedTuple):
    """A body that can be compared."""

    topic: bytes
    payload: bytes
    qos: int
    retain: bool
    properties: bytes
    expires_at_s: float
    publisher: str | None


def plain(record: Record) -> Record:
    """The record with its body, if it has one, made comparable."""
    return tuple(
        Plain(*(getattr(part, field) for field in Plain._fields))
        if isinstance(part, Message) else part
        for part in record
    )


client_ids = st.text("aä€𝄞", max_size=4)
numbers = st.integers(0, 2**64 - 1) | st.integers(0, 300)
packet_ids = st.integers(1, 65_535)
times = st.sampled_from((0.0, 1.0, 1234.5, -3.25, 4_000_000.0))
bodies = st.builds(
    Message, st.binary(max_size=9), st.binary(max_size=300), st.integers(0, 2), st.booleans(),
    st.binary(max_size=9), times, st.none() | client_ids,
)
wills = st.builds(
    PendingWill, st.binary(max_size=5), st.binary(max_size=5), st.integers(0, 2), st.booleans(),
    st.binary(max_size=5), st.integers(0, 2**32 - 1), st.none() | st.integers(0, 2**32 - 1),
)
owners = st.none() | client_ids
groups = st.none() | st.builds(GroupName, client_ids, st.binary(max_size=5))


def record(kind: int, *fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Record]:
    return st.tuples(st.just(kind), *fields)


sequences = st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300)
all_records = st.one_of(
    record(records.GROUP_QUEUED, client_ids, st.binary(max_size=5), sequences, bodies),
    record(records.GROUP_TAKEN, client_ids, st.binary(max_size=5), sequences),
    record(records.GROUP_ENDED, client_ids, st.binary(max_size=5)),
    record(records.GROUP_UNPAGED, client_ids, st.binary(max_size=5)),
    record(records.GROUP_PAGED, client_ids, st.binary(max_size=5), sequences, sequences, *[numbers] * 5),
    record(records.SESSION, client_ids, owners, st.floats(allow_nan=False)),
    record(records.SESSION_ENDED, client_ids),
    record(records.AWAY, client_ids, times),
    record(records.SUBSCRIBED, client_ids, client_ids, st.integers(0, 255), numbers),
    record(records.UNSUBSCRIBED, client_ids, client_ids),
    record(
        records.QUEUED, client_ids, numbers, st.none() | bodies, st.integers(1, 2), st.booleans(),
        st.binary(max_size=4), groups,
    ),
    record(records.SENT, client_ids, numbers, packet_ids),
    record(records.NUMBERED, client_ids, numbers, numbers, packet_ids),
    record(records.STAMPED, client_ids, numbers, numbers),
    record(records.LEAVING, client_ids, numbers, numbers, numbers),
    record(records.MOVED, client_ids, numbers, numbers, numbers, numbers),
    record(records.RECEIVED, client_ids, numbers),
    record(records.SETTLED, client_ids, numbers),
    record(records.INBOUND, client_ids, packet_ids),
    record(records.INBOUND_RELEASED, client_ids, packet_ids),
    record(records.RETAINED, st.binary(max_size=5), st.none() | bodies),
    record(records.WILL, client_ids, st.none() | wills, times, owners),
    record(records.CHECKPOINTED, numbers),
)


def decoder(*, lenient: bool = False) -> Decoder:
    return Decoder(OFFSET_S, lenient)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.lists(all_records, max_size=12), st.sampled_from("fs-")), max_size=6))
def test_round_trip(turns: list[tuple[list[Record], str]]) -> None:
    encoder, reader = Encoder(OFFSET_S), decoder()
    for turn, begins in turns:
        if begins == "f":
            encoder.begin_file()
            reader.begin_file()
        elif begins == "s":  # the reader is told by the bytes
            encoder.begin_segment()
        decoded = reader.decode(encoder.encode(turn))
        assert [plain(record) for record in decoded] == [plain(record) for record in turn]


def test_kinds_are_the_same_on_both_sides() -> None:
    assert {name: getattr(records, name) for name in KINDS} == KINDS


def queued(client_id: str, sequence: int, body: Message) -> Record:
    return (records.QUEUED, client_id, sequence, body, 1, False, b"", None)


def test_a_body_is_written_once_for_a_thousand_sessions() -> None:
    body = Message(b"t", b"x" * 1000, 1, False, b"", 0.0, None)
    once = len(Encoder(0.0).encode([queued("c0", 1, body)]))
    encoded = Encoder(0.0).encode([queued(f"c{number}", 1, body) for number in range(1000)])
    assert len(encoded) < once + 1000 * 20


def test_a_body_is_found_again_by_later_turns() -> None:
    encoder = Encoder(0.0)
    body = Message(b"t", b"x" * 1000, 1, True, b"", 0.0, None)
    encoder.encode([(records.RETAINED, b"t", body)])
    encoder.encode([queued("other", 1, Message(b"u", b"y", 1, False, b"", 0.0, None))])
    again = encoder.encode([(records.QUEUED, "c", 1, body, 1, True, b"", None)])
    assert len(again) < 100


def test_what_refers_to_something_lost_is_never_taken_for_something_else() -> None:
    encoder = Encoder(0.0)
    encoder.encode([queued("lost", 1, Message(b"t", b"lost", 1, False, b"", 0.0, None))])
    later = encoder.encode([
        queued("lost", 2, Message(b"t", b"kept", 1, False, b"", 0.0, None)),
        (records.SETTLED, "lost", 1),
        (records.SESSION_ENDED, "known"),
    ])
    with pytest.raises(ValueError, match="isn't there"):
        decoder().decode(later)
    assert decoder(lenient=True).decode(later) == [(records.SESSION_ENDED, "known")]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(all_records, min_size=1, max_size=4), st.data())
def test_a_payload_cut_anywhere_is_refused_or_a_beginning(turn: list[Record], data: st.DataObject) -> None:
    encoded = Encoder(OFFSET_S).encode(turn)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    try:
        found = decoder().decode(encoded[:cut])
    except ValueError:
        return
    assert [plain(record) for record in found] == [plain(record) for record in turn[: len(found)]]


def test_a_segment_refers_to_nothing_before_it_and_its_reader_remembers_nothing_else() -> None:
    encoder, reader = Encoder(0.0), decoder()
    body = Message(b"t", b"x" * 100, 1)
    reader.decode(encoder.encode([queued("c", 1, body)]))
    encoder.begin_segment()
    assert len(encoder) == 0
    later = encoder.encode([queued("c", 2, body)])
    assert [record[:3] for record in decoder().decode(later)] == [(records.QUEUED, "c", 2)]
    assert reader.body_of(1) is not None
    reader.decode(later)
    encoder.begin_segment()
    reader.decode(encoder.encode([(records.SESSION_ENDED, "c")]))
    assert reader.body_of(1) is None
