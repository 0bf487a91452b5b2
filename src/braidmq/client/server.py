"""What the server said it can do (CONNACK's properties), and refusing what it can't before it is sent."""

import msgspec

from braidmq.client.errors import LimitExceededError
from braidmq.topics import split_shared
from braidmq.wire import Properties, Publish, ReasonCode, Subscribe

UINT16_CEILING = 65_535
# Asked for in CONNECT and confirmed in CONNACK: the server numbers the deliveries of this session for good.
DELIVERY_NUMBERS = ("braidmq-delivery-numbers", "1")
SESSION_IDENTITY = "braidmq-session"


class ServerLimits(msgspec.Struct, frozen=True):
    """The defaults are MQTT's: what holds when CONNACK says nothing."""

    receive_maximum: int = UINT16_CEILING
    maximum_qos: int = 2
    retain_available: bool = True
    packet_bytes_max: int = 268_435_460
    topic_alias_maximum: int = 0
    wildcards_available: bool = True
    identifiers_available: bool = True
    shared_available: bool = True
    delivery_numbers: bool = False
    session_identity: str = ""  # which session they belong to

    @classmethod
    def told_by(cls, told: Properties) -> "ServerLimits":
        answers = {
            "receive_maximum": told.receive_maximum,
            "maximum_qos": told.maximum_qos,
            "retain_available": told.retain_available,
            "packet_bytes_max": told.maximum_packet_size_bytes,
            "topic_alias_maximum": told.topic_alias_maximum,
            "wildcards_available": told.wildcard_subscription_available,
            "identifiers_available": told.subscription_identifiers_available,
            "shared_available": told.shared_subscription_available,
            "delivery_numbers": DELIVERY_NUMBERS in told.user_properties,
            "session_identity": dict(told.user_properties).get(SESSION_IDENTITY),
        }
        return msgspec.convert({name: value for name, value in answers.items() if value is not None}, cls)

    def check_publish(self, packet: Publish) -> None:
        if packet.qos > self.maximum_qos:  # [MQTT-3.2.2-11]
            detail = f"the server takes QoS {self.maximum_qos} at most"
            raise LimitExceededError(ReasonCode.QOS_NOT_SUPPORTED, detail)
        if packet.retain and not self.retain_available:  # [MQTT-3.2.2-14]
            raise _unavailable(ReasonCode.RETAIN_NOT_SUPPORTED, "retained messages")

    def check_subscribe(self, packet: Subscribe) -> None:
        if packet.properties.subscription_identifiers and not self.identifiers_available:
            raise _unavailable(ReasonCode.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED, "subscription identifiers")
        for subscription in packet.subscriptions:
            group, inner = split_shared(subscription.filter)
            if group is not None and not self.shared_available:
                raise _unavailable(ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED, "shared subscriptions")
            if not self.wildcards_available and ("+" in inner or "#" in inner):
                raise _unavailable(ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED, "wildcard subscriptions")

    def check_size(self, frame: bytes) -> None:
        if len(frame) > self.packet_bytes_max:  # [MQTT-3.2.2-15]
            raise LimitExceededError(
                ReasonCode.PACKET_TOO_LARGE,
                f"the packet has {len(frame)} bytes, the server takes {self.packet_bytes_max}",
            )


def _unavailable(reason: ReasonCode, what: str) -> LimitExceededError:
    return LimitExceededError(reason, f"the server has no {what}")


class TopicAliases:
    """Aliases that we give to the server: the first topics that are used get one, the others go out in full.

    Giving an alias to another topic is allowed, but pays only if the new one is used more often than the old,
    which nobody knows beforehand.
    """

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._alias_of: dict[str, int] = {}

    def apply(self, packet: Publish) -> Publish:
        """The packet as it goes out; `packet` itself stays whole for another connection."""
        alias = self._alias_of.get(packet.topic)
        if alias is None:
            if len(self._alias_of) >= self._maximum:
                return packet
            alias = self._alias_of[packet.topic] = len(self._alias_of) + 1
            return _with_alias(packet, packet.topic, alias)
        return _with_alias(packet, "", alias)


def _with_alias(packet: Publish, topic: str, alias: int) -> Publish:
    properties = msgspec.structs.replace(packet.properties, topic_alias=alias)
    return msgspec.structs.replace(packet, topic=topic, properties=properties)
