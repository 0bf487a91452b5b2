"""Clients that keep their half of MQTT over any number of broker deaths, and note what they saw."""

import selectors
import socket
from collections.abc import Callable
from typing import Any

from braidmq.wire import (
    V5,
    Connack,
    Connect,
    FrameReader,
    Packet,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Subscription,
    Will,
    decode,
    encode,
)

FOR_EVER = Properties(session_expiry_s=0xFFFFFFFF, receive_maximum=50)
TICK_S = 0.05
PAYLOAD_BYTES = 500  # a number and spaces; enough of them take more memory than they may


class Wire:
    """One connection after another; `is_up` is False when the broker has gone."""

    def __init__(
        self, client_id: str, *, properties: Properties = FOR_EVER, will: Will | None = None
    ) -> None:
        self.client_id = client_id
        self.properties = properties
        self.will = will
        self.sock: socket.socket | None = None
        self.connack: Connack | None = None
        self.reader = FrameReader(1 << 24)

    @property
    def is_up(self) -> bool:
        return self.sock is not None

    def connect(self, port: int, *, clean_start: bool = False) -> None:
        self.close()
        self.reader = FrameReader(1 << 24)
        self.connack = None
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.send(Connect(self.client_id, clean_start, 0, will=self.will, properties=self.properties))

    def send(self, *packets: Packet) -> None:
        if self.sock is None:
            return
        try:
            self.sock.sendall(b"".join(encode(packet, V5) for packet in packets))
        except OSError:
            self.close()

    def receive(self) -> None:
        """Handle what has come; there must be something."""
        assert self.sock is not None
        try:
            data = self.sock.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self.close()
        self.reader.feed(data)
        for first, body in self.reader.frames():
            packet = decode(first, body, V5)
            if isinstance(packet, Connack):
                assert packet.reason == 0, packet
                self.connack = packet
                self.on_connack()
            else:
                self.on_packet(packet)

    def close(self) -> None:
        if self.sock is not None:
            self.sock.close()
            self.sock = None

    def on_connack(self) -> None: ...

    def on_packet(self, packet: Packet) -> None: ...


class Publisher(Wire):
    """Numbers its messages, sends again what wasn't acknowledged, and knows what was."""

    def __init__(
        self, client_id: str, qos: int, topic: str, *, window: int = 20, retain: bool = False
    ) -> None:
        super().__init__(client_id)
        self.qos = qos
        self.topic = topic
        self.window = window
        self.retain = retain
        self.next_number = 1
        self.open: dict[int, int] = {}  # packet id -> number, in order of sending
        self.received: set[int] = set()  # packet ids for which PUBREC came
        self.acknowledged: list[int] = []
        self.is_paused = False

    def on_connack(self) -> None:
        for packet_id, number in self.open.items():
            if packet_id in self.received:
                self.send(Pubrel(packet_id))
            else:
                self.publish(packet_id, number, dup=True)
        self.fill()

    def fill(self) -> None:
        while len(self.open) < self.window and not self.is_paused and self.connack is not None and self.is_up:
            packet_id = next(i for i in range(1, self.window + 1) if i not in self.open)
            self.open[packet_id] = self.next_number
            self.publish(packet_id, self.next_number, dup=False)
            self.next_number += 1

    def publish(self, packet_id: int, number: int, *, dup: bool) -> None:
        payload = f"{number:<{PAYLOAD_BYTES}}".encode()
        self.send(Publish(self.topic, payload, self.qos, self.retain, dup, packet_id))

    def on_packet(self, packet: Packet) -> None:
        if isinstance(packet, Puback):
            assert packet.reason < 0x80, packet
            self.acknowledged.append(self.open.pop(packet.packet_id))
        elif isinstance(packet, Pubrec):
            assert packet.reason < 0x80, packet
            if packet.packet_id not in self.received:
                self.received.add(packet.packet_id)
                self.acknowledged.append(self.open[packet.packet_id])
            self.send(Pubrel(packet.packet_id))
        elif isinstance(packet, Pubcomp):
            self.received.discard(packet.packet_id)
            self.open.pop(packet.packet_id, None)
        self.fill()


class Subscriber(Wire):
    """Answers everything and notes what it got: `once` has QoS 2 after its own half of the exchange."""

    def __init__(self, client_id: str, *filters: str, **options: Any) -> None:
        super().__init__(client_id, **options)
        self.filters = filters
        self.open: set[int] = set()
        self.once: list[tuple[str, bytes]] = []
        self.at_least_once: list[tuple[str, bytes]] = []
        self.granted = 0

    def on_connack(self) -> None:
        assert self.connack is not None
        if not self.connack.session_present:
            assert not self.granted, f"{self.client_id}'s session is lost, and it had been confirmed"
            self.send(Subscribe(1, tuple(Subscription(filter, 2) for filter in self.filters)))

    def on_packet(self, packet: Packet) -> None:
        if isinstance(packet, Publish) and packet.qos == 2:
            if packet.packet_id not in self.open:
                self.open.add(packet.packet_id)
                self.once.append((packet.topic, packet.payload))
            self.send(Pubrec(packet.packet_id))
        elif isinstance(packet, Pubrel):
            self.open.discard(packet.packet_id)
            self.send(Pubcomp(packet.packet_id))
        elif isinstance(packet, Publish):
            self.at_least_once.append((packet.topic, packet.payload))
            if packet.qos:
                self.send(Puback(packet.packet_id))
        else:
            self.granted += type(packet).__name__ == "Suback"


def run(wires: list[Wire], until: Callable[[], bool], ticks_max: int = 1200) -> bool:
    """Let the clients talk until the condition holds; False if it did not come to that."""
    for _ in range(ticks_max):
        if until():
            return True
        with selectors.DefaultSelector() as selector:
            for wire in wires:
                if wire.sock is not None:
                    selector.register(wire.sock, selectors.EVENT_READ, wire)
            for key, _ in selector.select(TICK_S):
                if key.data.sock is not None:
                    key.data.receive()
    return until()
