"""Section 6: MQTT over WebSocket, with the frames of a WebSocket client library."""

from __future__ import annotations

import contextlib
import queue
import socket
import ssl
from collections.abc import Iterator

import paho.mqtt.client as paho
import pytest
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed, InvalidStatus, NegotiationError
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from braidmq.net.websocket import origin_may_connect
from braidmq.wire import (
    V5,
    Connack,
    Connect,
    FrameReader,
    Packet,
    Pingreq,
    Pingresp,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Will,
    decode,
    encode,
)
from tests.net.certificates import Authority
from tests.net.running import serving
from tests.support.broker import Broker, under_test
from tests.support.raw import TIMEOUT_S

pytestmark = pytest.mark.skipif(under_test() != "braidmq", reason="a listener of our own")

LARGE = 200_000


@pytest.fixture(scope="module")
def web() -> Iterator[tuple[Broker, int]]:
    with serving([{"protocol": "websocket"}], f"[limits]\npacket_bytes_max = {LARGE}\n") as (broker, ports):
        yield broker, ports[0]


class WebClient:
    def __init__(
        self,
        port: int,
        path: str = "/mqtt",
        protocols: tuple[str, ...] = ("mqtt",),
        origin: str | None = None,
    ) -> None:
        opening = connect(
            f"ws://127.0.0.1:{port}{path}",
            subprotocols=[Subprotocol(name) for name in protocols],
            origin=Origin(origin) if origin else None,
            open_timeout=TIMEOUT_S,
            max_size=None,
            compression=None,
        )
        self.socket: ClientConnection = opening.__enter__()
        self._reader = FrameReader(1 << 28)

    def send(self, *packets: Packet) -> None:
        self.socket.send(b"".join(encode(packet, V5) for packet in packets))

    def receive(self) -> Packet:
        while True:
            for first, body in self._reader.frames():
                return decode(first, body, V5)
            data = self.socket.recv(TIMEOUT_S)
            assert isinstance(data, bytes)  # [MQTT-6.0.0-1]
            self._reader.feed(data)

    def connect(self, name: str) -> None:
        self.send(Connect(name))
        answer = self.receive()
        assert isinstance(answer, Connack)
        assert answer.reason == 0

    def expect_close(self, code: int) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                self.socket.recv(TIMEOUT_S)
        assert self.socket.close_code == code


@pytest.mark.mqtt("MQTT-6.0.0-4")
@pytest.mark.parametrize("offered", [("mqtt",), ("other", "mqtt"), ("mqttv3.1", "mqtt")])
def test_the_server_selects_mqtt(web: tuple[Broker, int], offered: tuple[str, ...]) -> None:
    client = WebClient(web[1], protocols=offered)
    assert client.socket.subprotocol == "mqtt"
    client.socket.close()


@pytest.mark.parametrize("offered", [("other",), ()])
def test_a_client_that_does_not_offer_mqtt_is_refused(
    web: tuple[Broker, int], offered: tuple[str, ...]
) -> None:
    with pytest.raises((InvalidStatus, NegotiationError)):
        WebClient(web[1], protocols=offered)


@pytest.mark.parametrize(
    ("origin", "host", "allowed", "expected"),
    [
        (None, "broker.example", None, True),
        ("https://broker.example", "broker.example:8084", None, True),
        ("https://evil.example", "broker.example:8084", None, False),
        ("null", "broker.example:8084", None, False),
        ("https://[", "broker.example:8084", None, False),
        ("https://evil.example", None, None, False),
        ("null", None, None, False),
        ("https://evil.example", "broker.example", "*", True),
        ("https://dash.example", "broker.example", "https://a.example https://dash.example", True),
        ("https://broker.example", "broker.example", "https://dash.example", False),
        ("https://dash.example.evil", "broker.example", "https://dash.example", False),
    ],
)
def test_which_web_pages_may_connect(
    origin: str | None, host: str | None, allowed: str | None, expected: bool
) -> None:
    given = {"Origin": origin, "Host": host}
    headers = Headers({name: value for name, value in given.items() if value is not None})
    assert origin_may_connect(headers, allowed) is expected


def test_a_page_from_elsewhere_is_refused(web: tuple[Broker, int]) -> None:
    with pytest.raises(InvalidStatus, match="403"):
        WebClient(web[1], origin="https://evil.example")
    WebClient(web[1], origin="http://127.0.0.1").connect("same-host")


def test_a_stranger_can_not_make_the_broker_hold_much() -> None:
    with serving([{"protocol": "websocket"}], "[limits]\nconnect_bytes_max = 1000\n") as (_, ports):
        client = WebClient(ports[0])
        begun = b"\x82\xff" + (1_000_000).to_bytes(8) + b"mask" + b"x" * 500_000
        with contextlib.suppress(OSError):
            client.socket.socket.sendall(begun)
        with pytest.raises(ConnectionClosed):
            client.socket.recv(TIMEOUT_S)
        known = WebClient(ports[0])
        known.connect("known")
        known.send(Publish("t", b"x" * 900_000), Pingreq())
        assert isinstance(known.receive(), Pingresp)


def test_mqtt_is_at_its_path_only(web: tuple[Broker, int]) -> None:
    with pytest.raises(InvalidStatus, match="404"):
        WebClient(web[1], "/")
    WebClient(web[1], "/mqtt?token=x").connect("with-a-query")


@pytest.mark.mqtt("MQTT-6.0.0-1")
def test_a_text_frame_closes_the_connection(web: tuple[Broker, int]) -> None:
    client = WebClient(web[1])
    client.connect("texter")
    client.socket.send("text")
    client.expect_close(1003)


@pytest.mark.mqtt("MQTT-6.0.0-2")
def test_packets_may_be_split_and_joined_by_frames(web: tuple[Broker, int]) -> None:
    client = WebClient(web[1])
    packets = [Connect("splitter"), Subscribe(1, (Subscription("s/#"),)), Publish("s/1", b"x" * 300)]
    data = b"".join(encode(packet, V5) for packet in [*packets, Publish("s/2", b"y"), Pingreq()])
    for byte in data[:60]:
        client.socket.send(bytes((byte,)))
    client.socket.send(data[60:])
    assert [type(client.receive()) for _ in range(5)] == [Connack, Suback, Publish, Publish, Pingresp]


@pytest.mark.mqtt("MQTT-6.0.0-2")
def test_a_fragmented_message_is_one_stream_of_bytes(web: tuple[Broker, int]) -> None:
    client = WebClient(web[1])
    client.connect("fragmenter")
    client.send(Subscribe(1, (Subscription("f"),)))
    data = encode(Publish("f", b"z" * 1000), V5)
    client.socket.send([data[:7], data[7:500], data[500:]])
    assert isinstance(client.receive(), Suback)
    received = client.receive()
    assert isinstance(received, Publish)
    assert received.payload == b"z" * 1000


def test_large_packets_come_and_go_whole_and_in_order(web: tuple[Broker, int]) -> None:
    client = WebClient(web[1])
    client.connect("large")
    client.send(Subscribe(1, (Subscription("l"),)))
    assert isinstance(client.receive(), Suback)
    payloads = [bytes((index,)) * (LARGE - 100) for index in range(20)]
    for payload in payloads:
        client.send(Publish("l", payload))
    for payload in payloads:
        received = client.receive()
        assert isinstance(received, Publish)
        assert received.payload == payload


def test_a_message_that_is_too_large_closes_the_connection(web: tuple[Broker, int]) -> None:
    client = WebClient(web[1])
    client.connect("too-large")
    client.socket.send(b"\x30" + b"x" * (LARGE + 1))
    client.expect_close(1009)


def test_pings_of_websocket_are_answered(web: tuple[Broker, int]) -> None:
    client = WebClient(web[1])
    assert client.socket.ping(b"hello").wait(TIMEOUT_S)


def test_a_closed_websocket_ends_the_mqtt_connection(web: tuple[Broker, int]) -> None:
    watcher = WebClient(web[1])
    watcher.connect("watcher")
    watcher.send(Subscribe(1, (Subscription("gone"),)))
    assert isinstance(watcher.receive(), Suback)
    leaver = WebClient(web[1])
    leaver.send(Connect("leaver", will=Will("gone", b"by the close frame")))
    assert isinstance(leaver.receive(), Connack)
    leaver.socket.close()
    received = watcher.receive()
    assert isinstance(received, Publish)
    assert received.payload == b"by the close frame"


def test_a_refused_client_is_told_before_the_close(web: tuple[Broker, int]) -> None:
    client = WebClient(web[1])
    client.connect("twice")
    client.send(Connect("twice"))
    assert client.receive().reason == 0x82  # type: ignore[union-attr]
    client.expect_close(1000)


def test_something_else_than_http_is_closed(web: tuple[Broker, int]) -> None:
    with socket.create_connection(("127.0.0.1", web[1]), TIMEOUT_S) as plain:
        plain.sendall(encode(Connect("plain"), V5) + b"\r\n\r\n")
        assert plain.recv(1000) == b""
    assert web[0].running()


def test_secure_websocket(tmp_path_factory: pytest.TempPathFactory) -> None:
    authority = Authority(tmp_path_factory.mktemp("wss"))
    certificate, key = authority.issue("server", "localhost")
    listener = {"protocol": "websocket", "certificate": str(certificate), "key": str(key)}
    with serving([listener]) as (_, ports):
        context = ssl.create_default_context(cafile=str(authority.path))
        with connect(
            f"wss://localhost:{ports[0]}/mqtt",
            subprotocols=[Subprotocol("mqtt")],
            ssl=context,
            sock=socket.create_connection(("127.0.0.1", ports[0]), TIMEOUT_S),
        ) as secure:
            secure.send(encode(Connect("secure"), V5))
            answer = secure.recv(TIMEOUT_S)
            assert isinstance(answer, bytes)
            assert answer[0] == 0x20


def test_a_client_of_others_speaks_over_websocket(web: tuple[Broker, int]) -> None:
    heard: queue.Queue[bytes] = queue.Queue()
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, "paho-over-websocket", transport="websockets")
    client.on_connect = lambda *_: client.subscribe("paho/#", 1)
    client.on_subscribe = lambda *_: client.publish("paho/x", b"hello", 1)
    client.on_message = lambda _client, _userdata, message: heard.put(message.payload)
    client.connect("127.0.0.1", web[1])
    client.loop_start()
    try:
        assert heard.get(timeout=TIMEOUT_S) == b"hello"
    finally:
        client.disconnect()
        client.loop_stop()
