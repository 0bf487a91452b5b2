"""How many messages a second the clients take in; run by hand: `python -m tests.client.measure_batch`.

The source is a process that has its bytes ready and does nothing but send them, so that the client is the
limit. Rates are given per second of wall time and per second of the client's own CPU time; on a busy machine
only the second one means much. With `--broker HOST:PORT`, what a real broker delivers is measured instead.
"""

import argparse
import multiprocessing
import socket
import time
from collections.abc import Callable
from functools import partial

import uvloop

from braidmq.client import BlockingClient, Client, MessageBatch
from braidmq.client.options import SessionOptions
from braidmq.client.session import Session
from braidmq.wire import Connack, Connect, Publish, Suback, encode

MESSAGES = 2_000_000
BLOCK_MESSAGES = 10_000
PAYLOAD = b"x" * 100
PUBACK_BYTES = 4

Use = Callable[[MessageBatch], int]


def prepared(qos: int, topics: int) -> bytes:
    """The bytes of one block. Packet identifiers come again in the next one, after they were acknowledged."""
    names = [f"site/{number % 7}/device/{number}" for number in range(topics)]
    return b"".join(
        encode(Publish(names[i * 7919 % topics], PAYLOAD, qos, packet_id=i + 1 if qos else 0), 5)
        for i in range(BLOCK_MESSAGES)
    )


def send_to_one_client(listener: socket.socket, qos: int, topics: int) -> None:
    """A server that says yes to everything, and sends. With QoS 1 it waits for the answers to each block."""
    block = prepared(qos, topics)
    connection, _ = listener.accept()
    with connection:
        connection.recv(65_536)
        connection.sendall(encode(Connack(), 5))
        connection.recv(65_536)
        connection.sendall(encode(Suback(1, (qos,)), 5))
        for _ in range(MESSAGES // BLOCK_MESSAGES):
            connection.sendall(block)
            answers = BLOCK_MESSAGES * PUBACK_BYTES if qos else 0
            while answers > 0:
                answers -= len(connection.recv(1 << 20))
        connection.recv(65_536)  # the client's goodbye


def send_to_broker(host: str, port: int) -> None:
    block = prepared(0, 1)
    with socket.create_connection((host, port)) as connection:
        connection.sendall(encode(Connect("measure-source"), 5))
        connection.recv(65_536)
        while True:
            connection.sendall(block)


def counted(batch: MessageBatch) -> int:
    return len(batch)


def as_columns(batch: MessageBatch) -> int:
    return (len(batch.topics) + len(batch.payloads)) // 2


def as_arrow_buffers(batch: MessageBatch) -> int:
    batch.topic_column()
    batch.payload_column()
    return len(batch)


def as_objects(batch: MessageBatch) -> int:
    return sum(1 for _ in batch)


async def take_asyncio(address: str, qos: int, use: Use, wanted: int) -> None:
    async with Client(address, manual_ack=True) as client:
        await client.subscribe("#", qos=qos)
        taken = 0
        async for batch in client.batches(max_messages=BLOCK_MESSAGES):
            taken += use(batch)
            batch.ack()
            if taken >= wanted:
                break


def take_blocking(address: str, qos: int, use: Use, wanted: int) -> None:
    with BlockingClient(address, manual_ack=True) as client:
        client.subscribe("#", qos=qos)
        taken = 0
        while taken < wanted:
            batch = client.receive_batch(BLOCK_MESSAGES)
            taken += use(batch)
            batch.ack()


def take_without_socket(use: Use) -> None:
    block = memoryview(prepared(0, 1))
    session = Session(SessionOptions())
    session.connect(0.0)
    session.receive(encode(Connack(), 5), 0.0)
    for _ in range(MESSAGES // BLOCK_MESSAGES):
        for start in range(0, len(block), 262_144):
            session.receive(block[start : start + 262_144], 0.0)
        while session.queued_messages:
            use(session.take_batch(BLOCK_MESSAGES))


def report(name: str, messages: int, run: Callable[[], None]) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{name:50} {messages / wall / 1e6:7.2f} M/s {messages / cpu / 1e6:7.2f} M/CPU-s", flush=True)


def measure(shell: str, qos: int, topics: int, use: Use) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    source = multiprocessing.Process(target=send_to_one_client, args=(listener, qos, topics))
    source.start()
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    try:
        name = f"{shell}, QoS {qos}, {topics} topics, {use.__name__}"
        report(name, MESSAGES, partial(take, shell, address, qos, use, MESSAGES))
    finally:
        source.join(5)
        source.terminate()
        source.join()
        listener.close()


def take(shell: str, address: str, qos: int, use: Use, wanted: int) -> None:
    if shell == "asyncio":
        uvloop.run(take_asyncio(address, qos, use, wanted))
    else:
        take_blocking(address, qos, use, wanted)


def measure_broker(address: str) -> None:
    host, _, port = address.partition(":")
    for shell in ("asyncio", "blocking"):
        source = multiprocessing.Process(target=send_to_broker, args=(host, int(port)))
        source.start()
        try:
            report(f"{shell}, from {address}", 200_000, partial(take, shell, address, 0, counted, 200_000))
        finally:
            source.terminate()
            source.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", help="host:port of a running broker")
    broker = parser.parse_args().broker
    if broker:
        measure_broker(broker)
        return
    for use in (counted, as_columns):
        report(f"no socket, {use.__name__}", MESSAGES, partial(take_without_socket, use))
    for shell in ("asyncio", "blocking"):
        for qos in (0, 1):
            for use in (counted, as_columns, as_arrow_buffers, as_objects):
                measure(shell, qos, 1, use)
            measure(shell, qos, 1000, as_columns)


if __name__ == "__main__":
    main()
