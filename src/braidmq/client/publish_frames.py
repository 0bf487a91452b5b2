"""PUBLISH frames, fast: the bytes of `braidmq.wire.encode`, with the topic's part remembered.

Most publishers use few topics over and over. Checking and encoding a topic is done once; a frame is then one
join. A test holds it to the general encoder.
"""

from braidmq.topics import validate_topic
from braidmq.wire import NO_PROPERTIES, V5, PacketType, Properties, Publish, encode_properties
from braidmq.wire.fields import write_varint

TOPICS_MAX = 1024  # remembered; when full, all are forgotten, which costs less than keeping an order
LARGE_PAYLOAD_BYTES = 200_000_000  # below this, topic and properties can't make a frame too long
NO_PROPERTIES_BLOCK = b"\0"


class PublishFrames:
    def __init__(self, version: int) -> None:
        self._with_properties = version == V5
        self._topics: dict[str, bytes] = {"": b"\0\0"}  # an empty one stands for an alias
        # What was encoded last: a message is checked and then sent, and many messages may have the same ones.
        self._encoded: tuple[Properties, bytes] = (NO_PROPERTIES, NO_PROPERTIES_BLOCK)

    def check(self, packet: Publish) -> None:
        """Refuses at once what no server could take, also while the message has to wait."""
        if not packet.topic or packet.topic not in self._topics:
            validate_topic(packet.topic)
            self._remember(packet.topic)
        if packet.qos not in (0, 1, 2):
            raise ValueError(f"QoS is 0, 1 or 2, not {packet.qos}")
        if packet.properties is not NO_PROPERTIES:
            _check_properties(packet.properties)
            self._block(packet.properties)
        if len(packet.payload) > LARGE_PAYLOAD_BYTES:
            self.frame(packet)  # raises if MQTT's length field can't say it

    def _remember(self, topic: str) -> bytes:
        if len(self._topics) >= TOPICS_MAX:
            self._topics = {"": b"\0\0"}
        encoded = topic.encode()
        field = self._topics[topic] = len(encoded).to_bytes(2) + encoded
        return field

    def frame(self, packet: Publish) -> bytes:
        """The whole frame. The topic must have been checked, the QoS be 0, 1 or 2."""
        first_byte = 0x30 | packet.dup << 3 | packet.qos << 1 | packet.retain
        topic = self._topics.get(packet.topic) or self._remember(packet.topic)
        packet_id = packet.packet_id.to_bytes(2) if packet.qos else b""
        properties = self._block(packet.properties) if self._with_properties else b""
        size = len(topic) + len(packet_id) + len(properties) + len(packet.payload)
        head = bytes((first_byte,)) + write_varint(size)
        return b"".join((head, topic, packet_id, properties, packet.payload))

    def _block(self, properties: Properties) -> bytes:
        if properties is NO_PROPERTIES:
            return NO_PROPERTIES_BLOCK
        known, block = self._encoded
        if properties is not known:
            block = encode_properties(properties, PacketType.PUBLISH)
            self._encoded = properties, block
        return block


def _check_properties(properties: Properties) -> None:
    if properties.subscription_identifiers or properties.topic_alias is not None:
        # [MQTT-3.3.4-6]; aliases are ours to choose, because they mean something on one connection only
        raise ValueError("a message can't bring its own subscription identifier or topic alias")
