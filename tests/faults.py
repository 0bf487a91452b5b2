"""A TCP proxy that can stall, cut and drip: what networks do to connections, on demand.

    async with FaultProxy(broker_host, broker_port) as proxy:
        ... connect to proxy.host, proxy.port ...
        proxy.stall()            # nothing moves, nothing is closed; go_on() ends it
        proxy.cut()              # every connection is reset
        proxy.drip(1)            # at most one byte at a time
        proxy.refuse(True)       # new connections are closed at once
        proxy.cut_after(to_client=100)  # each new connection is reset after so many bytes

`FaultProxyThread` is the same for tests without an event loop.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

CHUNK_BYTES = 65_536
NO_LINGER = struct.pack("ii", 1, 0)


class FaultProxy:
    def __init__(self, target_host: str, target_port: int, host: str = "127.0.0.1") -> None:
        self.target = (target_host, target_port)  # of new connections; a broker may come back elsewhere
        self.host = host
        self.port = 0
        self.accepted = 0
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._moving = asyncio.Event()
        self._moving.set()
        self._refusing = False
        self._piece_bytes = CHUNK_BYTES
        self._bytes_left: dict[str, int | None] = {"to server": None, "to client": None}

    # -- faults -------------------------------------------------------------------------------------------

    def stall(self) -> None:
        """From now on no byte moves, and nobody is told."""
        self._moving.clear()

    def go_on(self) -> None:
        self._moving.set()

    def drip(self, piece_bytes: int) -> None:
        """Bytes move in pieces of this size, each in its own turn of the loop."""
        self._piece_bytes = piece_bytes

    def refuse(self, refusing: bool) -> None:
        self._refusing = refusing

    def cut(self) -> None:
        """Resets every connection."""
        for connection in tuple(self._connections):
            connection.reset()

    def cut_after(self, *, to_server: int | None = None, to_client: int | None = None) -> None:
        """Each new connection is reset once so many bytes have passed; None: never."""
        self._bytes_left = {"to server": to_server, "to client": to_client}

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def connections(self) -> int:
        return len(self._connections)

    # -- life ---------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self.host, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        tasks = [connection.task for connection in self._connections]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.accepted += 1
        connection = _Connection(task, writer)
        self._connections.add(connection)
        try:
            await self._relay(connection, reader)
        except (OSError, asyncio.CancelledError):
            pass  # either side is gone, or we are
        finally:
            connection.reset()
            self._connections.discard(connection)

    async def _relay(self, connection: "_Connection", reader: asyncio.StreamReader) -> None:
        if self._refusing:
            return
        server_reader, server_writer = await asyncio.open_connection(*self.target)
        connection.server_writer = server_writer
        directions = [
            asyncio.create_task(self._move(reader, server_writer, "to server")),
            asyncio.create_task(self._move(server_reader, connection.client_writer, "to client")),
        ]
        try:
            # When one side ends, so does the other: MQTT has no half-open connections.
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)

    async def _move(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: str) -> None:
        left = self._bytes_left[direction]
        while data := await reader.read(min(CHUNK_BYTES, self._piece_bytes)):
            await self._moving.wait()
            writer.write(data if left is None else data[:left])
            await writer.drain()
            if left is not None:
                left -= len(data)
                if left <= 0:
                    return
            if self._piece_bytes < CHUNK_BYTES:
                await asyncio.sleep(0)


class _Connection:
    def __init__(self, task: "asyncio.Task[None]", client_writer: asyncio.StreamWriter) -> None:
        self.task = task
        self.client_writer = client_writer
        self.server_writer: asyncio.StreamWriter | None = None

    def reset(self) -> None:
        for writer in (self.client_writer, self.server_writer):
            if writer is not None and not writer.transport.is_closing():
                # Without lingering the kernel sends a RST instead of a FIN: no goodbye.
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
                writer.transport.abort()


class FaultProxyThread:
    """A `FaultProxy` with an event loop of its own, for blocking tests. `call` runs a fault in that loop."""

    def __init__(self, target_host: str, target_port: int) -> None:
        self._target = (target_host, target_port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fault proxy")
        self._ready = threading.Event()
        self._stopping = asyncio.Event()
        self.proxy: FaultProxy

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        self._loop.close()

    def call(self, fault: Callable[[FaultProxy], None]) -> None:
        """`call(FaultProxy.cut)`; comes back when it is done."""
        done = threading.Event()

        def apply() -> None:
            fault(self.proxy)
            done.set()

        self._loop.call_soon_threadsafe(apply)
        done.wait()

    @property
    def address(self) -> str:
        return self.proxy.address

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        async with FaultProxy(*self._target) as self.proxy:
            self._ready.set()
            await self._stopping.wait()
