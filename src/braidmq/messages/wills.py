"""The message a client leaves for the case that it goes without a word."""

from typing import Final

import msgspec

from braidmq.messages.message import Message
from braidmq.wire import Properties, Will, encode_properties

OVERHEAD_BYTES: Final = 200


class PendingWill(msgspec.Struct, frozen=True):
    """A will as the broker keeps it: ready to become a message."""

    topic: bytes
    payload: bytes
    qos: int
    retain: bool
    properties: bytes  # encoded, without will delay and message expiry
    delay_s: int
    expiry_s: int | None

    @property
    def cost_bytes(self) -> int:
        """What it holds in memory, roughly: its bytes and the objects around them."""
        return len(self.topic) + len(self.payload) + len(self.properties) + OVERHEAD_BYTES

    def message(self, client_id: str, now: float) -> Message:
        """The message, published now; its expiry begins with its publication."""
        expires_at_s = now + self.expiry_s if self.expiry_s is not None else 0.0
        return Message(
            self.topic, self.payload, self.qos, self.retain, self.properties, expires_at_s, client_id
        )


def pending_will(will: Will) -> PendingWill:
    properties = will.properties
    return PendingWill(
        will.topic.encode(),
        will.payload,
        will.qos,
        will.retain,
        _passed_on(properties),
        properties.will_delay_s or 0,
        properties.message_expiry_s,
    )


def _passed_on(properties: Properties) -> bytes:
    """The will's properties that its PUBLISH carries, without their length."""
    kept = msgspec.structs.replace(properties, will_delay_s=None, message_expiry_s=None)
    block = encode_properties(kept)
    length_bytes = next(index for index, byte in enumerate(block) if byte < 0x80) + 1
    return block[length_bytes:]
