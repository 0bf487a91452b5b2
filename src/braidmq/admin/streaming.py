"""A trace as server-sent events: one JSON object an event, as it happens.

What the reader doesn't take in time is dropped and counted, never gathered without bound: the broker doesn't
wait for an onlooker. Looking has a price, because no message takes the fast lane meanwhile; so all traces
together look at so many messages a second, and then rest, with every message as fast as before.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from braidmq.admin.desk import Desk, RefusedError
from braidmq.broker.events import Event
from braidmq.broker.tracing import Trace, add_trace, remove_trace
from braidmq.errors import ProtocolError
from braidmq.topics import validate_filter

WAITING_MAX: Final = 10_000
TRACES_MAX: Final = 8
REST_S: Final = 1.0  # long enough for a budget of a second to fill up again
QUIET_S: Final = 10.0  # after so long without an event a comment shows that the connection lives


class Stream:
    """What is told to one onlooker and not yet read."""

    def __init__(self, desk: Desk, client_id: str, filter: str) -> None:
        self._desk = desk
        self._broker = desk.broker
        _refuse_wrong(desk, client_id, filter)
        self._waiting: asyncio.Queue[tuple[float, Event] | None] = asyncio.Queue(WAITING_MAX)
        self._lost = 0  # events that could not be shown
        self._unseen = 0  # messages that passed while it rested
        self._is_resting = False
        self._is_over = False
        self._trace = Trace(self._note, client_id=client_id or None, filter=filter or None)

    def _heeds(self, topic: bytes, publisher: str | None, client_id: str | None) -> bool:
        if self._is_resting:
            return False
        if not self._desk.looks.take_one(self._broker.hub.now):
            self._rest()
            return False
        return self._trace.heeds(topic, publisher, client_id)

    def _note(self, event: Event) -> None:
        if self._waiting.full():
            self._lost += 1
        elif self._desk.shown.take_one(self._broker.hub.now):
            self._waiting.put_nowait((time.time(), event))
        else:
            self._lost += 1
            self._rest()

    def _rest(self) -> None:
        """Look at nothing for a while: messages take the fast lane again."""
        if not self._is_resting:
            self._is_resting = True
            remove_trace(self._broker, self._trace)
            passed = self._broker.hub.counters.by_name()["publishes_received"]
            asyncio.get_running_loop().call_later(REST_S, self._look_again, passed)

    def _look_again(self, passed: int) -> None:
        self._is_resting = False
        if self._is_over:
            return
        self._unseen += self._broker.hub.counters.by_name()["publishes_received"] - passed
        add_trace(self._broker, self._trace, self._heeds)
        self._nudge()

    def _nudge(self) -> None:
        if self._waiting.empty():  # else somebody is about to look anyway
            self._waiting.put_nowait(None)

    async def events(self) -> AsyncIterator[bytes]:
        """The events, as text; the trace is on while this is iterated."""
        add_trace(self._broker, self._trace, self._heeds)
        self._desk.onlookers.add(self._end)
        try:
            yield b": the trace has begun\n\n"
            while not self._is_over:
                yield await self._next()
                if self._lost:
                    lost, self._lost = self._lost, 0
                    yield b'event: lost\ndata: {"lost":%d}\n\n' % lost
                if self._unseen:
                    unseen, self._unseen = self._unseen, 0
                    yield b'event: unseen\ndata: {"unseen":%d}\n\n' % unseen
        finally:
            self._is_over = True
            self._desk.onlookers.discard(self._end)
            remove_trace(self._broker, self._trace)

    def _end(self) -> None:
        self._is_over = True
        self._nudge()

    async def _next(self) -> bytes:
        try:
            async with asyncio.timeout(QUIET_S):
                found = await self._waiting.get()
        except TimeoutError:
            return b": nothing happens\n\n"
        if found is None:
            return b": the broker stops\n\n" if self._is_over else b": looking again\n\n"
        at_s, event = found
        shown = {"at_s": round(at_s, 6), **msgspec.to_builtins(event)}
        shown.pop("payload", None)  # how messages go their way is shown, not what they say
        return b"data: " + msgspec.json.encode(shown) + b"\n\n"


def _refuse_wrong(desk: Desk, client_id: str, filter: str) -> None:
    limits = desk.broker.limits
    if not client_id and not filter:
        raise RefusedError(400, "client_id or filter is needed")
    if filter:
        try:
            validate_filter(filter, bytes_max=limits.topic_bytes_max, levels_max=limits.topic_levels_max)
        except ProtocolError as error:
            raise RefusedError(400, f"filter: {error.detail}") from error
    if len(desk.onlookers) >= TRACES_MAX:
        raise RefusedError(429, f"there are {TRACES_MAX} traces already")
