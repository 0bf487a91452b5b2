"""`sub -F`: the sequences, against what mosquitto_sub prints for the same message."""

from datetime import UTC, datetime

import pytest

from braidmq.cli.format import NotJsonError, compile_format
from braidmq.errors import ConfigError
from braidmq.wire import Properties, Publish

NOW = datetime(2026, 11, 15, 20, 45, 23, 365175, tzinfo=UTC)
FULL = Publish(
    "a/b",
    b'{"a":1}',
    qos=1,
    packet_id=1,
    properties=Properties(
        payload_format=1,
        message_expiry_s=60,
        content_type="text",
        response_topic="r/t",
        correlation_data=b"abc",
        subscription_identifiers=(7,),
        user_properties=(("k", "v"), ("k2", "v2")),
    ),
)
BARE = Publish("a/b", b"h\xffi", retain=True)


def shown(text: str, message: Publish = FULL, *, pretty: bool = False) -> bytes:
    return compile_format(text, pretty=pretty)(message, NOW)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%t %p", b'a/b {"a":1}'),
        ("%x|%X", b"7b2261223a317d|7B2261223A317D"),
        ("%l %m %q %r", b"7 1 1 0"),
        ("%C|%P|%S|%A|%E|%F|%D|%R", b"text|k:v k2:v2|7||60|1|abc|r/t"),
        ("%10t|%-10t|%05l|%3.2t|%5C", b"       a/b|a/b       |00007| a/| text"),
        ("%-05l|%020x|%05t", b"7    |0000007b2261223a317d|  a/b"),
        ("%I", b"2026-11-15T20:45:23+0000"),
        ("%U", b"1794775523.365175000"),
        ("@Y-@m @N @@ %%", b"2026-11 365175000 @ %"),
        (r"\e\0\t\n\\", b"\x1b\0\t\n\\"),
        ("plain", b"plain"),
        ("", b""),
        (
            "%J",
            b'{"tst":"2026-11-15T20:45:23.365175+0000","topic":"a/b","qos":1,"retain":0,"payloadlen":7,"mid":1,'
            b'"properties":{"subscription-identifier":[7],"content-type":"text","user-properties":[{"k":"v"},'
            b'{"k2":"v2"}],"correlation-data":"abc","response-topic":"r/t","payload-format-indicator":1,'
            b'"message-expiry-interval":60},"payload":{"a":1}}',
        ),
    ],
)
def test_a_sequence_is_replaced(text: str, expected: bytes) -> None:
    assert shown(text) == expected


def test_absent_properties_print_as_nothing_and_bytes_pass_unchanged() -> None:
    assert shown("%C%E%P%S%D%R%F%A|%p|%r", BARE) == b"|h\xffi|1"


def test_json_of_a_bare_message() -> None:
    assert shown("%j", Publish("t")).endswith(
        b'"topic":"t","qos":0,"retain":0,"payloadlen":0,"payload":null}'
    )
    assert '"payload":"h\N{REPLACEMENT CHARACTER}i"'.encode() in shown("%j", BARE)
    assert b'\n  "topic": "t"' in shown("%j", Publish("t"), pretty=True)


def test_a_payload_that_is_not_json_is_an_error_of_its_own() -> None:
    with pytest.raises(NotJsonError, match="topic a/b"):
        shown("%J", BARE)


@pytest.mark.parametrize("text", ["%z", r"\q", "100%", "@", "a\\"])
def test_an_unknown_sequence_is_refused_before_anything_is_printed(text: str) -> None:
    with pytest.raises(ConfigError, match="-F"):
        compile_format(text)
