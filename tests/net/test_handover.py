"""Sockets that are passed between workers, by doors that share one event loop."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from braidmq.net.handover import Door, owner_of
from braidmq.wire import V5, V311, Connect, encode
from tests.broker.world import World

WORKERS = 2


class Workers:
    """Doors of siblings, what each has adopted, and a way to connect to one of them."""

    def __init__(self, directory: Path, limits: dict[str, int]) -> None:
        self.brokers = [World(**limits).broker for _ in range(WORKERS)]
        self.adopted: list[list[tuple[socket.socket, str]]] = [[] for _ in range(WORKERS)]
        self.doors = [
            Door(self.brokers[worker], worker, WORKERS, directory, self._adopter(worker))
            for worker in range(WORKERS)
        ]
        self.clients: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))

    def _adopter(self, worker: int) -> Callable[[socket.socket, str], None]:
        return lambda accepted, peer: self.adopted[worker].append((accepted, peer))

    def connect(self, door: int) -> socket.socket:
        """A client whose connection this door's worker has accepted."""
        client = socket.create_connection(self._listening.getsockname())
        client.setblocking(False)
        self.clients.append(client)
        accepted, _ = self._listening.accept()
        self.doors[door].arrived(accepted, "10.0.0.9:1234")
        return client

    def close(self) -> None:
        self._listening.close()
        for door in self.doors:
            door.close()
        for one in [*self.clients, *(accepted for found in self.adopted for accepted, _ in found)]:
            one.close()


@pytest.fixture
def run(tmp_path):
    """Run a story with workers."""

    def run_story(story, **limits):
        async def told():
            workers = Workers(tmp_path, limits)
            try:
                await asyncio.wait_for(story(workers), 30)
            finally:
                workers.close()

        asyncio.run(told())

    return run_story


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def client_id_of(owner: int) -> str:
    return next(name for name in map(str, range(100)) if owner_of(name.encode(), WORKERS) == owner)


def connect_of(owner: int, version: int = V5) -> bytes:
    return encode(Connect(client_id_of(owner), version=version), version)


def test_a_client_comes_to_its_owner_whoever_accepts_it(run):
    async def story(workers):
        for door in range(WORKERS):
            for owner in range(WORKERS):
                client, before = workers.connect(door), len(workers.adopted[owner])
                client.send(connect_of(owner))
                await until(lambda owner=owner, before=before: len(workers.adopted[owner]) > before)
                accepted, peer = workers.adopted[owner][-1]
                assert accepted.recv(1000) == connect_of(owner)  # nobody has read it before
                assert peer == "10.0.0.9:1234"
                accepted.send(b"hello")
                assert client.recv(10) == b"hello"

    run(story)


def test_a_connect_that_comes_byte_by_byte_is_waited_for(run):
    async def story(workers):
        client = workers.connect(0)
        for byte in connect_of(1):
            assert not workers.adopted[1]
            client.send(bytes([byte]))
            await asyncio.sleep(0)
        await until(lambda: len(workers.adopted[1]) == 1)
        assert workers.adopted[1][0][0].recv(1000) == connect_of(1)
        assert workers.brokers[0].handshakes == len(workers.brokers[0].newcomers) == 0

    run(story)


def test_who_has_no_name_or_sends_no_connect_stays(run):
    async def story(workers):
        for data in (
            encode(Connect("", version=V5), V5),
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x10\xff\xff\xff\xff\x7f",
        ):
            before = len(workers.adopted[1])
            workers.connect(1).send(data)
            await until(lambda before=before: len(workers.adopted[1]) > before)
            assert not workers.adopted[0]

    run(story)


def test_who_ends_in_the_middle_of_its_connect_is_forgotten(run):
    async def story(workers):
        client = workers.connect(0)
        client.send(connect_of(1)[:5])
        await until(lambda: workers.brokers[0].handshakes == 1)
        client.shutdown(socket.SHUT_WR)
        await until(lambda: workers.brokers[0].handshakes == 0)
        assert not any(workers.adopted)

    run(story)


def test_who_says_nothing_is_closed_in_time(run):
    async def story(workers):
        client = workers.connect(0)
        await until(lambda: workers.brokers[0].handshakes == 0)
        assert client.recv(10) == b""

    run(story, connect_timeout_s=1)


def test_the_oldest_on_the_doorstep_gives_way(run):
    async def story(workers):
        clients = [workers.connect(0) for _ in range(3)]
        assert clients[0].recv(10) == b""
        with pytest.raises(BlockingIOError):
            clients[1].recv(10)

    run(story, connecting_max=2)


def test_a_client_whose_owner_is_not_there_is_told(run):
    async def story(workers):
        workers.doors.pop().close()
        for version, answer in ((V5, b"\x20\x03\x00\x88\x00"), (V311, b"\x20\x02\x00\x03")):
            client = workers.connect(0)
            client.send(connect_of(1, version))
            received = b""
            while not received:
                await asyncio.sleep(0.001)
                try:
                    received = client.recv(100)
                except BlockingIOError:
                    continue
            assert received == answer
            assert client.recv(10) == b""

    run(story)


def test_a_sibling_that_is_slow_gets_all_in_order(run):
    """The kernel holds only some datagrams; the others wait here."""

    async def story(workers):
        asyncio.get_running_loop().remove_reader(workers.doors[1]._inbox.fileno())
        clients = [workers.connect(0) for _ in range(400)]
        for client in clients:
            client.send(connect_of(1))
        await until(lambda: len(workers.brokers[0].newcomers) == 0)
        assert not workers.adopted[1]
        asyncio.get_running_loop().add_reader(workers.doors[1]._inbox.fileno(), workers.doors[1]._take_passed)
        await until(lambda: len(workers.adopted[1]) == 400)
        workers.adopted[1][0][0].send(b"first")
        assert clients[0].recv(10) == b"first"

    run(story)


def test_owners_are_spread_evenly_and_few_move_with_another_number():
    ids = [b"device-%d" % number for number in range(2000)]
    three = [owner_of(one, 3) for one in ids]
    assert all(550 < three.count(worker) < 780 for worker in range(3))
    moved = sum(owner_of(one, 4) != before for one, before in zip(ids, three, strict=True))
    assert moved < 0.3 * len(ids)
