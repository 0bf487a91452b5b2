"""The limit: a uvloop server that passes on the bytes it reads, without looking at them.

It answers CONNECT and SUBSCRIBE, so that the load generator takes it for a broker; after that every read from
a publisher is one write to each subscriber. One read may end inside a frame, so whole frames come out only
with one publisher. With --c the same is done in C, without Python or uvloop.

python -m bench.relay PORT [--c]
"""

import argparse
import asyncio
import socket
from typing import ClassVar, cast

import uvloop

from braidmq.load import loopback

READ_BYTES = 256 * 1024
HIGH_WATER_BYTES = 1 << 20
CONNECT, SUBSCRIBE = 0x10, 0x82
VERSION_AT = 8  # in a CONNECT of less than 130 bytes


class Peer(asyncio.BufferedProtocol):
    """A connection: what it sends first after CONNECT makes it a subscriber or a publisher, for good."""

    buffer = memoryview(bytearray(READ_BYTES))  # one for all: nothing is kept from one read to the next
    everybody: ClassVar[list["Peer"]] = []
    subscribers: ClassVar[list["Peer"]] = []
    full: ClassVar[set["Peer"]] = set()

    def __init__(self) -> None:
        self.version = 0
        self.subscribed = self.publishes = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(HIGH_WATER_BYTES)
        self.everybody.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.everybody.remove(self)
        if self.subscribed:
            self.subscribers.remove(self)
        self.resume_writing()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self.subscribed:
            return
        data = bytes(self.buffer[:nbytes])
        if self.publishes:
            for subscriber in self.subscribers:
                subscriber.transport.write(data)
        elif data[0] == CONNECT:
            self.version = data[VERSION_AT]
            self.transport.write(b"\x20\x03\0\0\0" if self.version == 5 else b"\x20\x02\0\0")
        elif data[0] == SUBSCRIBE:
            self.become_subscriber(data)
        else:
            self.publishes = True
            self.buffer_updated(nbytes)

    def become_subscriber(self, packet: bytes) -> None:
        self.subscribed = True
        self.subscribers.append(self)
        suback = packet[2:4] + (b"\0" if self.version == 5 else b"") + packet[-1:]
        self.transport.write(bytes([0x90, len(suback)]) + suback)

    def pause_writing(self) -> None:
        self.full.add(self)
        for peer in self.everybody:
            if not peer.subscribed:
                peer.transport.pause_reading()

    def resume_writing(self) -> None:
        self.full.discard(self)
        for peer in self.everybody if not self.full else ():
            if not peer.subscribed and not peer.transport.is_closing():
                peer.transport.resume_reading()


async def serve(listener: socket.socket) -> None:
    server = await asyncio.get_running_loop().create_server(Peer, sock=listener)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description="A relay of bytes, to be measured as the limit.")
    parser.add_argument("port", type=int)
    parser.add_argument("--c", action="store_true", help="in C instead of uvloop")
    arguments = parser.parse_args()
    listener = socket.create_server(("127.0.0.1", arguments.port), backlog=1024)
    if arguments.c:
        loopback.serve(listener)
    uvloop.run(serve(listener))


if __name__ == "__main__":
    main()
