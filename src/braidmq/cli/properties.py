"""`-D COMMAND IDENTIFIER [NAME] VALUE` of pub and sub: MQTT 5 properties by their names in the standard.

Which packet may carry which property is not decided here: the client encodes, and braidmq.wire refuses.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from braidmq.config.toml import nearest
from braidmq.errors import ConfigError
from braidmq.wire import NO_PROPERTIES, Properties

COMMANDS: Final = ("connect", "publish", "subscribe", "unsubscribe", "disconnect", "will")


class _Kind(NamedTuple):
    field: str
    type: Any


_IDENTIFIERS: Final = {
    "authentication-data": _Kind("authentication_data", bytes),
    "authentication-method": _Kind("authentication_method", str),
    "content-type": _Kind("content_type", str),
    "correlation-data": _Kind("correlation_data", bytes),
    "maximum-packet-size": _Kind("maximum_packet_size_bytes", int),
    "message-expiry-interval": _Kind("message_expiry_s", int),
    "payload-format-indicator": _Kind("payload_format", int),
    "receive-maximum": _Kind("receive_maximum", int),
    "request-problem-information": _Kind("request_problem_information", bool),
    "request-response-information": _Kind("request_response_information", bool),
    "response-topic": _Kind("response_topic", str),
    "session-expiry-interval": _Kind("session_expiry_s", int),
    "subscription-identifier": _Kind("subscription_identifiers", int),
    "topic-alias": _Kind("topic_alias", int),
    "topic-alias-maximum": _Kind("topic_alias_maximum", int),
    "user-property": _Kind("user_properties", str),
    "will-delay-interval": _Kind("will_delay_s", int),
}


class CommandProperties(msgspec.Struct, frozen=True):
    """The properties given for each kind of packet."""

    connect: Properties = NO_PROPERTIES
    publish: Properties = NO_PROPERTIES
    subscribe: Properties = NO_PROPERTIES
    unsubscribe: Properties = NO_PROPERTIES
    disconnect: Properties = NO_PROPERTIES
    will: Properties = NO_PROPERTIES


def parse_properties(words: Sequence[str]) -> CommandProperties:
    """All words of all -D options, in order."""
    fields: dict[str, dict[str, Any]] = {}
    remaining = iter(words)
    for word in remaining:
        command = _known(word.lower(), COMMANDS, "packet")
        identifier = _known(_next(remaining, word), _IDENTIFIERS, "property")
        _add(fields.setdefault(command, {}), identifier, remaining)
    return CommandProperties(**{command: Properties(**values) for command, values in fields.items()})


def _add(values: dict[str, Any], identifier: str, remaining: Iterator[str]) -> None:
    field, type_ = _IDENTIFIERS[identifier]
    if identifier == "user-property":
        pair = (_next(remaining, identifier), _next(remaining, identifier))
        values[field] = (*values.get(field, ()), pair)
        return
    if field in values:
        raise ConfigError(f"-D: {identifier} is given twice")
    value = _converted(identifier, type_, _next(remaining, identifier))
    values[field] = (value,) if field == "subscription_identifiers" else value


def _converted(identifier: str, type_: Any, word: str) -> Any:
    if type_ is bytes:
        return word.encode()
    try:
        return msgspec.convert(word, type_, strict=False)
    except msgspec.ValidationError as error:
        expected = "0 or 1" if type_ is bool else "a whole number"
        raise ConfigError(f"-D: {identifier} must be {expected}, got {word!r}") from error


def _known(word: str, known: Sequence[str] | dict[str, _Kind], what: str) -> str:
    if word in known:
        return word
    raise ConfigError(f"-D: no {what} {word!r}{nearest(word, list(known))}")


def _next(remaining: Iterator[str], after: str) -> str:
    word = next(remaining, None)
    if word is None:
        raise ConfigError(f"-D: a value is missing after {after}; write -D COMMAND IDENTIFIER [NAME] VALUE")
    return word
