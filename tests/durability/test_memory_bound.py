"""A broker with far more queued messages than it may hold in memory: all of them arrive, once and in order.

The clients here are nothing but slices of bytes, because all frames of a kind are of one size.
"""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from braidmq.wire import V5, Connect, Properties, Publish, Subscribe, Subscription, encode
from tests.durability.test_kill_loop import Node

SESSIONS = 4
MESSAGES = int(os.environ.get("BRAIDMQ_QUEUED_MESSAGES", "200000"))
EACH = MESSAGES // SESSIONS
PAYLOAD_BYTES = 1024
BOUND_BYTES = 8 * 1024 * 1024
WINDOW = 1000
LASTING = Properties(session_expiry_s=0xFFFFFFFF, receive_maximum=WINDOW)
PUBACK_BYTES = 4
GROWTH_BYTES_MAX = 60_000_000  # of the 200,000,000 that wait


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def frame_of(session: int, number: int, packet_id: int) -> bytes:
    payload = b"%08d" % number + bytes(PAYLOAD_BYTES - 8)
    return encode(Publish(f"t/{session}", payload, 1, packet_id=packet_id), V5)


def dial(port: int, client_id: str, properties: Properties) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), timeout=60)
    sock.sendall(encode(Connect(client_id, False, 0, properties=properties), V5))
    return sock


def packet_from(sock: socket.socket) -> bytes:
    """The next packet; it must be shorter than 128 bytes."""
    head = receive(sock, 2)
    return head + receive(sock, head[1])


def receive(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = sock.recv(count - len(data))
        assert part, "the broker has hung up"
        data += part
    return data


def subscribe(port: int, session: int) -> None:
    """Make a session that lasts, and leave it."""
    with dial(port, f"s{session}", LASTING) as sock:
        assert packet_from(sock)[0] == 0x20
        sock.sendall(encode(Subscribe(1, (Subscription(f"t/{session}", 1),)), V5))
        assert packet_from(sock)[-1] == 1


def publish_all(port: int) -> None:
    """Publish `EACH` messages to each session, in turn; all of them are acknowledged."""
    with dial(port, "publisher", Properties(session_expiry_s=0)) as sock:
        assert packet_from(sock)[0] == 0x20
        pad = bytes(PAYLOAD_BYTES - 8)
        heads = [[frame_of(session, 0, packet_id)[: -PAYLOAD_BYTES] for packet_id in range(1, WINDOW + 1)]
                 for session in range(SESSIONS)]
        for begin in range(0, EACH, WINDOW // SESSIONS):
            batch = [(session, number) for number in range(begin, min(EACH, begin + WINDOW // SESSIONS))
                     for session in range(SESSIONS)]
            frames = [heads[session][place] + b"%08d" % number + pad
                      for place, (session, number) in enumerate(batch)]
            sock.sendall(b"".join(frames))
            answers = receive(sock, PUBACK_BYTES * len(batch))
            assert set(answers[::PUBACK_BYTES]) == {0x40}


def numbers_for(port: int, session: int, last: int) -> Iterator[int]:
    """The messages that a session gets up to number `last`, each acknowledged; then the client vanishes."""
    size = len(frame_of(session, 0, 1))
    at = size - PAYLOAD_BYTES
    with dial(port, f"s{session}", LASTING) as sock:
        assert packet_from(sock)[0] == 0x20
        rest, number = b"", -1
        while number != last:
            part = sock.recv(1 << 20)
            assert part, "the broker has hung up"
            rest += part
            whole = len(rest) // size
            acknowledgements = []
            for begin in range(0, whole * size, size):
                assert rest[begin] & 0xF7 == 0x32, "no PUBLISH of QoS 1"
                acknowledgements.append(b"\x40\x02" + rest[begin + at - 3 : begin + at - 1])
                number = int(rest[begin + at : begin + at + 8])
                yield number
                if number == last:
                    break
            sock.sendall(b"".join(acknowledgements))
            rest = rest[whole * size :]


@pytest.mark.timeout(300)
def test_queued_messages_live_on_disk(tmp_path: Path) -> None:
    config = tmp_path / "broker.toml"
    config.write_text(f"[store]\nqueue_memory_bytes_max = {BOUND_BYTES}\n")
    node = Node(tmp_path / "data", "--config", str(config), "--limit", f"receive_maximum={WINDOW}",
                "--limit", f"inflight_max={WINDOW}")
    try:
        for session in range(SESSIONS):
            subscribe(node.port, session)
        before_bytes = resident_bytes(node.broker.process.pid)
        publish_all(node.port)
        assert resident_bytes(node.broker.process.pid) - before_bytes < GROWTH_BYTES_MAX
        assert list(numbers_for(node.port, 0, EACH - 1)) == list(range(EACH))
        got = list(numbers_for(node.port, 1, EACH // 2))
        assert got == list(range(EACH // 2 + 1))

        node.restart()
        assert resident_bytes(node.broker.process.pid) - before_bytes < GROWTH_BYTES_MAX
        rest = list(numbers_for(node.port, 1, EACH - 1))
        assert rest[0] <= len(got) <= rest[0] + WINDOW  # what was under way is sent again, nothing else is
        assert rest == list(range(rest[0], EACH))
        assert list(numbers_for(node.port, 2, EACH - 1)) == list(range(EACH))
        assert resident_bytes(node.broker.process.pid) - before_bytes < GROWTH_BYTES_MAX
    finally:
        node.kill()


GROUP_MESSAGES = 40_000
GROUP_GROWTH_BYTES_MAX = 30_000_000  # of the 55,000,000 that wait


def publish_to_group(port: int) -> None:
    head_bytes = len(frame_of(0, 0, 1)) - PAYLOAD_BYTES
    with dial(port, "publisher", Properties(session_expiry_s=0)) as sock:
        assert packet_from(sock)[0] == 0x20
        heads = [frame_of(0, 0, packet_id)[:head_bytes] for packet_id in range(1, WINDOW + 1)]
        pad = bytes(PAYLOAD_BYTES - 8)
        for begin in range(0, GROUP_MESSAGES, WINDOW):
            sock.sendall(b"".join(head + b"%08d" % (begin + place) + pad for place, head in enumerate(heads)))
            answers = receive(sock, PUBACK_BYTES * WINDOW)
            assert set(answers[::PUBACK_BYTES]) == {0x40}
            assert set(answers[1::PUBACK_BYTES]) == {2}, "refused"


@pytest.mark.timeout(120)
def test_what_waits_in_a_group_lives_on_disk(tmp_path: Path) -> None:
    config = tmp_path / "broker.toml"
    config.write_text(f"[store]\nqueue_memory_bytes_max = {BOUND_BYTES // 4}\n")
    node = Node(tmp_path / "data", "--config", str(config), "--limit", f"receive_maximum={WINDOW}",
                "--limit", f"inflight_max={WINDOW}")
    try:
        with dial(node.port, "s0", LASTING) as sock:
            assert packet_from(sock)[0] == 0x20
            sock.sendall(encode(Subscribe(1, (Subscription("$share/crew/t/0", 1),)), V5))
            assert packet_from(sock)[-1] == 1
        before_bytes = resident_bytes(node.broker.process.pid)
        publish_to_group(node.port)
        assert resident_bytes(node.broker.process.pid) - before_bytes < GROUP_GROWTH_BYTES_MAX
        node.restart()
        assert resident_bytes(node.broker.process.pid) - before_bytes < GROUP_GROWTH_BYTES_MAX
        assert list(numbers_for(node.port, 0, GROUP_MESSAGES - 1)) == list(range(GROUP_MESSAGES))
        assert resident_bytes(node.broker.process.pid) - before_bytes < GROUP_GROWTH_BYTES_MAX
    finally:
        node.kill()
