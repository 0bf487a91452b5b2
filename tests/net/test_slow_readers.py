"""A subscriber that doesn't read for a while, over every kind of listener: it gets everything afterwards."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from braidmq.wire import V5, Connect, FrameReader, Puback, Publish, Subscribe, Subscription, decode, encode
from tests.net.certificates import Authority
from tests.net.running import serving
from tests.support.raw import TIMEOUT_S, RawClient

MESSAGES = 400
PAYLOAD = b"x" * 20_000
RECEIVE_BYTES = 16 * 1024  # so little that the broker can't give everything to the kernel


def small_socket(port: int) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    made.settimeout(TIMEOUT_S)
    made.connect(("127.0.0.1", port))
    return made


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("slow"))


@pytest.fixture(scope="module")
def ports(authority: Authority) -> Iterator[dict[str, int]]:
    certificate, key = authority.issue("server", "localhost")
    tls = {"certificate": str(certificate), "key": str(key)}
    web = {"protocol": "websocket"}
    names = ("mqtt", "mqtts", "ws", "wss")
    with serving([{}, tls, web, web | tls]) as (_, found):
        yield dict(zip(names, found, strict=True))


class Slow:
    """A client of any kind, given how it sends and receives bytes."""

    def __init__(self, kind: str, port: int, trusted: Path) -> None:
        plain = small_socket(port)
        is_secure = kind in ("mqtts", "wss")
        context = ssl.create_default_context(cafile=str(trusted)) if is_secure else None
        if kind.startswith("mqtt"):
            wrapped = context.wrap_socket(plain, server_hostname="localhost") if context else plain
            self.send, self.receive = wrapped.sendall, lambda: wrapped.recv(65_536)
        else:
            scheme = "wss" if context else "ws"
            opening = connect(
                f"{scheme}://localhost:{port}/mqtt",
                subprotocols=[Subprotocol("mqtt")],
                sock=plain,
                ssl=context,
                max_queue=1,
                max_size=None,
            )
            web = opening.__enter__()
            self.send, self.receive = web.send, lambda: web.recv(TIMEOUT_S)
        self._reader = FrameReader(1 << 28)

    def packets(self, count: int) -> list[object]:
        found: list[object] = []
        while len(found) < count:
            found += [decode(first, body, V5) for first, body in self._reader.frames()]
            if len(found) < count:
                self._reader.feed(self.receive())
        return found


@pytest.mark.parametrize("kind", ["mqtt", "mqtts", "ws", "wss"])
def test_a_slow_reader_gets_everything_in_order(
    kind: str, ports: dict[str, int], authority: Authority
) -> None:
    reader = Slow(kind, ports[kind], authority.path)
    reader.send(encode(Connect(f"slow-{kind}"), V5))
    reader.send(encode(Subscribe(1, (Subscription(f"{kind}/t", 1),)), V5))
    assert len(reader.packets(2)) == 2
    writer = RawClient(ports["mqtt"])
    writer.connect(f"writer-{kind}")
    for index in range(MESSAGES):
        assert writer.publish(f"{kind}/t", index.to_bytes(2) + PAYLOAD, qos=1) == 0
    heard = []
    while len(heard) < MESSAGES:
        for packet in reader.packets(1):
            assert isinstance(packet, Publish)
            heard.append(int.from_bytes(packet.payload[:2]))
            reader.send(encode(Puback(packet.packet_id), V5))
    assert heard == list(range(MESSAGES))
