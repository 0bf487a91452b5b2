r"""The output language of `braidmq sub -F`: text with %-, @- and \-sequences, compiled before use.

The sequences are those of mosquitto_sub, so that formats people have keep working: %t topic, %p payload, %x
hex, %j JSON …, with flags, width and maximum as in %-10.5t; @Y-@m-@d as in strftime; \n, \t, \e. Output is
bytes, because a payload needn't be text.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, Protocol

from braidmq.errors import BraidError, ConfigError
from braidmq.wire import Properties


class Printable(Protocol):
    """What the formats need of a message."""

    @property
    def topic(self) -> str: ...
    @property
    def payload(self) -> bytes: ...
    @property
    def qos(self) -> int: ...
    @property
    def retain(self) -> bool: ...
    @property
    def packet_id(self) -> int: ...
    @property
    def properties(self) -> Properties: ...


class NotJsonError(BraidError):
    """%J was asked for, and the payload isn't JSON."""


Render = Callable[[Printable, datetime], bytes]
Field = Callable[[Printable], bytes]

_SEQUENCE: Final = re.compile(r"%([0-]*)(\d*)(?:\.(\d+))?(.)|@(.)|\\(.)", re.DOTALL)
_ESCAPES: Final = dict(
    zip("\\0aenrtv", (b"\\", b"\0", b"\a", b"\x1b", b"\n", b"\r", b"\t", b"\v"), strict=True)
)


def _text(value: object) -> bytes:
    return b"" if value is None else str(value).encode()


_FIELDS: Final[Mapping[str, Field]] = {
    "t": lambda message: message.topic.encode(),
    "p": lambda message: bytes(message.payload),
    "x": lambda message: bytes(message.payload).hex().encode(),
    "X": lambda message: bytes(message.payload).hex().upper().encode(),
    "l": lambda message: _text(len(message.payload)),
    "m": lambda message: _text(message.packet_id),
    "q": lambda message: _text(message.qos),
    "r": lambda message: _text(int(message.retain)),
    "A": lambda message: _text(message.properties.topic_alias),
    "C": lambda message: _text(message.properties.content_type),
    "D": lambda message: message.properties.correlation_data or b"",
    "E": lambda message: _text(message.properties.message_expiry_s),
    "F": lambda message: _text(message.properties.payload_format),
    "P": lambda message: " ".join(map(":".join, message.properties.user_properties)).encode(),
    "R": lambda message: _text(message.properties.response_topic),
    "S": lambda message: " ".join(map(str, message.properties.subscription_identifiers)).encode(),
}
_ZERO_PADDED: Final = frozenset("AEFlmSXx")
_CUT_TO_MAXIMUM: Final = frozenset("CIRt")


def compile_format(text: str, *, pretty: bool = False) -> Render:
    """The function that a format stands for; ConfigError for a sequence that doesn't exist."""
    parts: list[Render] = []
    end = 0
    for match in _SEQUENCE.finditer(text):
        parts.append(_literal(text[end : match.start()].encode()))
        parts.append(_sequence(match, pretty))
        end = match.end()
    rest = text[end:]
    if rest.endswith(("%", "@", "\\")):
        raise ConfigError(f"-F {text}: {rest[-1]} at the end begins nothing; double it to print it")
    parts.append(_literal(rest.encode()))
    return lambda message, now: b"".join([part(message, now) for part in parts])


def _literal(text: bytes) -> Render:
    return lambda _message, _now: text


def _sequence(match: re.Match[str], pretty: bool) -> Render:
    flags, width, maximum, letter, time_letter, escape = match.groups()
    if escape is not None:
        if escape not in _ESCAPES:
            raise ConfigError(f"-F: there is no sequence \\{escape}")
        return _literal(_ESCAPES[escape])
    if time_letter is not None:
        return _time(time_letter)
    render = _parameter(letter, pretty)
    if not width and not maximum:
        return render
    cut = int(maximum) if maximum and letter in _CUT_TO_MAXIMUM else None
    fill = b"0" if "0" in flags and letter in _ZERO_PADDED else b" "
    return _padded(render, int(width or 0), cut, fill, left="-" in flags)


def _padded(render: Render, width: int, cut: int | None, fill: bytes, *, left: bool) -> Render:
    def padded(message: Printable, now: datetime) -> bytes:
        value = render(message, now)[:cut]
        return value.ljust(width) if left else value.rjust(width, fill)

    return padded


def _parameter(letter: str, pretty: bool) -> Render:
    if letter in _FIELDS:
        field = _FIELDS[letter]
        return lambda message, _now: field(message)
    match letter:
        case "%":
            return _literal(b"%")
        case "I":
            return lambda _message, now: now.strftime("%Y-%m-%dT%H:%M:%S%z").encode()
        case "U":
            return lambda _message, now: f"{now.timestamp():.6f}000".encode()
        case "j" | "J":
            return lambda message, now: _json(message, now, embed=letter == "J", pretty=pretty)
    raise ConfigError(f"-F: there is no sequence %{letter}")


def _time(letter: str) -> Render:
    match letter:
        case "@":
            return _literal(b"@")
        case "N":
            return lambda _message, now: f"{now.microsecond * 1000:09}".encode()
    return lambda _message, now: now.strftime(f"%{letter}").encode()


def _json(message: Printable, now: datetime, *, embed: bool, pretty: bool) -> bytes:
    record: dict[str, Any] = {
        "tst": now.strftime("%Y-%m-%dT%H:%M:%S.%f%z"),
        "topic": message.topic,
        "qos": message.qos,
        "retain": int(message.retain),
        "payloadlen": len(message.payload),
    }
    if message.qos:
        record["mid"] = message.packet_id
    if properties := _json_properties(message.properties):
        record["properties"] = properties
    record["payload"] = _json_payload(message, embed)
    if pretty:
        return json.dumps(record, ensure_ascii=False, indent=2).encode()
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()


def _json_payload(message: Printable, embed: bool) -> object:
    payload = bytes(message.payload)
    if not embed:
        return payload.decode("utf-8", "replace") if payload else None
    try:
        return json.loads(payload)
    except ValueError as error:
        raise NotJsonError(f"the payload on topic {message.topic} is not JSON") from error


def _json_properties(properties: Properties) -> dict[str, object]:
    found: dict[str, object] = {
        "topic-alias": properties.topic_alias,
        "subscription-identifier": list(properties.subscription_identifiers) or None,
        "content-type": properties.content_type,
        "user-properties": [{key: value} for key, value in properties.user_properties] or None,
        "correlation-data": (properties.correlation_data or b"").decode("utf-8", "replace") or None,
        "response-topic": properties.response_topic,
        "payload-format-indicator": properties.payload_format,
        "message-expiry-interval": properties.message_expiry_s,
    }
    return {name: value for name, value in found.items() if value is not None}
