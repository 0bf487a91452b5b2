"""Runs decisions that take long (a hash, a question to another service) in threads, not too many.

Each kind of work has threads and a queue of its own, so that a service that hangs doesn't keep those out who
have a password. Who comes next is fair (`access.waiting`), and who has gone meanwhile costs nothing more.
"""

import asyncio
import contextlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import inf
from typing import Final

import structlog

from braidmq.access.verdicts import Admitted, Pending, Refused, WorkKind
from braidmq.access.waiting import FairQueue
from braidmq.broker.access import Errand
from braidmq.broker.quotas import AddressRates, network_of
from braidmq.limits import Limits
from braidmq.net.stream import Turn, clock_s

log = structlog.get_logger("braidmq.net")

SERVER_UNAVAILABLE: Final = 0x88
SERVER_BUSY: Final = 0x89
WRONG: Final = frozenset({0x86, 0x87})  # what a guess is answered with; all else is no fault of the client
THREADS: Final[dict[WorkKind, int]] = {
    "password": min(8, os.cpu_count() or 1),  # a hash keeps a core busy for all its time
    "callout": 32,  # waits for the network and costs nothing else
    "policy": 8,
}
BACKGROUND_NICENESS: Final = 10

Verdict = Admitted | Refused


def _step_back() -> None:
    """Let the broker's own thread go first; only Linux can do this for one thread."""
    with contextlib.suppress(AttributeError, OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), BACKGROUND_NICENESS)


class _Pool:
    """The threads of one kind of work, and who waits for one."""

    def __init__(self, kind: WorkKind, limits: Limits, failures: AddressRates | None) -> None:
        self.idle = THREADS[kind]
        self.executor = ThreadPoolExecutor(THREADS[kind], f"braidmq-{kind}", _step_back)
        rests_until = (lambda network, now: now) if failures is None else failures.rests_until
        self.queue: FairQueue[Errand] = FairQueue(limits.logins_waiting_max, rests_until)
        self.wake_up: asyncio.TimerHandle | None = None


class Aside:
    """`aside(errand)` calls the errand's work in a thread, and then its `decided` on the loop."""

    def __init__(self, turn: Turn, loop: asyncio.AbstractEventLoop) -> None:
        self._turn = turn
        self._loop = loop
        limits = turn.broker.limits
        failures_max = limits.address_failed_logins_per_s_max
        self._failures = AddressRates(failures_max) if failures_max else None
        self._pools = {kind: _Pool(kind, limits, self._failures) for kind in THREADS}

    def __call__(self, errand: Errand) -> None:
        pool = self._pools[errand.pending.kind]
        pushed_out = pool.queue.add(network_of(errand.peer), errand.name, errand)
        if pushed_out is not None:
            self._turn.broker.refused_logins += 1
            busy = Refused(SERVER_BUSY, "too many clients are being authenticated")
            self._loop.call_soon(self._finish, pushed_out, busy)
        self._go_on(pool)

    def _go_on(self, pool: _Pool) -> None:
        """Give the idle threads to those whose turn it is."""
        while pool.idle:
            errand = pool.queue.take(clock_s())
            if errand is None:
                break
            if errand.is_wanted():
                self._start(pool, errand)
        if pool.wake_up is not None:
            pool.wake_up.cancel()
            pool.wake_up = None
        if pool.idle and pool.queue.next_at_s < inf:
            delay_s = max(0.0, pool.queue.next_at_s - clock_s())
            pool.wake_up = self._loop.call_later(delay_s, self._go_on, pool)

    def _start(self, pool: _Pool, errand: Errand) -> None:
        pool.idle -= 1
        future = self._loop.run_in_executor(pool.executor, errand.pending.work)
        future.add_done_callback(partial(self._done, pool, errand))

    def _done(self, pool: _Pool, errand: Errand, done: "asyncio.Future[Verdict | Pending]") -> None:
        pool.idle += 1
        if done.cancelled():
            return
        found = self._result(done)
        if isinstance(found, Pending):
            self(errand.with_next(found))
        else:
            if isinstance(found, Refused) and found.reason in WRONG and self._failures is not None:
                self._failures.spend(network_of(errand.peer), clock_s())
            self._finish(errand, found)
        self._go_on(pool)

    def _result(self, done: "asyncio.Future[Verdict | Pending]") -> Verdict | Pending:
        error = done.exception()
        if error is None:
            return done.result()
        log.error("a client could not be judged", error=repr(error))
        return Refused(SERVER_UNAVAILABLE, "authentication is out of order")

    def _finish(self, errand: Errand, verdict: Verdict) -> None:
        self._turn.broker.turn(clock_s())
        errand.decided(verdict)
        self._turn.begun()

    def stop(self) -> None:
        for pool in self._pools.values():
            if pool.wake_up is not None:
                pool.wake_up.cancel()
            pool.executor.shutdown(wait=False, cancel_futures=True)
