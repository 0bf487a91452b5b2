"""What both clients do alike with the arguments and answers of a call."""

from collections.abc import Sequence

import msgspec

from braidmq.client._batch import Message, MessageBatch
from braidmq.client.errors import ClientClosedError
from braidmq.client.options import OptionChoices, Options
from braidmq.errors import ConfigError
from braidmq.wire import NO_PROPERTIES, Properties, Puback, Pubcomp, Publish, Pubrec, Subscription

QOS0_FLAGS = (0x00, 0x01, 0x08, 0x09)  # with RETAIN and DUP or without

Payload = bytes | bytearray | memoryview | str


class PublishResult(msgspec.Struct, frozen=True):
    """The server has the message. QoS 0 has no answer, so its result says nothing."""

    reason: int = 0  # 0x10: no subscriber matched
    properties: Properties = NO_PROPERTIES


NO_ANSWER = PublishResult()


def publish_result(answer: object) -> PublishResult:
    if isinstance(answer, Puback | Pubrec | Pubcomp):
        return PublishResult(answer.reason, answer.properties)
    return NO_ANSWER


def make_publish(topic: str, payload: Payload, qos: int, retain: bool, properties: Properties) -> Publish:
    data = payload.encode() if isinstance(payload, str) else bytes(payload)
    return Publish(topic, data, qos, retain, properties=properties)


def make_subscriptions(filters: Sequence[str | Subscription], qos: int) -> tuple[Subscription, ...]:
    if not filters:
        raise ValueError("at least one topic filter is needed")
    return tuple(Subscription(wanted, qos) if isinstance(wanted, str) else wanted for wanted in filters)


def answerable(delivery: Message | MessageBatch) -> int:
    """How many messages of a delivery are acknowledged: those above QoS 0."""
    if isinstance(delivery, Message):
        return 1 if delivery.qos else 0
    flags = delivery.flags
    return len(flags) - sum(flags.count(qos0) for qos0 in QOS0_FLAGS)


def make_options(choices: OptionChoices) -> Options:
    unknown = set(choices) - set(Options.__struct_fields__)
    if unknown:
        raise ConfigError(f"unknown client option: {', '.join(sorted(unknown))}")
    return Options(**choices)


def closed_error(cause: Exception | None) -> ClientClosedError:
    error = ClientClosedError(f"the client is closed: {cause}" if cause else "the client is closed")
    error.__cause__ = cause
    return error
