"""One asyncio transport under a session: bytes in, bytes out, one timer.

Writes are gathered: whatever the session has to say in one turn of the loop leaves in one write. Reads go
into one scratch buffer per event loop, because the session keeps no more than an incomplete frame of it.
"""

import asyncio
import weakref
from collections.abc import Callable
from math import inf
from typing import cast

from braidmq.client.errors import ClientError, ConnectionLostError
from braidmq.client.events import Closed, Connected, Event, ResubscribeRefused
from braidmq.client.session import Session

SCRATCH_BYTES = 256 * 1024
GATHERED_BYTES_MAX = 64 * 1024  # more than this is not kept back until the end of the turn
CLOSING_TIMEOUT_S = 5.0  # for the peer to take our last bytes

_scratch: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, memoryview]" = weakref.WeakKeyDictionary()


def _scratch_of(loop: asyncio.AbstractEventLoop) -> memoryview:
    if loop not in _scratch:
        _scratch[loop] = memoryview(bytearray(SCRATCH_BYTES))
    return _scratch[loop]


class Link(asyncio.BufferedProtocol):
    def __init__(self, session: Session, handle: Callable[[list[Event]], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._session = session
        self._handle = handle
        self._buffer = _scratch_of(self._loop)
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_s = inf
        self._flush_handle: asyncio.Handle | None = None
        self._abort_timer: asyncio.TimerHandle | None = None
        self._reading = True
        self.writable = asyncio.Event()
        self.established: asyncio.Future[None] = self._loop.create_future()
        self.lost: asyncio.Future[ClientError] = self._loop.create_future()
        self.error: ClientError | None = None  # why it ended, if the session knows

    # -- called by the transport --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one without being a subclass
        self.writable.set()
        self._session.connect(self._loop.time())
        self.flush()
        self._arm()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        events = self._session.receive(self._buffer[:nbytes], self._loop.time())
        self.flush()
        if events:
            self._dispatch(events)
        self.watch_status()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        for handle in (self._timer, self._flush_handle, self._abort_timer):
            if handle is not None:
                handle.cancel()
        self._transport = None
        self._session.connection_lost()
        self.writable.set()  # whoever waits has to look again
        error = self.error or ConnectionLostError(f"the connection was lost: {exc or 'closed by the server'}")
        if not self.lost.done():
            self.lost.set_result(error)
        if not self.established.done():
            self.established.set_exception(error)
            self.established.exception()  # whoever waited may have gone; that is no error of its own

    def _dispatch(self, events: list[Event]) -> None:
        """What concerns the connection is for us; the rest, and all of it, is for the client."""
        for event in events:
            if isinstance(event, Connected):
                self._rearm()  # until now the timer was for CONNACK
                self.established.set_result(None)
            elif isinstance(event, Closed):
                self._end(event.error)
            elif isinstance(event, ResubscribeRefused):
                self._session.disconnect()
                self._end(event.error)
        self._handle(events)

    def _end(self, error: ClientError) -> None:
        self.error = error
        self.close()

    # -- called by the client -----------------------------------------------------------------------------

    def flush_soon(self) -> None:
        """Writes at the end of this turn of the loop, with whatever else comes up until then."""
        if self._session.unsent_bytes > GATHERED_BYTES_MAX:
            self.flush()
        elif self._flush_handle is None:
            self._flush_handle = self._loop.call_soon(self.flush)

    def flush(self) -> None:
        if self._flush_handle is not None:
            self._flush_handle.cancel()
            self._flush_handle = None
        data = self._session.data_to_send(self._loop.time())
        if data and self._transport is not None:
            self._transport.write(data)

    def set_reading(self, reading: bool) -> None:
        if reading == self._reading or self._transport is None:
            return
        self._reading = reading
        if reading:
            self._session.reading_resumed(self._loop.time())
            self._transport.resume_reading()
            self._rearm()
        else:
            self._session.reading_paused()
            self._transport.pause_reading()
            self.watch_status()

    def close(self) -> None:
        """Ends the connection once what is left to say has been said."""
        if self._transport is None:
            return
        self.flush()
        self._transport.close()
        if self._abort_timer is None:
            self._abort_timer = self._loop.call_later(CLOSING_TIMEOUT_S, self.abort)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def discard(self) -> None:
        """Ends the connection now, and comes back when nothing is left of it."""
        if self._transport is not None:
            self._transport.abort()
            await asyncio.wait([self.lost])

    # -- time ---------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """One timer: it may be early, because traffic only moves the deadline away; then it is set again."""
        deadline = self._session.deadline(reading=self._reading)
        self._timer = None if deadline is None else self._loop.call_at(deadline, self._tick)
        self._timer_at_s = inf if deadline is None else deadline

    def watch_status(self) -> None:
        """Only a status report can become due sooner than was thought: something has changed the queue.

        It leaves by the timer, not at once: whoever takes the messages that have just come goes first.
        """
        due_s = self._session.reporter.due_at_s()
        if due_s is not None and due_s < self._timer_at_s and self._transport is not None:
            self._rearm()

    def _rearm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._arm()

    def _tick(self) -> None:
        events = self._session.advance(self._loop.time(), reading=self._reading)
        self.flush()
        self._arm()
        if events:
            self._dispatch(events)
