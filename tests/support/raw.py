"""A test client that shows every packet: blocking socket, nothing automatic, nothing hidden.

It sends packets or raw bytes and says exactly what came back and in which order. That nothing came is shown
by a PINGREQ/PINGRESP round trip (the broker answers a connection in order), never by waiting a while.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
from collections import deque
from typing import Any, TypeVar

from braidmq.wire import (
    V5,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
    decode,
    encode,
)
from tests.support.broker import under_test

TIMEOUT_S = 8.0
P = TypeVar("P")


class ClosedError(AssertionError):
    """The broker closed the connection where a packet was expected."""


class Frame:
    """One frame as it came off the wire."""

    def __init__(self, first_byte: int, length_field: bytes, body: bytes) -> None:
        self.first_byte, self.length_field, self.body = first_byte, length_field, body

    @property
    def size_bytes(self) -> int:
        return 1 + len(self.length_field) + len(self.body)


def read_exactly(sock: socket.socket, count: int) -> bytes:
    """`count` bytes, or ClosedError at the end of the stream (a reset counts as an end)."""
    chunks: list[bytes] = []
    while count:
        try:
            chunk = sock.recv(min(count, 1 << 20))
        except ConnectionError:
            chunk = b""
        if not chunk:
            raise ClosedError("the broker closed the connection")
        chunks.append(chunk)
        count -= len(chunk)
    return b"".join(chunks)


def read_frame(sock: socket.socket) -> Frame:
    first_byte, length_field, length, shift = read_exactly(sock, 1)[0], b"", 0, 0
    while not length_field or length_field[-1] & 0x80:
        length_field += read_exactly(sock, 1)
        length |= (length_field[-1] & 0x7F) << shift
        shift += 7
        assert len(length_field) <= 4, "a remaining length of more than four bytes"
    return Frame(first_byte, length_field, read_exactly(sock, length))


class RawClient:
    """One connection to a broker. `last_frame` is the bytes of the packet received last."""

    connack: Connack
    last_frame: Frame

    def __init__(self, port: int, version: int = V5, timeout_s: float = TIMEOUT_S) -> None:
        self.version = version
        self.client_id = ""
        self.sock = socket.create_connection(("127.0.0.1", port), timeout_s)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._set_aside: deque[tuple[Packet, Frame]] = deque()
        self._packet_ids = itertools.count(1)

    # --- bytes and packets -------------------------------------------------------------------------------
    def send(self, *packets: Packet) -> None:
        self.send_bytes(b"".join(encode(packet, self.version) for packet in packets))

    def send_bytes(self, data: bytes) -> None:
        # A broker that refuses early may reset while we still write; what it answered is read afterwards.
        with contextlib.suppress(ConnectionError):
            self.sock.sendall(data)

    def _read(self) -> tuple[Packet, Frame]:
        frame = read_frame(self.sock)
        return decode(frame.first_byte, frame.body, self.version), frame

    def receive(self) -> Packet:
        """The next packet, whatever it is."""
        packet, self.last_frame = self._set_aside.popleft() if self._set_aside else self._read()
        return packet

    def expect(self, kind: type[P], **fields: object) -> P:
        """The next packet has to be of this kind and have these field values."""
        packet = self.receive()
        assert isinstance(packet, kind), f"expected {kind.__name__}, got {packet!r}"
        for name, value in fields.items():
            assert getattr(packet, name) == value, f"{name} should be {value!r} in {packet!r}"
        return packet

    def wait_for(self, kind: type[P], packet_id: int) -> P:
        """The next packet of this kind and id; others that come before it stay to be received."""
        passed: list[tuple[Packet, Frame]] = []
        while True:
            packet, frame = self._set_aside.popleft() if self._set_aside else self._read()
            if isinstance(packet, kind) and getattr(packet, "packet_id", None) == packet_id:
                self._set_aside.extendleft(reversed(passed))
                self.last_frame = frame
                return packet
            passed.append((packet, frame))

    def expect_closed(self) -> None:
        """The connection ends here, without another packet."""
        try:
            packet = self.receive()
        except ClosedError:
            return
        raise AssertionError(f"expected the end of the connection, got {packet!r}")

    def expect_disconnect(self, *reasons: int) -> Disconnect | None:
        """The broker hangs up: with a DISCONNECT of one of these reasons in v5, silently below."""
        if self.version < V5:
            self.expect_closed()
            return None
        try:
            packet = self.expect(Disconnect)
        except ClosedError:
            # To say why is a SHOULD of the standard; BraidMQ always does.
            if under_test() == "braidmq":
                raise
            return None
        assert packet.reason in reasons, f"reason 0x{packet.reason:02X}, expected one of {reasons}"
        self.expect_closed()
        return packet

    def expect_refused(self, *reasons: int) -> Connack | None:
        """The broker doesn't take the CONNECT: it closes, after a CONNACK of one of these reasons or none."""
        try:
            packet = self.expect(Connack)
        except ClosedError:
            return None
        code = self.last_frame.body[1]
        assert code in reasons, f"code 0x{code:02X}, expected one of {reasons}"
        assert not packet.session_present
        self.expect_closed()
        return packet

    def barrier(self) -> list[Packet]:
        """What the broker had for this connection before it answered a ping sent now."""
        self.send(Pingreq())
        before: list[Packet] = []
        while not isinstance(packet := self.receive(), Pingresp):
            before.append(packet)
        return before

    def expect_nothing(self) -> None:
        before = self.barrier()
        assert not before, f"expected no packet, got {before!r}"

    # --- whole exchanges ---------------------------------------------------------------------------------
    def connect(
        self,
        client_id: str = "",
        *,
        clean_start: bool = True,
        keep_alive_s: int = 60,
        will: Will | None = None,
        username: str | None = None,
        password: bytes | None = None,
        reason: int = 0,
        **properties: Any,
    ) -> Connack:
        """CONNECT, and a CONNACK with this reason byte (below v5 the codes of those versions: 1 to 5)."""
        self.client_id = client_id
        self.send(
            Connect(
                client_id,
                clean_start,
                keep_alive_s,
                self.version,
                will,
                username,
                password,
                Properties(**properties),
            )
        )
        self.connack = self.expect(Connack)
        code = self.last_frame.body[1]
        assert code == reason, f"code 0x{code:02X}, expected 0x{reason:02X}: {self.connack!r}"
        return self.connack

    def next_id(self) -> int:
        return next(self._packet_ids)

    def subscribe(self, *wanted: str | Subscription, qos: int = 0, **properties: Any) -> Suback:
        pairs = tuple(Subscription(each, qos) if isinstance(each, str) else each for each in wanted)
        packet_id = self.next_id()
        self.send(Subscribe(packet_id, pairs, Properties(**properties)))
        return self.wait_for(Suback, packet_id)

    def unsubscribe(self, *filters: str) -> Unsuback:
        packet_id = self.next_id()
        self.send(Unsubscribe(packet_id, filters))
        return self.wait_for(Unsuback, packet_id)

    def publish(
        self,
        topic: str,
        payload: bytes = b"",
        qos: int = 0,
        retain: bool = False,
        dup: bool = False,
        **properties: Any,
    ) -> int:
        """PUBLISH and its whole exchange; gives the broker's reason. At QoS 0 a ping shows it was handled."""
        packet_id = self.next_id() if qos else 0
        self.send(Publish(topic, payload, qos, retain, dup, packet_id, Properties(**properties)))
        if qos == 0:
            self._ping()
            return 0
        if qos == 1:
            return self.wait_for(Puback, packet_id).reason
        received = self.wait_for(Pubrec, packet_id)
        if received.reason < 0x80:
            self.send(Pubrel(packet_id))
            self.wait_for(Pubcomp, packet_id)
        return received.reason

    def _ping(self) -> None:
        self.send(Pingreq())
        passed: list[tuple[Packet, Frame]] = list(self._set_aside)
        self._set_aside.clear()
        while not isinstance((read := self._read())[0], Pingresp):
            passed.append(read)
        self._set_aside.extend(passed)

    def take(self, **fields: object) -> Publish:
        """The next packet is a PUBLISH with these values; acknowledge it to the end."""
        message = self.expect(Publish, **fields)
        if message.qos == 1:
            self.send(Puback(message.packet_id))
        elif message.qos == 2:
            self.send(Pubrec(message.packet_id))
            self.wait_for(Pubrel, message.packet_id)
            self.send(Pubcomp(message.packet_id))
        return message

    # --- ends --------------------------------------------------------------------------------------------
    def disconnect(self, reason: int = 0, **properties: Any) -> None:
        """DISCONNECT, and wait until the broker has closed."""
        self.send(Disconnect(reason, Properties(**properties)))
        self.drain()

    def drop(self) -> None:
        """End the connection without a DISCONNECT, and wait until the broker has seen it."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)
        self.drain()

    def drain(self) -> None:
        """Read and forget until the broker closes."""
        with contextlib.suppress(ConnectionError):
            while self.sock.recv(1 << 16):
                pass
        self.close()

    def close(self) -> None:
        self.sock.close()
