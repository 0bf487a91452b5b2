"""Runs decisions that take long (a hash, a question to another service) in threads, not too many."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import structlog

from braidmq.access.verdicts import Admitted, Refused
from braidmq.net.stream import Turn, clock_s

log = structlog.get_logger("braidmq.net")

THREADS: Final = 8
WAITING_MAX: Final = 1024
SERVER_UNAVAILABLE: Final = 0x88
SERVER_BUSY: Final = 0x89

Verdict = Admitted | Refused


class Aside:
    """`aside(work, decided)` calls `work` in a thread and then `decided` with its result on the loop."""

    def __init__(self, turn: Turn, loop: asyncio.AbstractEventLoop) -> None:
        self._turn = turn
        self._loop = loop
        self._pool = ThreadPoolExecutor(THREADS, "braidmq-aside")
        self._waiting = 0

    def __call__(self, work: Callable[[], Verdict], decided: Callable[[Verdict], None]) -> None:
        if self._waiting >= WAITING_MAX:
            busy = Refused(SERVER_BUSY, "too many clients are being authenticated")
            self._loop.call_soon(self._finish, decided, busy)
            return
        self._waiting += 1
        future = self._loop.run_in_executor(self._pool, work)
        future.add_done_callback(lambda done: self._done(done, decided))

    def _done(self, done: "asyncio.Future[Verdict]", decided: Callable[[Verdict], None]) -> None:
        self._waiting -= 1
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            self._finish(decided, done.result())
        else:
            log.error("a client could not be judged", error=repr(error))
            self._finish(decided, Refused(SERVER_UNAVAILABLE, "authentication is out of order"))

    def _finish(self, decided: Callable[[Verdict], None], verdict: Verdict) -> None:
        self._turn.broker.hub.now = clock_s()
        decided(verdict)
        self._turn.begun()

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
