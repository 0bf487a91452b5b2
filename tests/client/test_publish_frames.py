"""The quick encoder of PUBLISH against the general one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from braidmq.client.publish_frames import TOPICS_MAX, PublishFrames
from braidmq.errors import ProtocolError
from braidmq.wire import NO_PROPERTIES, V5, V311, Properties, Publish, encode
from tests.client.test_batch import MESSAGES


@given(MESSAGES, st.booleans(), st.integers(1, 65_535), st.sampled_from([V311, V5]))
def test_they_agree(packet: Publish, dup: bool, packet_id: int, version: int) -> None:
    if packet.qos:
        packet = structs.replace(packet, dup=dup, packet_id=packet_id)
    frames = PublishFrames(version)
    for _ in range(2):  # the second time the topic is known
        assert frames.frame(packet) == encode(packet, version)


@pytest.mark.parametrize("size", [0, 1, 118, 119, 120, 16_000, 16_377, 16_378, 16_379, 3_000_000])
def test_lengths(size: int) -> None:
    packet = Publish("topic", b"x" * size)
    assert PublishFrames(V5).frame(packet) == encode(packet, V5)


def test_an_alias_has_an_empty_topic() -> None:
    packet = Publish("", b"x", properties=Properties(topic_alias=3))
    assert PublishFrames(V5).frame(packet) == encode(packet, V5)
    with pytest.raises(ProtocolError):
        PublishFrames(V5).check(Publish("", b"x"))


def test_many_topics_are_forgotten_again() -> None:
    frames = PublishFrames(V5)
    for number in range(3 * TOPICS_MAX):
        packet = Publish(f"t/{number}")
        frames.check(packet)
        assert frames.frame(packet) == encode(packet, V5)
    assert len(frames._topics) <= TOPICS_MAX


def test_what_was_encoded_for_one_message_is_not_sent_with_another() -> None:
    frames = PublishFrames(V5)
    several = [Properties(content_type="a"), Properties(content_type="b"), NO_PROPERTIES]
    packets = [Publish("t", b"", properties=properties) for properties in several]
    for packet in packets:
        frames.check(packet)
    for packet in [*packets, *reversed(packets)]:
        assert frames.frame(packet) == encode(packet, V5)
