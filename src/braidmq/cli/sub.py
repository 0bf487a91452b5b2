"""`braidmq sub`: subscribes to topics and prints what comes."""

import random
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

from cyclopts import Parameter

from braidmq.cli.connecting import EXIT_FAILED, Notes, connected
from braidmq.cli.connection import (
    LOCAL_BROKER,
    ConnectionFlags,
    command_properties,
    destination,
    flag,
    require_qos,
)
from braidmq.cli.format import NotJsonError, Render, compile_format
from braidmq.client import BlockingClient, Message
from braidmq.errors import ConfigError, ProtocolError
from braidmq.topics import matches, validate_filter
from braidmq.wire import Subscription

GROUP: Final = "Subscription"
OUTPUT: Final = "Output"
BATCH_MESSAGES: Final = 1_000


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class OutputFlags:
    """What is printed, and when it is enough."""

    verbose: Annotated[bool, flag("-v", "--verbose", text="Print the topic too.", group=OUTPUT)] = False
    format: Annotated[
        str | None,
        flag(
            "-F",
            text="Print each in this form: %t topic, %p payload, %x hex, %j JSON …",
            group=OUTPUT,
            metavar="FORMAT",
        ),
    ] = None
    pretty: Annotated[bool, flag("--pretty", text="Spread JSON over lines.", group=OUTPUT)] = False
    no_newline: Annotated[bool, flag("-N", text="Add no end of line.", group=OUTPUT)] = False
    count: Annotated[
        int | None, flag("-C", text="End after so many messages.", group=OUTPUT, metavar="N")
    ] = None
    timeout_s: Annotated[
        float | None,
        flag(
            "-W",
            text="End after so many seconds; with -C, failing if it has fewer.",
            group=OUTPUT,
            metavar="S",
        ),
    ] = None
    no_retained: Annotated[bool, flag("-R", text="Print no retained messages.", group=OUTPUT)] = False
    retained_only: Annotated[
        bool, flag("--retained-only", text="Print retained messages; end at the first other.", group=OUTPUT)
    ] = False
    remove_retained: Annotated[
        bool, flag("--remove-retained", text="Clear the retained messages that come.", group=OUTPUT)
    ] = False
    filter_out: Annotated[
        list[str] | None,
        flag(
            "-T", "--filter-out", text="Skip topics that match. Repeatable.", group=OUTPUT, metavar="FILTER"
        ),
    ] = None
    random_filter: Annotated[
        float,
        flag("--random-filter", text="Print this percentage, by chance.", group=OUTPUT, metavar="PERCENT"),
    ] = 100.0


PAYLOADS: Final = OutputFlags()


def sub(
    *,
    topics: Annotated[
        list[str] | None,
        flag(
            "-t",
            "--topic",
            text="A topic filter: plant/+/temperature, plant/#. Repeatable.",
            group=GROUP,
            metavar="FILTER",
        ),
    ] = None,
    unsubscribe: Annotated[
        list[str] | None,
        flag(
            "-U",
            "--unsubscribe",
            text="End a subscription of the session. Repeatable.",
            group=GROUP,
            metavar="FILTER",
        ),
    ] = None,
    qos: Annotated[int, flag("-q", "--qos", text="0, 1 or 2 (0).", group=GROUP, metavar="QOS")] = 0,
    retain_as_published: Annotated[
        bool, flag("--retain-as-published", text="Keep the retain flag as it was sent.", group=GROUP)
    ] = False,
    end_when_subscribed: Annotated[
        bool, flag("-E", text="End when the broker has granted the subscriptions.", group=GROUP)
    ] = False,
    output: OutputFlags = PAYLOADS,
    connection: ConnectionFlags = LOCAL_BROKER,
) -> int:
    """Subscribe to topics and print what comes.

    The flags are those of mosquitto_sub: braidmq sub -h broker -t 'plant/#' -q 1 -v. It goes on until Ctrl-C,
    -C or -W ends it, and connects again when the connection breaks.
    """
    where = destination(connection)
    filters = [*(topics or []), *([where.topic] if where.topic else [])]
    _require_filters(filters, unsubscribe or [])
    require_qos(qos, "-q")
    printer = Printer(output)
    note = Notes(connection.debug)
    properties = command_properties(connection)
    with connected(connection, where, manual_ack=True) as client:
        started_s = time.monotonic()
        if filters:
            wanted = [Subscription(text, qos, retain_as_published=retain_as_published) for text in filters]
            granted = client.subscribe(*wanted, properties=properties.subscribe)
            note(f"subscribed, granted QoS {', '.join(map(str, granted))}")
        if unsubscribe:
            client.unsubscribe(*unsubscribe, properties=properties.unsubscribe)
            note(f"unsubscribed from {', '.join(unsubscribe)}")
        if end_when_subscribed:
            return 0
        return _print_all(client, printer, started_s, note)


def _require_filters(filters: list[str], unsubscribe: list[str]) -> None:
    if not filters and not unsubscribe:
        raise ConfigError("sub needs a topic filter: -t FILTER")
    for text in (*filters, *unsubscribe):
        try:
            validate_filter(text)
        except ProtocolError as error:
            raise ConfigError(f"-t {text}: {error.detail}") from error


def _print_all(client: BlockingClient, printer: "Printer", started_s: float, note: Notes) -> int:
    """Print until it is enough; the exit code."""
    end_s = None if printer.timeout_s is None else started_s + printer.timeout_s
    while not printer.done:
        timeout_s = None if end_s is None else end_s - time.monotonic()
        if timeout_s is not None and timeout_s <= 0:
            break
        batch = client.receive_batch(printer.room(BATCH_MESSAGES), timeout_s)
        for message in batch:
            note(f"received {message.topic} ({len(message.payload)} bytes, QoS {message.qos})")
            printer.take(message)
            if printer.removes(message):
                client.publish(message.topic, b"", qos=1, retain=True)
            if printer.done:
                break
        sys.stdout.buffer.flush()
        batch.ack()
    if client.dropped_messages:
        note(f"{client.dropped_messages} QoS 0 messages came faster than they were printed, and were dropped")
    return 0 if printer.satisfied else EXIT_FAILED


class Printer:
    """Decides which messages are shown and counts them; writes to standard output."""

    def __init__(self, flags: OutputFlags) -> None:
        if flags.count is not None and flags.count < 1:
            raise ConfigError(f"-C {flags.count}: expected at least 1")
        if flags.timeout_s is not None and flags.timeout_s <= 0:
            raise ConfigError(f"-W {flags.timeout_s}: expected more than 0 seconds")
        if flags.retained_only and flags.no_retained:
            raise ConfigError("-R and --retained-only exclude each other")
        self.timeout_s = flags.timeout_s
        self.done = False
        self._flags = flags
        self._render = _render(flags)
        self._end = b"" if flags.no_newline else b"\n"
        self._shown = 0

    @property
    def satisfied(self) -> bool:
        """Whether as many came as were asked for."""
        return self._flags.count is None or self._shown >= self._flags.count

    def room(self, most: int) -> int:
        """How many messages may be taken at once, so that none is taken that isn't shown."""
        return most if self._flags.count is None else min(most, self._flags.count - self._shown)

    def removes(self, message: Message) -> bool:
        return self._flags.remove_retained and message.retain and not self._filtered_out(message)

    def take(self, message: Message) -> None:
        """Show a message, if it is wanted."""
        if self._flags.retained_only and not message.retain:
            self.done = True
            return
        if (self._flags.no_retained and message.retain) or self._filtered_out(message):
            return
        self._show(message)
        self._shown += 1
        self.done = self._shown == self._flags.count

    def _filtered_out(self, message: Message) -> bool:
        return any(matches(text, message.topic) for text in self._flags.filter_out or ())

    def _show(self, message: Message) -> None:
        if self._flags.random_filter < 100 and random.random() * 100 >= self._flags.random_filter:
            return
        try:
            sys.stdout.buffer.write(self._render(message, datetime.now().astimezone()) + self._end)
        except NotJsonError as error:
            print(f"braidmq: {error}", file=sys.stderr)


def _render(flags: OutputFlags) -> Render:
    if flags.format is not None:
        return compile_format(flags.format, pretty=flags.pretty)
    if flags.verbose:
        return lambda message, _now: message.topic.encode() + b" " + (bytes(message.payload) or b"(null)")
    return lambda message, _now: bytes(message.payload)
