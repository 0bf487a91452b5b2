"""`braidmq trace`: shows live what happens to the messages of a client or a topic, and why."""

import http.client
import json
import sys
import urllib.parse
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, Final

import msgspec
from cyclopts import Parameter

from braidmq.cli.admin_api import HERE, AdminFlags, detail_of
from braidmq.errors import BraidError, ConfigError

SILENCE_S: Final = 30.0  # the broker says something every ten seconds

ClientFlag = Annotated[str | None, Parameter(name="--client", metavar="ID", help="The client to follow.")]
TopicFlag = Annotated[str | None, Parameter(name="--topic", metavar="FILTER", help="The topics to follow.")]
CountFlag = Annotated[int | None, Parameter(name=["--count", "-C"], help="Stop after so many events.")]
JsonFlag = Annotated[bool, Parameter(name="--json", negative=(), help="Print a JSON object a line.")]


def trace(
    *,
    client: ClientFlag = None,
    topic: TopicFlag = None,
    api: AdminFlags = HERE,
    count: CountFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what happens to the messages of a client or a topic, as it happens, and why.

    The broker must have been started with --admin-port. While somebody looks on, it is slower.
    """
    if client is None and topic is None:
        raise ConfigError("trace: whom or what? Give --client ID, --topic FILTER or both")
    query = urllib.parse.urlencode({"client_id": client or "", "filter": topic or ""})
    connection = api.connection("trace", SILENCE_S)
    try:
        shown = 0
        for event in islice(_events(connection, query, api), count):
            print(printable(msgspec.json.encode(event).decode() if as_json else in_words(event)), flush=True)
            shown += 1
    except TimeoutError as error:
        raise BraidError(f"trace: {api.place} says nothing any more") from error
    except http.client.HTTPException as error:
        raise BraidError(f"trace: {api.place} is no admin API: {error!r}") from error
    finally:
        connection.close()
    if shown != count:
        raise BraidError(f"trace: {api.place} has ended it")


def _events(
    connection: http.client.HTTPConnection, query: str, api: AdminFlags
) -> Iterator[dict[str, Any]]:
    connection.request("GET", f"/trace?{query}", headers=api.headers)
    response = connection.getresponse()
    if response.status != http.client.OK:
        raise BraidError(f"trace: {detail_of(response.read())}")
    for line in response:
        if line.startswith(b": the trace has begun"):
            print("following; ctrl-C ends it", file=sys.stderr, flush=True)
        elif line.startswith(b"data: "):
            event: dict[str, Any] = msgspec.json.decode(line[len(b"data: ") :])
            yield event


def printable(text: str) -> str:
    """The text with what a terminal would obey instead of show written as JSON escapes it."""
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def in_words(event: dict[str, Any]) -> str:
    """One event as a line for people."""
    if "lost" in event:
        return f"... {event['lost']} events were not shown: more happened than could be sent here"
    if "unseen" in event:
        return f"... {event['unseen']} messages passed unseen: a trace looks at so many a second, then rests"
    at = datetime.fromtimestamp(event["at_s"]).strftime("%H:%M:%S.%f")[:-3]
    kind, publisher = event["kind"], event.get("publisher")
    who = publisher if kind in PUBLISHER_KINDS else event.get("client_id")
    words = [at, f"{kind.replace('_', ' '):<19}", who or "-"]
    words += [event[key] for key in ("topic", "filter") if key in event]
    if publisher not in (None, who):
        words.append(f"from {publisher}")
    if "group" in event:
        words.append(f"of group {event['group']}")
    if kind in MESSAGE_KINDS:
        words.append(f"QoS {event.get('qos', 0)}")
    words += [f"{name} {event[key]}" for key, name in NAMED.items() if key in event]
    words += [text for key, text in FLAGS.items() if event.get(key)]
    reason = event.get("reason", 0)
    if kind == "subscribed" and reason < FAILED:
        words.append(f"QoS {reason}")
    elif reason:
        words.append(f"reason 0x{reason:02X}")
    why = event.get("why", event.get("packet"))
    return " ".join([*words, f"({DROPS.get(why, why)})"] if why else words)


NAMED: Final = {"packet_id": "id", "payload_bytes": "bytes", "peer": "at"}
FLAGS: Final = {
    "retain": "to be retained",
    "is_retained": "retained",
    "is_repeated": "again",
    "is_resumed": "to the session it had",
}
FAILED: Final = 0x80  # reasons from here on are errors
DROPS: Final = {
    "slow_subscriber": "the client reads too slowly",
    "queue_full": "the queue is full",
    "expired": "it has expired",
    "packet_too_large": "larger than the client accepts",
    "not_authorized": "not allowed",
    "session_ended": "the session has ended",
    "rejected": "the client has rejected it",
    "away": "the client is away, and QoS 0 does not wait",
    "damaged": "it can't be read back from the disk",
    "store_failing": "the store can't be written",
    "group_gone": "the shared group has no members any more",
    "topic_too_long": "the topic is longer or deeper than the limits allow",
    "retained_full": "there is no room for another retained message",
    "peer_away": "there is no link to a node that wants it, and QoS 0 does not wait",
    "peer_gone": "it waited for a node that is dead",
}
PUBLISHER_KINDS: Final = frozenset({"published", "retained"})  # what somebody does, not what is done to it
MESSAGE_KINDS: Final = frozenset({"published", "delivered", "queued", "dropped", "will_sent"})
