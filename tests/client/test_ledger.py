"""The ledger against a plain list, and its edges."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braidmq.client._ledger import AckLedger
from braidmq.errors import ProtocolError

MESSAGE = st.tuples(st.integers(1, 65_535), st.sampled_from([1, 2]))  # packet identifier, QoS


@given(
    st.lists(MESSAGE, max_size=200, unique_by=lambda message: message[0]),
    st.randoms(use_true_random=False),
    st.integers(1, 20),
)
def test_answers_are_the_acknowledged_prefix(
    messages: list[tuple[int, int]], random: Random, flush_every: int
) -> None:
    ledger = AckLedger(65_535, True)
    ordinals = [ledger.open(packet_id, qos) for packet_id, qos in messages]
    assert ordinals == sorted(set(ordinals))
    order = list(range(len(messages)))
    random.shuffle(order)
    done: set[int] = set()
    written = b""
    for count, index in enumerate(order):
        assert ledger.acknowledge(ordinals[index])
        done.add(index)
        if count % flush_every == 0:
            written += ledger.flush()
            prefix = next((n for n in range(len(messages)) if n not in done), len(messages))
            assert written == frames(messages[:prefix])
    assert written + ledger.flush() == frames(messages)
    assert ledger.unreleased == {packet_id for packet_id, qos in messages if qos == 2}


def frames(messages: list[tuple[int, int]]) -> bytes:
    return b"".join(bytes((0x30 + 0x10 * qos, 2)) + packet_id.to_bytes(2) for packet_id, qos in messages)


def test_the_receive_maximum_counts_what_is_not_released() -> None:
    ledger = AckLedger(2, True)
    ledger.acknowledge(ledger.open(1, 2))
    ledger.flush()
    ledger.open(2, 1)
    assert ledger.outstanding == 2
    with pytest.raises(ProtocolError):
        ledger.open(3, 1)
    assert ledger.release(1)
    assert not ledger.release(1)
    ledger.open(3, 1)


def test_the_ring_grows_around_its_seam() -> None:
    ledger = AckLedger(65_535, True)
    for _ in range(50):
        ledger.acknowledge(ledger.open(7, 1))
    ledger.flush()
    ordinals = [ledger.open(packet_id, 1) for packet_id in range(1, 1001)]
    for ordinal in ordinals:
        ledger.acknowledge(ordinal)
    assert ledger.flush() == frames([(packet_id, 1) for packet_id in range(1, 1001)])


def test_a_lost_connection_voids_what_is_open() -> None:
    ledger = AckLedger(10, True)
    open_before = ledger.open(1, 2)
    ledger.acknowledge(ledger.open(2, 2), 0x97)
    assert ledger.unanswered_qos2() == [(open_before, 1, False, 0), (open_before + 1, 2, True, 0x97)]
    ledger.abandon()
    assert not ledger.acknowledge(open_before)
    assert ledger.flush() == b""
    assert ledger.outstanding == 0
    assert ledger.open(3, 1) > open_before + 1


def test_ordinals_of_the_future_are_unknown() -> None:
    ledger = AckLedger(10, True)
    assert not ledger.acknowledge(ledger.tail)
    assert not ledger.acknowledge(0)


def test_forgetting_frees_the_identifiers() -> None:
    ledger = AckLedger(10, True)
    ledger.acknowledge(ledger.open(1, 2))
    ledger.flush()
    ledger.abandon()
    assert ledger.unreleased_earlier == {1}
    ledger.forget()
    assert not ledger.release(1)
