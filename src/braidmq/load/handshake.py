"""Opens the connections of a load: TCP, CONNECT, SUBSCRIBE, in groups that a listen queue can hold.

Not hot, so plain Python; its codec knows just the four packets it needs and is kept apart from braidmq.wire,
so that the generator judges a broker by its own reading of the protocol.
"""

import socket
import struct
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from braidmq.errors import BraidError

GROUP = 64
TIMEOUT_S = 20.0
CONNECT, CONNACK, SUBSCRIBE, SUBACK = 0x10, 0x20, 0x82, 0x90
SESSION_EXPIRY, RECEIVE_MAXIMUM = 0x11, 0x21
# How many bytes the value of each CONNACK property takes; strings and pairs of strings are handled apart.
FIXED_PROPERTY_BYTES = {
    0x11: 4, 0x13: 2, 0x21: 2, 0x22: 2, 0x24: 1, 0x25: 1, 0x27: 4, 0x28: 1, 0x29: 1, 0x2A: 1,
}
STRING_PAIR = 0x26


class HandshakeError(BraidError):
    """A client of the load could not connect or subscribe."""


class Dialled(msgspec.Struct, frozen=True):
    """A connected, blocking socket and what the broker said about it."""

    connection: socket.socket
    receive_maximum: int


class Wish(msgspec.Struct, frozen=True):
    """A connection to be opened; a filter makes it a subscriber."""

    client_id: str
    filter: str | None = None
    qos: int = 0
    send_buffer_bytes: int = 0
    session_expiry_s: int = 0


def dial(
    address: tuple[str, int], wishes: Sequence[Wish], version: int, receive_maximum: int
) -> list[Dialled]:
    """Open all the connections, or none."""
    opened: list[Dialled] = []
    waiting = iter(wishes)
    try:
        while group := list(islice(waiting, GROUP)):
            connections = [open_socket(address, wish) for wish in group]
            opened.extend(Dialled(connection, 0) for connection in connections)
            opened[-len(group) :] = greet_all(connections, group, version, receive_maximum)
    except (OSError, BraidError) as error:
        for dialled in opened:
            dialled.connection.close()
        raise HandshakeError(f"{address[0]}:{address[1]}: {error}") from error
    return opened


def open_socket(address: tuple[str, int], wish: Wish) -> socket.socket:
    connection = socket.create_connection(address, timeout=TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if wish.send_buffer_bytes:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, wish.send_buffer_bytes)
    return connection


def greet_all(
    connections: list[socket.socket], group: list[Wish], version: int, receive_maximum: int
) -> list[Dialled]:
    """CONNECT on all of them, then read the answers, then SUBSCRIBE on those that want it."""
    for connection, wish in zip(connections, group, strict=True):
        connection.sendall(connect_frame(wish.client_id, version, receive_maximum, wish.session_expiry_s))
    granted = [read_connack(connection, version) for connection in connections]
    pairs = zip(connections, group, strict=True)
    subscribers = [(connection, w.filter, w.qos) for connection, w in pairs if w.filter is not None]
    for connection, topic_filter, qos in subscribers:
        connection.sendall(subscribe_frame(topic_filter, qos, version))
    for connection, _, qos in subscribers:
        read_suback(connection, qos)
    return [Dialled(connection, maximum) for connection, maximum in zip(connections, granted, strict=True)]


def varint(value: int) -> bytes:
    encoded = bytearray()
    while True:
        value, low = divmod(value, 128)
        encoded.append(low | (0x80 if value else 0))
        if not value:
            return bytes(encoded)


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">H", len(raw)) + raw


def frame(first_byte: int, body: bytes) -> bytes:
    return bytes([first_byte]) + varint(len(body)) + body


def connect_frame(client_id: str, version: int, receive_maximum: int, session_expiry_s: int = 0) -> bytes:
    clean_start, keep_alive_s = 0x02, 0
    head = text("MQTT") + struct.pack(">BBH", version, clean_start, keep_alive_s)
    properties = connect_properties(version, receive_maximum, session_expiry_s)
    return frame(CONNECT, head + properties + text(client_id))


def connect_properties(version: int, receive_maximum: int, session_expiry_s: int) -> bytes:
    if version < 5:
        return b""
    properties = struct.pack(">BH", RECEIVE_MAXIMUM, receive_maximum)
    if session_expiry_s:
        properties += struct.pack(">BI", SESSION_EXPIRY, session_expiry_s)
    return varint(len(properties)) + properties


def subscribe_frame(topic_filter: str, qos: int, version: int) -> bytes:
    packet_id = struct.pack(">H", 1)
    return frame(SUBSCRIBE, packet_id + (b"\0" if version == 5 else b"") + text(topic_filter) + bytes([qos]))


def publish_template(topic: str, qos: int, payload_bytes: int, version: int) -> tuple[bytes, int, int]:
    """A whole PUBLISH with a zero packet id and payload, and the offsets of these two in it."""
    body = text(topic) + (b"\0\0" if qos else b"") + (b"\0" if version == 5 else b"") + bytes(payload_bytes)
    whole = frame(0x30 | qos << 1, body)
    payload_at = len(whole) - payload_bytes
    return whole, payload_at - (2 if qos else 0) - (1 if version == 5 else 0), payload_at


def read_frame(connection: socket.socket) -> tuple[int, bytes]:
    """One frame and not a byte more; what follows it belongs to the generator."""
    first_byte, length, shift = read_exactly(connection, 1)[0], 0, 0
    while True:
        digit = read_exactly(connection, 1)[0]
        length |= (digit & 0x7F) << shift
        shift += 7
        if digit < 0x80:
            return first_byte, read_exactly(connection, length)
        if shift > 21:
            raise HandshakeError("the answer's length is malformed")


def read_exactly(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = connection.recv(count - len(parts))
        if not part:
            raise HandshakeError("the broker closed the connection")
        parts += part
    return bytes(parts)


def read_connack(connection: socket.socket, version: int) -> int:
    """The receive maximum that the broker grants."""
    first_byte, body = read_frame(connection)
    if first_byte != CONNACK or len(body) < 2 or body[1]:
        raise HandshakeError(f"CONNECT was answered with {bytes([first_byte]).hex()} {body[:2].hex()}")
    if version < 5:
        return 65535
    return dict(connack_numbers(body[2:])).get(RECEIVE_MAXIMUM, 65535)


def connack_numbers(encoded: bytes) -> Iterator[tuple[int, int]]:
    """Number and value of the fixed-size properties; the others are stepped over."""
    at = next(i for i, byte in enumerate(encoded) if byte < 0x80) + 1
    while at < len(encoded):
        number, at = encoded[at], at + 1
        if size := FIXED_PROPERTY_BYTES.get(number):
            yield number, int.from_bytes(encoded[at : at + size])
            at += size
            continue
        for _ in range(2 if number == STRING_PAIR else 1):
            at += 2 + int.from_bytes(encoded[at : at + 2])


def read_suback(connection: socket.socket, qos: int) -> None:
    """Anything but the QoS asked for would make the result mean something else."""
    first_byte, body = read_frame(connection)
    if first_byte != SUBACK or body[-1] != qos:
        answer = bytes([first_byte]).hex()
        raise HandshakeError(f"SUBSCRIBE at QoS {qos} was answered with {answer} {body.hex()}")
