"""What a trace says to people: one line an event, with who, what, and why."""

from typing import Any

import msgspec
import pytest

from braidmq.broker import events
from braidmq.broker.counters import DROP_NAMES
from braidmq.broker.tracing import TRACED
from braidmq.cli.trace import DROPS, in_words, printable

TEMPERATURE = {"topic": "plant/t", "publisher": "press", "payload_bytes": 4}


def line(event: events.Event) -> str:
    """The line without its time."""
    at, _, words = in_words({"at_s": 1_700_000_000.25} | msgspec.to_builtins(event)).partition(" ")
    assert at.endswith(".250")
    return " ".join(words.split())


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (events.Published(**TEMPERATURE, qos=1, packet_id=7), "published press plant/t QoS 1 id 7 bytes 4"),
        (
            events.Delivered(**TEMPERATURE, client_id="d", packet_id=2, qos=1, is_repeated=True),
            "delivered d plant/t from press QoS 1 id 2 bytes 4 again",
        ),
        (
            events.Delivered(**TEMPERATURE, client_id="d", is_retained=True),
            "delivered d plant/t from press QoS 0 bytes 4 retained",
        ),
        (
            events.MemberSelected(**TEMPERATURE, client_id="m1", group="crew"),
            "member selected m1 plant/t from press of group crew bytes 4",
        ),
        (
            events.Dropped(**TEMPERATURE, client_id="d", why="queue_full"),
            "dropped d plant/t from press QoS 0 bytes 4 (the queue is full)",
        ),
        (
            events.Acknowledged(client_id="d", packet="PUBACK", packet_id=2, reason=0x97),
            "acknowledged d id 2 reason 0x97 (PUBACK)",
        ),
        (events.Subscribed(client_id="d", filter="plant/#", reason=1), "subscribed d plant/# QoS 1"),
        (events.Subscribed(client_id="d", filter="x", reason=0x87), "subscribed d x reason 0x87"),
        (
            events.SessionEstablished(client_id="d", peer="127.0.0.1:5", is_resumed=True),
            "session established d at 127.0.0.1:5 to the session it had",
        ),
        (events.SessionEnded(client_id="d", why="expired"), "session ended d (it has expired)"),
    ],
)
def test_an_event_reads_as_a_sentence(event: events.Event, words: str) -> None:
    assert line(event) == words


def test_every_reason_for_a_drop_has_words() -> None:
    assert set(DROPS) >= set(DROP_NAMES)


@pytest.mark.parametrize("kind", sorted(TRACED, key=lambda kind: kind.__name__))
def test_every_event_of_a_trace_can_be_shown(kind: type[events.Event]) -> None:
    values: dict[str, Any] = {field.name: "x" for field in msgspec.structs.fields(kind) if field.required}
    if "reason" in values:
        values["reason"] = 0x87
    assert line(kind(**values)).startswith(str(kind.__struct_config__.tag).replace("_", " "))


def test_what_a_terminal_would_obey_is_shown_instead() -> None:
    assert printable("a/\x1b[2J\x9b\u202e/ü ☃") == "a/\\u001b[2J\\u009b\\u202e/ü ☃"
    encoded = msgspec.json.encode({"topic": "a\x1b\x9b"}).decode()
    assert msgspec.json.decode(printable(encoded)) == {"topic": "a\x1b\x9b"}
    assert printable(encoded).isprintable()
