"""How long a well-behaved pair waits beside somebody who makes the most work a client can.

    python -m bench.hostile [--seconds 3] [attack ...]

Each attack runs in a process of its own against a fresh broker, while one client sends another a message
every few milliseconds; printed are the times that these took. The goal is a 99th percentile below 50 ms
beside each of them, on a machine with nothing else to do. Not part of `make test`: it measures durations.
"""

import argparse
import itertools
import multiprocessing
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from braidmq.wire import (
    V5,
    Connect,
    Packet,
    Properties,
    Puback,
    Publish,
    Subscribe,
    Subscription,
    encode,
)
from tests.net.running import serving

INTERVAL_S = 0.005
GOAL_MS = 50.0
WARM_UP_S = 2.0  # until the attack is under way
STAMP = struct.Struct("!d")
ACL_RULES = 60

Attack = Callable[[int, int], None]  # the ports for MQTT and for WebSocket; runs until it is ended


def dial(port: int, client_id: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if client_id:
        connection.sendall(encode(Connect(client_id, keep_alive_s=0), V5))
        connection.recv(4096)
    return connection


def swallow(connection: socket.socket) -> None:
    """Read and forget, in a thread, until the connection ends."""

    def read() -> None:
        with suppress(OSError):
            while connection.recv(1 << 20):
                pass

    threading.Thread(target=read, daemon=True).start()


def flood(port: int, name: str, data: Iterator[bytes]) -> None:
    """Send all that, on a new connection whenever one was closed."""
    for number in itertools.count():
        with closing(dial(port, f"{name}-{number}")) as connection, suppress(OSError):
            swallow(connection)
            for part in data:
                connection.sendall(part)


def packed(packets: list[Packet]) -> bytes:
    return b"".join(encode(packet, V5) for packet in packets)


def filters(count: int) -> Iterator[str]:
    """Filters that all match a/a/a/... and whatever is below."""
    for levels in itertools.islice(itertools.product("a+", repeat=13), count):
        yield "/".join([*levels, "#"])


def filter_bomb(port: int, _: int) -> None:
    subscriber = dial(port, "bomb")
    swallow(subscriber)
    subscriptions = [Subscription(name) for name in filters(8000)]
    for start in range(0, len(subscriptions), 1000):
        subscriber.sendall(encode(Subscribe(1, tuple(subscriptions[start : start + 1000])), V5))
    topic = "/".join("a" * 13)
    numbers = itertools.count()
    flood(port, "match", (packed([Publish(f"{topic}/{next(numbers)}", b"")] * 50) for _ in numbers))


def new_topics(port: int, _: int) -> None:
    numbers = itertools.count()
    flood(
        port, "topics", (packed([Publish(f"new/{next(numbers)}", b"") for _ in range(200)]) for _ in numbers)
    )


def many_filters(port: int, _: int) -> None:
    frame = encode(Subscribe(1, tuple(Subscription(f"{number:x}") for number in range(125_000))), V5)
    flood(port, "filters", itertools.repeat(frame))


def long_subscribes(port: int, _: int) -> None:
    frame = encode(Subscribe(1, tuple(Subscription(f"f/{number}/#") for number in range(4096))), V5)
    flood(port, "subscribes", itertools.repeat(frame))


def system_topics(port: int, _: int) -> None:
    frame = encode(Subscribe(1, (Subscription("$SYS/#"),) * 4096), V5)
    flood(port, "system", itertools.repeat(frame))


def large_acknowledgements(port: int, _: int) -> None:
    frame = encode(Puback(1, 0, Properties(user_properties=(("a", "b"),) * 140_000)), V5)
    flood(port, "acks", itertools.repeat(frame))


def retained(port: int, _: int) -> None:
    writer = dial(port, "writer")
    for start in range(0, 200_000, 1000):
        numbers = range(start, start + 1000)
        writer.sendall(packed([Publish(f"r/{number}", b"0123456789", retain=True) for number in numbers]))
    frame = encode(Subscribe(1, (Subscription("r/#"),)), V5)
    flood(port, "retained", itertools.repeat(frame))


def many_groups(port: int, _: int) -> None:
    member = dial(port, "member")
    for start in range(0, 9000, 1000):
        names = (Subscription(f"$share/g{number}/job", 1) for number in range(start, start + 1000))
        member.sendall(encode(Subscribe(1, tuple(names)), V5))
    swallow(member)
    flood(port, "boss", itertools.repeat(packed([Publish("job", b"x", 1, packet_id=1)])))


def empty_frames(_: int, port: int) -> None:
    request = (
        b"GET /mqtt HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
    )
    empty = b"\x82\x80\0\0\0\0" * 10_000
    while True:
        with closing(dial(port, "")) as connection, suppress(OSError):
            swallow(connection)
            connection.sendall(request)
            while True:
                connection.sendall(empty)


def nothing(port: int, websocket_port: int) -> None:
    threading.Event().wait()


ATTACKS: dict[str, Attack] = {
    "nothing": nothing,
    "filter_bomb": filter_bomb,
    "new_topics": new_topics,
    "many_filters": many_filters,
    "long_subscribes": long_subscribes,
    "system_topics": system_topics,
    "large_acknowledgements": large_acknowledgements,
    "retained": retained,
    "many_groups": many_groups,
    "empty_frames": empty_frames,
}


def rules() -> str:
    """Rules that let everybody do what the attacks do, after many that say nothing about it."""
    others = [
        f'[[rule]]\nuser = "nobody-{number}"\ndeny = ["write"]\ntopic = "x/{number}/+/#"'
        for number in range(ACL_RULES)
    ]
    everything = [
        f'[[rule]]\nallow = ["read", "write", "subscribe"]\ntopic = "{topic}"' for topic in ("#", "$SYS/#")
    ]
    return "\n".join([*others, *everything]) + "\n"


@contextmanager
def running(attack: Attack, ports: list[int]) -> Iterator[None]:
    process = multiprocessing.get_context("spawn").Process(target=attack, args=tuple(ports), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def latencies_ms(port: int, seconds: float) -> list[float]:
    """What a message from one client to another takes, again and again."""
    found: list[float] = []
    reader, writer = dial(port, "reader"), dial(port, "writer-of-pair")
    reader.sendall(encode(Subscribe(1, (Subscription("pair"),)), V5))
    reader.recv(4096)
    frame_bytes = len(encode(Publish("pair", bytes(STAMP.size)), V5))
    is_over = threading.Event()

    def read() -> None:
        held = b""
        while not is_over.is_set():
            data = reader.recv(1 << 16)
            now = time.perf_counter()
            if not data:
                return
            held += data
            while len(held) >= frame_bytes:
                frame, held = held[:frame_bytes], held[frame_bytes:]
                found.append((now - STAMP.unpack(frame[-STAMP.size :])[0]) * 1000)

    thread = threading.Thread(target=read)
    thread.start()
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        writer.sendall(encode(Publish("pair", STAMP.pack(time.perf_counter())), V5))
        time.sleep(INTERVAL_S)
    is_over.set()
    writer.sendall(encode(Publish("pair", STAMP.pack(time.perf_counter())), V5))
    thread.join()
    reader.close()
    writer.close()
    return sorted(found)


def resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("attacks", nargs="*", default=list(ATTACKS), metavar="attack")
    chosen = parser.parse_args()
    print(f"{'attack':24}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}{'MiB more':>10}")
    for name in chosen.attacks:
        with TemporaryDirectory(prefix="braidmq-hostile-") as directory:
            found, more = beside(ATTACKS[name], Path(directory), chosen.seconds)
        p50, p99 = (found[int(len(found) * part)] for part in (0.5, 0.99))
        verdict = "" if p99 < GOAL_MS else "  above the goal"
        print(f"{name:24}{p50:9.1f}{p99:9.1f}{found[-1]:9.1f}{more:10.1f}{verdict}", flush=True)


def beside(attack: Attack, directory: Path, seconds: float) -> tuple[list[float], float]:
    """The pair's times beside an attack, and what more memory the broker used."""
    path = directory / "rules.toml"
    path.write_text(rules())
    with serving([{}, {"protocol": "websocket"}], f'[acl]\nfile = "{path}"\n') as (broker, ports):
        before = resident_mib(broker.pid)
        with running(attack, ports):
            latencies_ms(ports[0], WARM_UP_S)
            found = latencies_ms(ports[0], seconds)
            return found, resident_mib(broker.pid) - before


if __name__ == "__main__":
    main()
