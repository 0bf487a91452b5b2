"""What keeping costs: engines side by side, the broker's rate with and without its store, and a restart.

    python -m bench.durability engines      # messages/s and CPU of SQLite, LMDB and the log, turn by turn
    python -m bench.durability rate         # QoS 1 and 2 into a persistent session, in memory and kept
    python -m bench.durability restart      # ready after a restart with 100,000 sessions, 1,000,000 messages

`engines` plays the load that a busy broker makes: every turn queues and sends 64 messages of 100 bytes and
settles the 64 of the turn before. LMDB is only measured if the package is there; the broker doesn't need it.
"""

import argparse
import os
import re
import resource
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.contenders import BROKER_CORE, GENERATOR_CORE, pinned
from bench.worker import process_use
from braidmq.broker.message import Message
from braidmq.broker.wills import PendingWill
from braidmq.load import handshake
from braidmq.load.case import Case
from braidmq.load.generator import run
from braidmq.store.durable import DurableStore
from braidmq.store.records import AWAY, QUEUED, SENT, SESSION, SETTLED, SUBSCRIBED, Record

TURN_MESSAGES = 64
PAYLOAD_BYTES = 100
LIMITS = (
    "inflight_max=1000", "receive_maximum=1000", "queue_messages_max=10000000", "queue_bytes_max=4000000000",
)

# ---- engines -----------------------------------------------------------------------------------------


class SqliteEngine:
    """Two tables: bodies once, deliveries by session and sequence. One transaction a turn."""

    def __init__(self, directory: Path, *, syncs: bool) -> None:
        self.db = sqlite3.connect(directory / "store.db", isolation_level=None)
        self.db.executescript(
            f"PRAGMA journal_mode=WAL; PRAGMA synchronous={'FULL' if syncs else 'OFF'};"
            "CREATE TABLE body(id INTEGER PRIMARY KEY, topic BLOB, payload BLOB, properties BLOB, qos INT);"
            "CREATE TABLE delivery(session INT, sequence INT, body INT, qos INT, packet_id INT,"
            " PRIMARY KEY(session, sequence)) WITHOUT ROWID;"
        )

    def turn(self, first: int, payload: bytes) -> None:
        new = range(first, first + TURN_MESSAGES)
        old = [(number,) for number in range(first - TURN_MESSAGES, first)]
        self.db.execute("BEGIN")
        self.db.executemany("INSERT INTO body VALUES(?, ?, ?, ?, 1)", [(n, b"t", payload, b"") for n in new])
        self.db.executemany("INSERT INTO delivery VALUES(1, ?, ?, 1, ?)", [(n, n, n & 0xFFFF) for n in new])
        self.db.executemany("DELETE FROM delivery WHERE session = 1 AND sequence = ?", old)
        self.db.executemany("DELETE FROM body WHERE id = ?", old)
        self.db.execute("COMMIT")

    def close(self) -> None:
        self.db.close()


class LmdbEngine:
    """The same as two key spaces; keys are big-endian numbers, so that inserts go to the end."""

    def __init__(self, directory: Path, *, syncs: bool) -> None:
        import lmdb

        self.env = lmdb.open(
            str(directory / "store"), map_size=1 << 34, max_dbs=2, sync=syncs, metasync=syncs, writemap=False
        )
        self.bodies, self.deliveries = self.env.open_db(b"body"), self.env.open_db(b"delivery")

    def turn(self, first: int, payload: bytes) -> None:
        with self.env.begin(write=True) as transaction:
            for number in range(first, first + TURN_MESSAGES):
                key = number.to_bytes(8, "big")
                transaction.put(key, b"\1\1t\0" + payload, db=self.bodies, append=True)
                transaction.put(b"\0\1" + key, key + b"\1\0\0", db=self.deliveries, append=True)
            for number in range(first - TURN_MESSAGES, first):
                key = number.to_bytes(8, "big")
                transaction.delete(b"\0\1" + key, db=self.deliveries)
                transaction.delete(key, db=self.bodies)

    def close(self) -> None:
        self.env.close()


class LogEngine:
    """The broker's own store, from the core's records to the report that they are kept."""

    def __init__(self, directory: Path, *, syncs: bool) -> None:
        self.kept = threading.Semaphore(0)
        self.store = DurableStore(
            directory,
            post=lambda report: report(),
            wall_offset_s=0.0,
            durability="fsync" if syncs else "process",
        )
        self.store.load(Message, PendingWill)
        self.store.checkpoint_from(lambda: iter([[(SESSION, "s", None, 60.0)]]))

    def turn(self, first: int, payload: bytes) -> None:
        records: list[Record] = []
        for number in range(first, first + TURN_MESSAGES):
            records.append((QUEUED, "s", number, Message(b"t", payload, 1), 1, False, b"", None))
            records.append((SENT, "s", number, number & 0xFFFF))
        records += [(SETTLED, "s", number) for number in range(first - TURN_MESSAGES, first)]
        self.store.commit(self.store.journal.encode(records), self.kept.release)  # type: ignore[arg-type]
        self.kept.acquire()

    def close(self) -> None:
        self.store.close()


ENGINES: dict[str, Callable[..., Any]] = {"sqlite": SqliteEngine, "lmdb": LmdbEngine, "log": LogEngine}


def measure_engine(name: str, *, syncs: bool, seconds: float) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        try:
            engine = ENGINES[name](Path(directory), syncs=syncs)
        except ImportError:
            print(f"{name:8} isn't installed")
            return
        payload = bytes(PAYLOAD_BYTES)
        first, began_s, began_cpu_s = TURN_MESSAGES, time.monotonic(), own_cpu_s()
        while time.monotonic() - began_s < seconds:
            engine.turn(first, payload)
            first += TURN_MESSAGES
        took_s, cpu_s, messages = time.monotonic() - began_s, own_cpu_s() - began_cpu_s, first - TURN_MESSAGES
        engine.close()
    mode, cost_us = "power loss" if syncs else "process", cpu_s / messages * 1e6
    print(f"{name:8} {mode:10} {messages / took_s:12,.0f} messages/s {cost_us:8.2f} µs CPU each", flush=True)


def own_cpu_s() -> float:
    use = resource.getrusage(resource.RUSAGE_SELF)
    return use.ru_utime + use.ru_stime


# ---- the broker --------------------------------------------------------------------------------------


@contextmanager
def broker(*flags: str) -> Iterator[tuple[int, int]]:
    """A broker on its core: its pid and its port."""
    limits = [part for limit in LIMITS for part in ("--limit", limit)]
    command = [sys.executable, "-m", "braidmq", "serve", "--port", "0", *limits, *flags]
    with pinned(BROKER_CORE):
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        found = re.search(rb":(\d+)\n", process.stdout.readline())
        assert found, "the broker didn't start"
        yield process.pid, int(found[1])
    finally:
        process.terminate()
        process.wait()


def lasting_connect(client_id: str, version: int, receive_maximum: int) -> bytes:
    """The generator's CONNECT, for a session that outlives its connection."""
    properties = b"\x11" + (3600).to_bytes(4, "big") + b"\x21" + receive_maximum.to_bytes(2, "big")
    head = handshake.text("MQTT") + bytes([version, 0x02, 0, 0, len(properties)])
    return handshake.frame(handshake.CONNECT, head + properties + handshake.text(client_id))


def measure_rate(seconds: float, rounds: int) -> None:
    handshake.connect_frame = lasting_connect
    for qos in (1, 2):
        for name, flags in (
            ("in memory", ("--in-memory",)),
            ("process", ("--durability", "process")),
            ("fsync", ("--durability", "fsync")),
        ):
            with tempfile.TemporaryDirectory(prefix="bench-") as directory:
                kept = () if name == "in memory" else ("--data-dir", directory)
                with broker(*flags, *kept) as (pid, port), pinned(GENERATOR_CORE):
                    for _ in range(rounds):
                        print_rate(f"QoS {qos} {name:9}", pid, port, qos, seconds)


def print_rate(title: str, pid: int, port: int, qos: int, seconds: float) -> None:
    case = Case(
        port=port, topics=("bench/topic",), subscriptions=("bench/topic",), qos=qos, subscriber_qos=qos,
        window=1000, batch=64, steady_s=seconds,
    )
    result = run(case, lambda: process_use(pid))
    probes = [*result.probes.values()]
    cpu_s = probes[-1]["cpu_s"] - probes[0]["cpu_s"]
    delivered = max(1, result.delivered if len(probes) < 3 else result.steady_delivered)
    print(
        f"{title} {result.delivered_per_s:10,.0f} messages/s {cpu_s / delivered * 1e6:6.2f} µs CPU each, "
        f"lost {result.lost}, doubled {result.duplicates}, p99 {result.latency.p99_us / 1000:.1f} ms",
        flush=True,
    )


# ---- a restart ---------------------------------------------------------------------------------------


def measure_restart(sessions: int, messages: int) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        fill(Path(directory), sessions, messages)
        size = sum(path.stat().st_size for path in Path(directory).iterdir())
        began_s = time.monotonic()
        with broker("--data-dir", directory) as (pid, _):
            took_s = time.monotonic() - began_s
            resident = process_use(pid)["resident_bytes"]
        print(f"{sessions:,} sessions and {messages:,} messages, {size / 1e6:,.0f} MB on disk: "
              f"ready in {took_s:.1f} s with {resident / 1e6:,.0f} MB of memory")


def fill(directory: Path, sessions: int, messages: int) -> None:
    """A store as a broker would have left it."""
    done = threading.Event()
    offset_s = time.time() - time.monotonic()
    store = DurableStore(directory, post=lambda report: report(), wall_offset_s=offset_s)
    store.load(Message, PendingWill)
    each = messages // sessions
    for number in range(sessions):
        name = f"client-{number}"
        turn: list[Record] = [
            (SESSION, name, None, float("inf")), (SUBSCRIBED, name, f"fleet/{number}/+", 1, 0),
            (AWAY, name, time.monotonic()),
        ]
        for sequence in range(1, each + 1):
            message = Message(b"fleet/%d/data" % number, os.urandom(PAYLOAD_BYTES // 2) * 2, 1)
            turn.append((QUEUED, name, sequence, message, 1, False, b"", None))
        store.commit(store.journal.encode(turn), done.set if number == sessions - 1 else lambda: None)
    done.wait()
    store.close()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m bench.durability", description=__doc__)
    parser.add_argument("what", choices=("engines", "rate", "restart"))
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    given = parser.parse_args(argv)
    if given.what == "engines":
        for syncs in (False, True):
            for name in ENGINES:
                measure_engine(name, syncs=syncs, seconds=given.seconds)
    elif given.what == "rate":
        measure_rate(given.seconds, given.rounds)
    else:
        measure_restart(given.sessions, given.messages)
    return 0


if __name__ == "__main__":
    sys.exit(main())
