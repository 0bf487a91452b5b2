"""Topic names: what may be published to."""

import pytest
from hypothesis import given

from braidmq.errors import ProtocolError
from braidmq.topics import validate_topic
from tests.topics.strategies import topics

TOPIC_NAME_INVALID = 0x90


@pytest.mark.parametrize("topic", ["a", "/", "//", " ", "a/b", "$SYS", "$share/g/x", "日本/é", "a" * 65_535])
def test_any_text_without_wildcards_is_a_topic(topic: str) -> None:
    validate_topic(topic)
    validate_topic(topic.encode())


@given(topics)
def test_generated_topics_are_topics(topic: bytes) -> None:
    validate_topic(topic)


@pytest.mark.parametrize(
    ("topic", "fault"),
    [
        ("", "empty"),
        (b"", "empty"),
        ("a/+/b", "wildcards"),
        ("a#", "wildcards"),
        ("a\0b", "U.0000"),
        (b"a\0b", "U.0000"),
        (b"\xff", "UTF-8"),
        (b"\xed\xa0\x80", "UTF-8"),
        ("\ud800", "UTF-8"),
        ("a" * 65_536, "bytes"),
    ],
)
def test_a_fault_is_named_with_its_reason(topic: str | bytes, fault: str) -> None:
    with pytest.raises(ProtocolError, match=fault) as raised:
        validate_topic(topic)
    assert raised.value.reason == TOPIC_NAME_INVALID


def test_limits_count_bytes_and_levels() -> None:
    validate_topic("é/é/é", bytes_max=8, levels_max=3)
    with pytest.raises(ProtocolError, match="8 bytes, more than 7"):
        validate_topic("é/é/é", bytes_max=7)
    with pytest.raises(ProtocolError, match="3 levels, more than 2"):
        validate_topic("é/é/é", levels_max=2)
