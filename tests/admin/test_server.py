"""The admin API on a socket: there is an end to the number of callers, and to their silence."""

import asyncio

import pytest

from braidmq.admin import server
from braidmq.admin.server import AdminServer
from tests.admin.operator import make_desk
from tests.broker.world import World


async def opened(admin: AdminServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", int(admin.address.rpartition(":")[2]))


async def test_one_caller_too_many_is_closed_and_the_others_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 2)
    admin = AdminServer(make_desk(World(), port=0))
    admin.start()
    first = await opened(admin)
    first[1].write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert (await first[0].readline()).startswith(b"HTTP/1.1 200")
    second, third = await opened(admin), await opened(admin)
    assert await third[0].read(1) == b""
    for _, writer in (first, second, third):
        writer.close()
    await admin.stop()


async def test_a_caller_that_says_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SILENCE_S", 0.0)
    admin = AdminServer(make_desk(World(), port=0))
    admin.start()
    reader, writer = await opened(admin)
    assert await reader.read(1) == b""
    writer.close()
    await admin.stop()
