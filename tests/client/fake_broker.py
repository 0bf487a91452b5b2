"""A socket server around the `ModelServer`, in a thread: a broker that does as it is told."""

import asyncio
import ssl
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from braidmq.wire import Connack, Packet, encode
from tests.client.model_server import ModelServer

T = TypeVar("T")


class FakeBroker:
    """One client at a time. The attributes may be set at any time, best through `call`."""

    def __init__(self, model: ModelServer | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.model = model or ModelServer()
        self.refusals: list[Connack] = []  # answers to the next CONNECTs
        self.mute = False  # takes everything and says nothing
        self.connections = 0
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fake broker")
        self._ready = threading.Event()
        self._writer: asyncio.StreamWriter | None = None
        self._server: asyncio.Server
        self._stopping: asyncio.Event
        self.port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.call(lambda: self._stopping.set())
        self._thread.join()
        self._loop.close()

    def call(self, action: Callable[[], T]) -> T:
        """Runs `action` in the server's thread, and sends what comes of it."""
        result: list[T] = []
        done = threading.Event()

        def run() -> None:
            try:
                result.append(action())
                self._flush()
            finally:
                done.set()

        self._loop.call_soon_threadsafe(run)
        done.wait()
        return result[0]

    def send(self, *packets: Packet) -> None:
        def write() -> None:
            assert self._writer is not None
            self._writer.write(b"".join(encode(packet, self.model.version) for packet in packets))

        self.call(write)

    def cut(self, *, lose_session: bool = False) -> None:
        """Resets the client's connection."""

        def abort() -> None:
            if lose_session:
                self.model.lose_session()
            if self._writer is not None:
                self._writer.transport.abort()

        self.call(abort)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        self._stopping = asyncio.Event()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopping.wait()
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self._writer is not None:
            self._writer.transport.abort()
        self._writer = writer
        self.model.disconnect()
        try:
            await self._converse(reader, writer)
        except OSError:
            return  # the client is gone
        finally:
            writer.transport.abort()
            if self._writer is writer:
                self._writer = None
                self.model.disconnect()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if self.mute:
                continue
            if self.refusals and not self.model.connected:
                writer.write(encode(self.refusals.pop(0), 5))
                return
            self.model.receive(data)
            self._flush()
            await writer.drain()

    def _flush(self) -> None:
        if self._writer is not None and not self.mute:
            self._writer.write(self.model.data_to_send())
