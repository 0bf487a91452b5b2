"""Why the store is a log of our own: SQLite, LMDB and the log side by side, turn by turn.

    python -m bench.engines_bench      # messages/s and CPU of each, in both modes

It plays the load that a busy broker makes: every turn queues and sends 64 messages of 100 bytes and settles
the 64 of the turn before. LMDB is only measured if the package is there; the broker doesn't need it.
"""

import argparse
import resource
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from braidmq.messages.message import Message
from braidmq.store.durable import DurableStore
from braidmq.store.records import QUEUED, SENT, SESSION, SETTLED, Record

TURN_MESSAGES = 64
PAYLOAD_BYTES = 100


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
        self.store.load()
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


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m bench.engines_bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args(argv)
    for syncs in (False, True):
        for name in ENGINES:
            measure_engine(name, syncs=syncs, seconds=given.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
