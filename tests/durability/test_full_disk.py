"""A broker whose disk is full: it refuses what it can't keep, serves what needs no disk, and recovers."""

import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from braidmq.store.log import path_of
from braidmq.wire import (
    Connack,
    Packet,
    Properties,
    Puback,
    Publish,
    Pubrec,
    ReasonCode,
    Suback,
    Subscribe,
    Subscription,
)
from tests.durability.clients import FOR_EVER, Wire, run
from tests.durability.test_kill_loop import Node

DISK_BYTES = 2 * 1024 * 1024


class Talker(Wire):
    """A client that notes all packets."""

    def __init__(self, client_id: str, properties: Properties) -> None:
        super().__init__(client_id, properties=properties)
        self.packets: list[Packet] = []

    def on_packet(self, packet: Packet) -> None:
        self.packets.append(packet)
        if isinstance(packet, Publish) and packet.qos:
            self.send(Puback(packet.packet_id))

    def ask(self, packet: Packet, kind: type) -> list[Packet]:
        """Send a packet and wait for an answer of that kind."""
        self.packets.clear()
        self.send(packet)
        assert run([self], lambda: any(isinstance(found, kind) for found in self.packets), 600)
        return self.packets


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    mount = shutil.which("mount")
    where = tmp_path / "disk"
    where.mkdir()
    if mount is None or os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    command = [mount, "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(where)]
    if subprocess.run(command, check=False).returncode:
        pytest.skip("no tmpfs can be mounted here")
    yield where
    subprocess.run(["umount", str(where)], check=True)


def connected(node: Node, client_id: str, properties: Properties = FOR_EVER) -> Talker:
    talker = Talker(client_id, properties)
    talker.connect(node.port)
    assert run([talker], lambda: isinstance(talker.connack, Connack))
    return talker


@pytest.mark.timeout(120)
def test_a_full_disk_is_told_to_publishers_and_nothing_acknowledged_is_lost(disk: Path) -> None:
    node = Node(disk / "data")
    subscriber, publisher = connected(node, "subscriber"), connected(node, "publisher", Properties())
    observer = connected(node, "observer", Properties())
    try:
        subscriber.ask(Subscribe(1, (Subscription("t", 1),)), Suback)
        subscriber.close()
        observer.ask(Subscribe(1, (Subscription("live", 0),)), Suback)
        filler = disk / "filler"
        acknowledged, refused = publish_until_refused(publisher, partial(fill, filler))
        assert refused.reason == ReasonCode.QUOTA_EXCEEDED
        [answer] = publisher.ask(Publish("t", b"x", 2, packet_id=60_000), Pubrec)
        assert isinstance(answer, Pubrec)
        assert answer.reason == ReasonCode.QUOTA_EXCEEDED

        late = connected(node, "late", Properties())  # QoS 0 goes on, for newcomers too
        late.ask(Subscribe(1, (Subscription("live", 0),)), Suback)
        publisher.send(Publish("live", b"now"))
        for talker in (observer, late):
            assert run([talker], lambda: any(isinstance(p, Publish) for p in talker.packets))  # noqa: B023
        late.close()

        filler.unlink()
        held = Puback(refused.packet_id - 1)  # what was under way when the disk filled up is kept after all
        assert run([publisher], lambda: held in publisher.packets or held.packet_id in acknowledged)
        acknowledged = [*dict.fromkeys([*acknowledged, held.packet_id])]
        while not accepted(publisher, 50_000):
            pass
        acknowledged.append(50_000)
        node.restart()
        subscriber.connect(node.port)
        assert run([subscriber], lambda: payloads(subscriber)[-1:] == [b"50000"])
        assert payloads(subscriber) == [str(number).encode() for number in acknowledged]
    finally:
        for talker in (subscriber, publisher, observer):
            talker.close()
        node.kill()


@pytest.mark.timeout(120)
def test_a_file_that_may_not_grow_is_like_a_full_disk(tmp_path: Path) -> None:
    """For those who may not mount anything: the limit is on the size of the broker's files."""
    node = Node(tmp_path / "data")
    pid = node.broker.process.pid
    subscriber, publisher = connected(node, "subscriber"), connected(node, "publisher", Properties())
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    try:
        subscriber.ask(Subscribe(1, (Subscription("t", 1),)), Suback)
        subscriber.close()
        newest = path_of(tmp_path / "data", 1)
        acknowledged, refused = publish_until_refused(
            publisher,
            lambda: resource.prlimit(pid, resource.RLIMIT_FSIZE, (newest.stat().st_size + 20, hard)),
        )
        assert refused.reason == ReasonCode.QUOTA_EXCEEDED
        assert f"{newest}: can't be written: File too large" in node.broker.log()
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
        held = Puback(refused.packet_id - 1)
        assert run([publisher], lambda: held in publisher.packets or held.packet_id in acknowledged)
        acknowledged = [*dict.fromkeys([*acknowledged, held.packet_id])]
        while not accepted(publisher, 50_000):
            pass
        node.restart()
        subscriber.connect(node.port)
        assert run([subscriber], lambda: payloads(subscriber)[-1:] == [b"50000"])
        assert payloads(subscriber) == [str(number).encode() for number in [*acknowledged, 50_000]]
    finally:
        for talker in (subscriber, publisher):
            talker.close()
        node.kill()


def publish_until_refused(publisher: Talker, block: Callable[[], object]) -> tuple[list[int], Puback]:
    """Publish one by one; after some, `block` makes it impossible. What was accepted, and the refusal."""
    acknowledged: list[int] = []
    for number in range(1, 20_000):
        if number == 20:
            block()
        publisher.send(Publish("t", str(number).encode(), 1, packet_id=number))
        answered = run(
            [publisher], lambda: any(p.packet_id == number for p in answers(publisher)), 20  # noqa: B023
        )
        if not answered:
            continue  # held: the write that failed is tried again and again
        [answer] = [found for found in answers(publisher) if found.packet_id == number]
        if answer.reason >= 0x80:
            return acknowledged, answer
        acknowledged.append(number)
    pytest.fail("the disk never filled up")


def answers(publisher: Talker) -> list[Puback]:
    return [packet for packet in publisher.packets if isinstance(packet, Puback)]


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


def accepted(publisher: Talker, packet_id: int) -> bool:
    found = publisher.ask(Publish("t", str(packet_id).encode(), 1, packet_id=packet_id), Puback)
    return all(packet.reason < 0x80 for packet in found if isinstance(packet, Puback))


def payloads(talker: Talker) -> list[bytes]:
    return [packet.payload for packet in talker.packets if isinstance(packet, Publish)]
