"""Whatever can be said, is understood: encode then decode gives the packet back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braidmq.wire import (
    NO_PROPERTIES,
    V5,
    V31,
    V311,
    FrameReader,
    Packet,
    Properties,
    decode,
    decode_properties,
    encode,
    encode_properties,
)
from braidmq.wire.kinds import PacketType
from tests.wire import strategies

READER_LIMIT_BYTES = 1 << 20


def decode_one(data: bytes, version: int) -> Packet:
    reader = FrameReader(READER_LIMIT_BYTES)
    reader.feed(data)
    ((first_byte, body),) = list(reader)
    return decode(first_byte, body, version)


@pytest.mark.parametrize("version", [V31, V311, V5])
@settings(max_examples=300)
@given(data=st.data())
def test_packet_survives_the_wire(version: int, data: st.DataObject) -> None:
    packet = data.draw(strategies.packets(version))
    encoded = encode(packet, version)
    assert decode_one(encoded, version) == packet
    assert encode(decode_one(encoded, version), version) == encoded


@given(data=st.data(), before=st.binary(max_size=5), after=st.binary(max_size=5))
def test_property_block_survives_inside_other_bytes(data: st.DataObject, before: bytes, after: bytes) -> None:
    owner = data.draw(st.sampled_from([0, *(kind for kind in PacketType if kind not in (12, 13))]))
    properties = data.draw(strategies.properties(owner))
    block = encode_properties(properties, owner)
    assert block == encode_properties(properties)
    decoded, end = decode_properties(before + block + after, len(before), owner)
    assert (decoded, end) == (properties, len(before) + len(block))


@given(packet=strategies.packets(V5), version=st.sampled_from([V31, V311]))
def test_packet_of_mqtt_5_keeps_its_sense_in_mqtt_3(packet: Packet, version: int) -> None:
    """A broker sends one value to clients of all versions; properties go, and reasons get coarser."""
    if not speaks_mqtt_3(packet):
        return
    decoded = decode_one(encode(packet, version), version)
    assert type(decoded) is type(packet)
    assert getattr(decoded, "properties", NO_PROPERTIES) == NO_PROPERTIES
    assert getattr(decoded, "packet_id", 0) == getattr(packet, "packet_id", 0)
    if hasattr(packet, "reason") and hasattr(decoded, "reason") and decoded.reason:
        assert packet.reason >= 0x80


def speaks_mqtt_3(packet: Packet) -> bool:
    """Whether MQTT 3 can say it at all. CONNECT names its own version."""
    return type(packet).__name__ not in ("Auth", "Connect") and getattr(packet, "topic", "x") != ""


def test_equal_blocks_without_properties_are_one_byte() -> None:
    assert encode_properties(Properties()) == encode_properties(NO_PROPERTIES) == b"\0"
