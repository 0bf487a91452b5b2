"""`braidmq pub`: publishes one message, a file, or a line at a time."""

import itertools
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter

from braidmq.cli.connecting import Notes, connected
from braidmq.cli.connection import (
    LOCAL_BROKER,
    ConnectionFlags,
    command_properties,
    destination,
    flag,
    require_qos,
)
from braidmq.client import BlockingClient
from braidmq.errors import ConfigError, ProtocolError
from braidmq.topics import validate_topic
from braidmq.wire import Properties

READ_BYTES: Final = 65_536
GROUP: Final = "Message"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MessageFlags:
    """Where the messages come from: one of -m, -f, -l, -n, -s."""

    message: Annotated[
        str | None,
        Parameter(
            name=("-m", "--message"),
            help="This text.",
            group=GROUP,
            metavar="TEXT",
            allow_leading_hyphen=True,
        ),
    ] = None
    file: Annotated[
        Path | None, flag("-f", "--file", text="What is in this file.", group=GROUP, metavar="FILE")
    ] = None
    lines: Annotated[
        bool, flag("-l", "--stdin-line", text="Each line of standard input, as it comes.", group=GROUP)
    ] = False
    null: Annotated[bool, flag("-n", "--null-message", text="Nothing: an empty message.", group=GROUP)] = (
        False
    )
    stdin: Annotated[bool, flag("-s", "--stdin-file", text="All of standard input.", group=GROUP)] = False
    repeat: Annotated[int, flag("--repeat", text="Publish it so many times.", group=GROUP, metavar="N")] = 1
    repeat_delay_s: Annotated[
        float, flag("--repeat-delay", text="Seconds to wait in between (0).", group=GROUP, metavar="S")
    ] = 0.0


NO_SOURCE: Final = MessageFlags()


def pub(
    *,
    topic: Annotated[
        str | None, flag("-t", "--topic", text="The topic to publish to.", group=GROUP, metavar="TOPIC")
    ] = None,
    qos: Annotated[int, flag("-q", "--qos", text="0, 1 or 2 (0).", group=GROUP, metavar="QOS")] = 0,
    retain: Annotated[
        bool, flag("-r", "--retain", text="Let the broker keep it for later subscribers.", group=GROUP)
    ] = False,
    source: MessageFlags = NO_SOURCE,
    connection: ConnectionFlags = LOCAL_BROKER,
) -> None:
    """Publish messages.

    The flags are those of mosquitto_pub: braidmq pub -h broker -t plant/1/temperature -m 21.5 -q 1. With
    QoS 1 or 2 it ends when the broker has acknowledged every message.
    """
    where = destination(connection)
    publication: dict[str, Any] = {
        "qos": require_qos(qos, "-q"),
        "retain": retain,
        "properties": command_properties(connection).publish,
    }
    topic = _require_topic(topic or where.topic, publication["properties"])
    payload = _payload(source)
    with connected(connection, where, pinger=True) as client:
        if payload is None:
            _publish_lines(client, topic, publication)
        else:
            _publish_repeatedly(client, topic, payload, source, publication)
        Notes(connection.debug)("published")


def _require_topic(topic: str | None, properties: Properties) -> str:
    if topic is None:
        raise ConfigError("pub needs a topic: -t TOPIC")
    try:
        validate_topic(topic)
    except ProtocolError as error:
        raise ConfigError(f"-t {topic}: {error.detail}") from error
    return topic


def _payload(source: MessageFlags) -> bytes | None:
    """The one payload to publish; None if each line of standard input is one."""
    given = (source.message is not None, source.file is not None, source.lines, source.null, source.stdin)
    if sum(given) != 1:
        raise ConfigError("pub needs one of -m TEXT, -f FILE, -l, -n and -s")
    if source.repeat < 1 or source.repeat_delay_s < 0:
        raise ConfigError("--repeat must be at least 1, and --repeat-delay not below 0")
    if source.lines:
        return None
    if source.stdin:
        return sys.stdin.buffer.read()
    if source.file is not None:
        return _contents(source.file)
    return (source.message or "").encode("utf-8", "surrogateescape")


def _contents(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"-f {file}: {error.strerror}") from error


def _publish_repeatedly(
    client: BlockingClient, topic: str, payload: bytes, source: MessageFlags, publication: dict[str, Any]
) -> None:
    if not source.repeat_delay_s:
        client.publish_many(itertools.repeat((topic, payload), source.repeat), **publication)
        return
    for round_ in range(source.repeat):
        if round_:
            time.sleep(source.repeat_delay_s)
        client.publish(topic, payload, **publication)


def _publish_lines(client: BlockingClient, topic: str, publication: dict[str, Any]) -> None:
    """What has been typed goes out at once; what is piped in goes out by the bufferful."""
    for lines in _arriving_lines(sys.stdin.fileno()):
        client.publish_many([(topic, line) for line in lines], **publication)


def _arriving_lines(descriptor: int) -> Iterator[list[bytes]]:
    unfinished = b""
    while data := os.read(descriptor, READ_BYTES):
        *lines, unfinished = (unfinished + data).split(b"\n")
        if lines:
            yield lines
    if unfinished:
        yield [unfinished]
