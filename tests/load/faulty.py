"""A stand-in broker that does wrong on purpose, as told: the generator must notice."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from braidmq.load.handshake import read_frame, varint

Fault = Callable[[int, bytes], list[bytes]]  # number and bytes of a PUBLISH: what subscribers get instead
Answer = Callable[[int, bytes], bytes]  # number and bytes of a PUBLISH: what its publisher is told

CONNECT, PUBLISH, SUBSCRIBE = 1, 3, 8


def faithful(number: int, publish: bytes) -> list[bytes]:
    return [publish]


def silent(number: int, publish: bytes) -> bytes:
    return b""


class FaultyBroker:
    """MQTT 5, QoS 0 to subscribers; one thread for each connection."""

    def __init__(self, fault: Fault = faithful, answer: Answer = silent) -> None:
        self.fault, self.answer = fault, answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.subscribers: list[socket.socket] = []
        self.connections: list[socket.socket] = []
        self.threads = [threading.Thread(target=self.accept)]
        self.received = 0

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.connections.append(connection)
                thread = threading.Thread(target=self.serve, args=(connection,))
                self.threads.append(thread)
                thread.start()

    def serve(self, connection: socket.socket) -> None:
        with suppress(OSError, Exception):
            while True:
                first_byte, body = read_frame(connection)
                self.take(connection, first_byte, body)

    def take(self, connection: socket.socket, first_byte: int, body: bytes) -> None:
        if first_byte >> 4 == CONNECT:
            connection.sendall(b"\x20\x03\0\0\0")
        elif first_byte >> 4 == SUBSCRIBE:
            self.subscribers.append(connection)
            connection.sendall(b"\x90\x04" + body[:2] + b"\0" + body[-1:])
        elif first_byte >> 4 == PUBLISH:
            publish = bytes([first_byte]) + varint(len(body)) + body
            number, self.received = self.received, self.received + 1
            for frame in self.fault(number, publish):
                for subscriber in self.subscribers:
                    subscriber.sendall(frame)
            connection.sendall(self.answer(number, publish))

    def stop(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(5)
        for connection in self.connections:
            connection.close()


@contextmanager
def faulty_broker(fault: Fault = faithful, answer: Answer = silent) -> Iterator[FaultyBroker]:
    broker = FaultyBroker(fault, answer)
    broker.threads[0].start()
    try:
        yield broker
    finally:
        broker.stop()
