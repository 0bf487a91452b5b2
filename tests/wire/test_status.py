"""Status payloads: both spellings, and everything that must not be believed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braidmq.wire.status import (
    QUEUE_MAX,
    STATUS_BYTES_MAX,
    StatusFault,
    StatusReport,
    encode_status,
    parse_status,
)

GOOD = b'{"msgsInQueue":3,"processingTimePerMsg":25.0}'


@pytest.mark.parametrize(
    "payload",
    [
        GOOD,
        b'{"numberOfMsgsInQueue":3,"processingTimerPerMsg":25.0}',
        b'{"msgsInQueue":3,"processingTimerPerMsg":25}',
        b' { "processingTimePerMsg" : 2.5e1 , "msgsInQueue" : 3 } ',
        b'{"msgsInQueue":3,"numberOfMsgsInQueue":3,"processingTimePerMsg":25.0}',
        b'{"msgsInQueue":3,"processingTimePerMsg":25.0,"battery":{"volts":[3.1]}}',
    ],
)
def test_both_spellings_mean_the_same(payload: bytes) -> None:
    assert parse_status(payload) == StatusReport(queue=3, processing_s=0.025)


def test_we_send_the_names_of_figure_39() -> None:
    assert encode_status(StatusReport(3, 0.025)) == GOOD


def test_totals_are_optional() -> None:
    payload = b'{"msgsInQueue":1,"processingTimePerMsg":0,"received":12,"processed":10}'
    assert parse_status(payload) == StatusReport(1, 0.0, 12, 10)


@pytest.mark.parametrize(
    ("payload", "fault"),
    [
        (b"", StatusFault.NOT_JSON),
        (b"{", StatusFault.NOT_JSON),
        (b"\xff\xfe{}", StatusFault.NOT_JSON),
        (b'{"msgsInQueue":3,"processingTimePerMsg":NaN}', StatusFault.NOT_JSON),
        (b'{"msgsInQueue":3,"processingTimePerMsg":Infinity}', StatusFault.NOT_JSON),
        (b'{"msgsInQueue":3,"processingTimePerMsg":1e999}', StatusFault.NOT_JSON),
        (b"[" * STATUS_BYTES_MAX, StatusFault.NOT_JSON),
        (b"[" * 512 + b"]" * 512, StatusFault.NOT_AN_OBJECT),
        (b'{"a":' * 190 + b"1" + b"}" * 24, StatusFault.NOT_JSON),
        (GOOD + b" " * STATUS_BYTES_MAX, StatusFault.TOO_LARGE),
        (b"3", StatusFault.NOT_AN_OBJECT),
        (b"null", StatusFault.NOT_AN_OBJECT),
        (b'[{"msgsInQueue":3,"processingTimePerMsg":25}]', StatusFault.NOT_AN_OBJECT),
        (b"{}", StatusFault.MISSING_FIELD),
        (b'{"msgsInQueue":3}', StatusFault.MISSING_FIELD),
        (b'{"processingTimePerMsg":3}', StatusFault.MISSING_FIELD),
        (b'{"MsgsInQueue":3,"processingTimePerMsg":25}', StatusFault.MISSING_FIELD),
        (b'{"msgsInQueue":"3","processingTimePerMsg":25}', StatusFault.WRONG_TYPE),
        (b'{"msgsInQueue":3.5,"processingTimePerMsg":25}', StatusFault.WRONG_TYPE),
        (b'{"msgsInQueue":true,"processingTimePerMsg":25}', StatusFault.WRONG_TYPE),
        (b'{"msgsInQueue":3,"processingTimePerMsg":false}', StatusFault.WRONG_TYPE),
        (b'{"msgsInQueue":3,"processingTimePerMsg":null}', StatusFault.WRONG_TYPE),
        (b'{"msgsInQueue":3,"processingTimePerMsg":[25]}', StatusFault.WRONG_TYPE),
        (b'{"msgsInQueue":3,"processingTimePerMsg":25,"received":1.5}', StatusFault.WRONG_TYPE),
        (b'{"msgsInQueue":-1,"processingTimePerMsg":25}', StatusFault.OUT_OF_RANGE),
        (b'{"msgsInQueue":3,"processingTimePerMsg":-0.1}', StatusFault.OUT_OF_RANGE),
        (b'{"msgsInQueue":1000001,"processingTimePerMsg":25}', StatusFault.OUT_OF_RANGE),
        (b'{"msgsInQueue":3,"processingTimePerMsg":3600000.1}', StatusFault.OUT_OF_RANGE),
        (b'{"msgsInQueue":3,"processingTimePerMsg":1e308}', StatusFault.OUT_OF_RANGE),
        (b'{"msgsInQueue":99999999999999999999999,"processingTimePerMsg":1}', StatusFault.OUT_OF_RANGE),
        (b'{"msgsInQueue":3,"processingTimePerMsg":25,"processed":-1}', StatusFault.OUT_OF_RANGE),
        (b'{"msgsInQueue":3,"numberOfMsgsInQueue":4,"processingTimePerMsg":25}', StatusFault.CONTRADICTION),
        (
            b'{"msgsInQueue":3,"processingTimePerMsg":25,"received":5,"processed":6}',
            StatusFault.CONTRADICTION,
        ),
    ],
)
def test_what_can_not_be_true_is_refused_with_its_reason(payload: bytes, fault: StatusFault) -> None:
    assert parse_status(payload) == fault


def test_the_bounds_themselves_are_allowed() -> None:
    payload = b'{"msgsInQueue":1000000,"processingTimePerMsg":3600000}'
    assert parse_status(payload) == StatusReport(QUEUE_MAX, 3600.0)


@given(st.binary(max_size=200))
def test_no_bytes_make_it_raise(payload: bytes) -> None:
    assert isinstance(parse_status(payload), StatusReport | StatusFault)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["msgsInQueue", "processingTimePerMsg", "processed", "x"]), JSON))
def test_no_json_makes_it_raise(fields: dict[str, object]) -> None:
    import json

    parsed = parse_status(json.dumps(fields).encode())
    if isinstance(parsed, StatusReport):
        assert 0 <= parsed.queue <= QUEUE_MAX
        assert 0 <= parsed.processing_s <= 3600


@given(
    st.integers(0, QUEUE_MAX),
    st.floats(0, 3600, allow_nan=False),
    st.integers(0, 10**9),
    st.integers(0, 10**9),
)
def test_what_we_send_we_can_read(queue: int, processing_s: float, done: int, open_count: int) -> None:
    sent = StatusReport(queue, processing_s, done + open_count, done)
    read = parse_status(encode_status(sent))
    assert isinstance(read, StatusReport)
    assert (read.queue, read.received, read.processed) == (queue, done + open_count, done)
    assert read.processing_s == pytest.approx(processing_s, rel=1e-12)
