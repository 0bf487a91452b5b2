"""`serve --workers N`: one broker of N processes, each a node of a cluster of their own, behind one port.

The supervisor opens the sockets at which clients and siblings connect, and gives them to every worker: so no
connection is refused while a worker starts again, and all know where the others are. It starts workers, and
starts those again that end, and passes signals on. It handles no client and no message.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import structlog

from braidmq.config import Config
from braidmq.errors import ConfigError, StoreError
from braidmq.net.accepted import address_text
from braidmq.net.binding import bound_sockets, cant_listen
from braidmq.net.gate import make_gate
from braidmq.net.identity import replace_file
from braidmq.net.keepalive import keep_alive
from braidmq.worker import VARIABLE, Worker

log = structlog.get_logger("braidmq.workers")

MANIFEST_NAME: Final = "workers.json"
OWNER_ONLY: Final = 0o600
RESTART_MIN_S: Final = 0.1
RESTART_MAX_S: Final = 5.0
LASTING_S: Final = 10.0  # who has run for so long starts again at once
STOP_S: Final = 15.0  # before a worker that doesn't stop is killed

OnReady = Callable[[list[str]], None]


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which workers a data directory is for. What waits for siblings on disk is marked by their secret."""

    count: int
    secret: str


def claim_directory(directory: Path | None, count: int) -> str:
    """Make sure that a data directory is one of so many workers, each of which has a part of the sessions.

    Returns what only these workers know.
    """
    fresh = Manifest(count, secrets.token_hex(32))
    if directory is None:
        return fresh.secret
    path = directory / MANIFEST_NAME
    try:
        if path.exists():
            found = msgspec.json.decode(path.read_bytes(), type=Manifest)
        elif count == 1:
            return fresh.secret
        elif directory.exists() and any(directory.iterdir()):
            found = Manifest(1, "")
        else:
            directory.mkdir(parents=True, exist_ok=True)
            replace_file(path, msgspec.json.encode(fresh), OWNER_ONLY)
            return fresh.secret
    except (OSError, msgspec.DecodeError) as error:
        raise StoreError(
            f"{path}: can't be read ({error}); restore it, or take another --data-dir"
        ) from error
    if found.count != count:
        raise ConfigError(
            f"[workers] count: the data in {directory} is of --workers {found.count}, not {count}, and can't "
            f"be divided anew yet: start with --workers {found.count}, or with another --data-dir"
        )
    return found.secret


class Opened(NamedTuple):
    """What the workers share, or find each other by."""

    listening: list[socket.socket]
    links: list[socket.socket]
    doors: str
    secret: str


def run(config: Config, command: list[str], on_ready: OnReady) -> bool:
    """Run `[workers] count` processes of `command` until SIGTERM or SIGINT; whether they ever served.

    `on_ready` gets the addresses at which they listen. What is wrong with users or rules is told once, here.
    """
    make_gate(config)
    secret = claim_directory(config.store.directory, config.workers.count)
    return asyncio.run(_supervise(config, secret, command, on_ready))


async def _supervise(config: Config, secret: str, command: list[str], on_ready: OnReady) -> bool:
    listening = await _bind(config)
    links = [socket.create_server(("127.0.0.1", 0)) for _ in range(config.workers.count)]
    doors = tempfile.mkdtemp(prefix="braidmq-doors-")  # nobody else may look into it
    try:
        return await Supervisor(command, Opened(listening, links, doors, secret)).run(on_ready)
    finally:
        shutil.rmtree(doors, ignore_errors=True)


async def _bind(config: Config) -> list[socket.socket]:
    listening: list[socket.socket] = []
    for listener in config.listeners:
        try:
            listening += await bound_sockets(listener.host, listener.port)
        except OSError as error:
            raise cant_listen(error, listener.host, listener.port, "--port") from error
    keep_alive(listening)
    return listening


class Supervisor:
    """Starts workers, and starts those again that end."""

    def __init__(self, command: list[str], opened: Opened) -> None:
        self._command = command
        self._opened = opened
        self._siblings = tuple(address_text(link.getsockname()) for link in opened.links)
        self._lifeline, self._life = os.pipe()  # nobody but this process has its other end
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._serving: dict[int, list[str]] = {}  # where those listen that do
        self._hearing: set[asyncio.Task[None]] = set()
        self._all_serve = asyncio.Event()
        self._stopping = asyncio.Event()

    async def run(self, on_ready: OnReady) -> bool:
        """Until a signal ends it, or a worker that can't even start."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        tending = [asyncio.ensure_future(self._tend(index)) for index in range(len(self._siblings))]
        telling = asyncio.ensure_future(self._tell(on_ready))
        await self._stopping.wait()
        telling.cancel()
        _, late = await asyncio.wait(tending, timeout=STOP_S)
        if late:
            log.warning("a worker does not stop and is killed", workers=len(late))
            self._signal(self._processes, signal.SIGKILL)
        await asyncio.gather(*tending, *self._hearing)
        os.close(self._life)
        os.close(self._lifeline)
        return self._all_serve.is_set()

    async def _tell(self, on_ready: OnReady) -> None:
        await self._all_serve.wait()
        on_ready(self._serving.get(0, []))

    def _stop(self) -> None:
        self._stopping.set()
        self._signal(self._processes, signal.SIGTERM)

    def _reload(self) -> None:
        self._signal(self._serving, signal.SIGHUP)  # who has yet to start reads what there is now

    def _signal(
        self, workers: dict[int, asyncio.subprocess.Process] | dict[int, list[str]], number: int
    ) -> None:
        for index in workers:
            with contextlib.suppress(ProcessLookupError):
                self._processes[index].send_signal(number)

    async def _tend(self, index: int) -> None:
        """Keep one worker running until all are to stop."""
        loop = asyncio.get_running_loop()
        pause_s = RESTART_MIN_S
        while not self._stopping.is_set():
            began_s = loop.time()
            process = self._processes[index] = await self._start(index)
            if self._stopping.is_set():  # since it was begun
                self._stop()
            code = await process.wait()
            self._serving.pop(index, None)
            if self._stopping.is_set():
                return
            if not self._all_serve.is_set():  # it can't start, and has said why
                self._stop()
                return
            pause_s = RESTART_MIN_S if loop.time() - began_s >= LASTING_S else min(2 * pause_s, RESTART_MAX_S)
            log.error("a worker has ended and is started again", worker=index, code=code, in_s=pause_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stopping.wait()

    async def _start(self, index: int) -> asyncio.subprocess.Process:
        ready, told = os.pipe()
        worker = self._worker(index, told)
        inherited = (*worker.listeners, worker.link, worker.ready, worker.lifeline)
        environment = os.environ | {VARIABLE: msgspec.json.encode(worker).decode()}
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.DEVNULL, pass_fds=inherited, env=environment
            )
        finally:
            os.close(told)  # the worker's own is the last: the pipe ends with it
        hearing = asyncio.ensure_future(self._hear(index, ready))
        self._hearing.add(hearing)
        hearing.add_done_callback(self._hearing.discard)
        return process

    def _worker(self, index: int, ready: int) -> Worker:
        return Worker(
            index=index,
            count=len(self._siblings),
            listeners=tuple(one.fileno() for one in self._opened.listening),
            link=self._opened.links[index].fileno(),
            siblings=self._siblings,
            doors=self._opened.doors,
            secret=self._opened.secret,
            ready=ready,
            lifeline=self._lifeline,
        )

    async def _hear(self, index: int, ready: int) -> None:
        """Note that a worker serves, when it says so."""
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ready, "rb", buffering=0)
        )
        line = await reader.readline()
        transport.close()
        if line:
            self._serving[index] = msgspec.json.decode(line, type=list[str])
            if len(self._serving) == len(self._siblings):
                self._all_serve.set()
