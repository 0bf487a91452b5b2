"""How fast the Spark source is: a receiver beside one on paho-mqtt, and Spark beside the same rows in Arrow
files.

    python -m bench.spark_source                 # all of it; results go to bench/results/spark_source.json
    python -m bench.spark_source --no-spark      # the receivers only

**Receivers.** A broker keeps a backlog of QoS 1 messages for a session; one receiver takes it over, writes
each segment durably and acknowledges afterwards. The paho-mqtt receiver does the same work with the usual
means: a callback per message, the same Arrow schema, one fsync and then the acknowledgements per segment.
What counts is messages per CPU second of the receiver, from its start-up on but without it (a run with an
empty backlog).

**Spark.** The same rows are written to Parquet twice in one Spark session: once from ready Arrow files by
the simplest Python source there is (the ceiling), once by format "mqtt" from the receivers' log. Rounds
take turns.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil

from bench.report import machine
from braidmq.client import BlockingClient
from braidmq.spark.options import BrokerAddress, Connection
from braidmq.spark.tasks import ReceiverTask
from braidmq.spark.wal import Wal

RESULTS = Path(__file__).parent / "results" / "spark_source.json"
PAYLOAD_BYTES = 200
TOPICS = 100
WAIT_S = 300.0
POLL_S = 0.02


# -- the broker and its backlog ------------------------------------------------------------------------------


@contextmanager
def broker(folder: Path, messages: int) -> Iterator[int]:
    limits = {
        "queue_messages_max": messages + 1_000,
        "queue_bytes_max": (messages + 1_000) * 1_000,
        "inflight_max": 65_535,
        "receive_maximum": 65_535,
    }
    config = folder / "broker.toml"
    config.write_text("[limits]\n" + "".join(f"{name} = {value}\n" for name, value in limits.items()))
    log = folder / "broker.log"
    command = [
        sys.executable,
        "-m",
        "braidmq",
        "serve",
        "--in-memory",
        "--port",
        "0",
        "--config",
        str(config),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        until(lambda: "listening on" in log.read_text() or process.poll() is not None, "the broker")
        yield int(log.read_text().split("listening on 127.0.0.1:")[1].split()[0].rstrip(",."))
    finally:
        process.terminate()
        process.wait()


def until(done: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited too long for {what}")
        time.sleep(POLL_S)


def leave_backlog(port: int, client_id: str, messages: int) -> None:
    """A session that has so many messages waiting."""
    session = {"client_id": client_id, "clean_start": False, "session_expiry_s": 3600}
    with BlockingClient([f"127.0.0.1:{port}"], **session) as client:  # type: ignore[arg-type]
        client.subscribe("bench/#", qos=1)
    payload = bytes(PAYLOAD_BYTES - 10)
    with BlockingClient([f"127.0.0.1:{port}"]) as client:
        client.publish_many(
            ((f"bench/device/{number % TOPICS}", payload + b"%010d" % number) for number in range(messages)),
            qos=1,
        )


# -- receivers -----------------------------------------------------------------------------------------------


class Drained(msgspec.Struct, frozen=True, kw_only=True):
    messages: int
    cpu_s: float  # of the receiver's process
    wall_s: float  # from the first message to the last


def ours(port: int, client_id: str, messages: int, folder: Path) -> Drained:
    address = BrokerAddress("127.0.0.1", port, False)
    task = ReceiverTask(
        subscriber=client_id,
        broker=address,
        connection=Connection(brokers=(address,)),
        subscriptions=("bench/#",),
        qos=1,
        session_expiry_s=3600,
        receive_maximum=16_384,
        wal_location=str(folder),
        wal_bytes_max=8 << 30,
        segment_delay_s=0.1,
        dedup="auto",
    )
    command = [sys.executable, "-m", "braidmq.spark.receiver"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(task) + b"\n")
    process.stdin.flush()
    wal = Wal(str(folder))
    return drained(process, messages, lambda: sum(segment.rows for segment in wal.log(client_id)))


def paho(port: int, client_id: str, messages: int, folder: Path) -> Drained:
    command = [sys.executable, "-m", "bench.paho_receiver", str(port), client_id, str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    counter = folder / "rows"
    return drained(process, messages, lambda: int(counter.read_text() or 0) if counter.exists() else 0)


def drained(process: "subprocess.Popen[bytes]", messages: int, rows: Callable[[], int]) -> Drained:
    watched = psutil.Process(process.pid)
    try:
        if messages:
            until(rows, "the first row")
        began = time.monotonic()
        until(lambda: rows() >= messages, "all rows")
        used = watched.cpu_times()
        return Drained(messages=messages, cpu_s=used.user + used.system, wall_s=time.monotonic() - began)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


Drain = Callable[[int, str, int, Path], Drained]


def measure_receiver(name: str, drain: Drain, messages: int, folder: Path) -> dict[str, float]:
    """Messages per CPU second, start-up taken off: what a receiver costs that has nothing to do."""
    with broker(folder, messages) as port:
        leave_backlog(port, f"{name}-few", 1)
        few = drain(port, f"{name}-few", 1, made(folder / f"{name}-few"))
        leave_backlog(port, f"{name}-many", messages)
        many = drain(port, f"{name}-many", messages, made(folder / f"{name}-many"))
    cpu_s = max(many.cpu_s - few.cpu_s, 1e-3)
    return {
        "messages": messages,
        "cpu_s": round(cpu_s, 3),
        "start_up_cpu_s": round(few.cpu_s, 3),
        "messages_per_cpu_s": round(messages / cpu_s),
        "messages_per_s": round(messages / max(many.wall_s, 1e-3)),
    }


def made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def compare_receivers(messages: int, paho_messages: int, rounds: int) -> dict[str, Any]:
    samples: dict[str, list[dict[str, float]]] = {"braidmq": [], "paho": []}
    for _ in range(rounds):
        for name, drain, count in (("braidmq", ours, messages), ("paho", paho, paho_messages)):
            with tempfile.TemporaryDirectory(prefix="braidmq-bench-") as folder:
                samples[name].append(measure_receiver(name, drain, count, Path(folder)))
                print(f"{name:8} {samples[name][-1]}", flush=True)
    rates = {
        name: statistics.median(run["messages_per_cpu_s"] for run in runs) for name, runs in samples.items()
    }
    return {
        "payload_bytes": PAYLOAD_BYTES,
        "messages_per_cpu_s": rates["braidmq"],
        "times_paho": round(rates["braidmq"] / rates["paho"], 1),
        "samples": samples,
    }


# -- Spark ---------------------------------------------------------------------------------------------------


def compare_with_arrow_files(rows: int, rounds: int) -> dict[str, Any]:
    from bench.spark_ceiling import SparkBench

    samples: dict[str, list[dict[str, float]]] = {"mqtt": [], "arrow files": []}
    with tempfile.TemporaryDirectory(prefix="braidmq-bench-") as name:
        folder = Path(name)
        with broker(folder, rows) as port:
            leave_backlog(port, f"bench-127.0.0.1_{port}-0", rows)
            bench = SparkBench(folder, port, "bench/#", rows)
            bench.receive()
            bench.start()  # warms both up
            for _ in range(rounds):
                for contender, run in bench.contenders.items():
                    samples[contender].append(run())
                    print(f"{contender:12} {samples[contender][-1]}", flush=True)
            bench.stop()
    wall = {name: statistics.median(run["rows_per_s"] for run in runs) for name, runs in samples.items()}
    cpu = {name: statistics.median(run["rows_per_cpu_s"] for run in runs) for name, runs in samples.items()}
    return {
        "rows": rows,
        "share_of_ceiling_wall": round(wall["mqtt"] / wall["arrow files"], 3),
        "share_of_ceiling_cpu": round(cpu["mqtt"] / cpu["arrow files"], 3),
        "samples": samples,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--messages", type=int, default=400_000, help="backlog of our receiver")
    parser.add_argument("--paho-messages", type=int, default=30_000, help="backlog of paho's")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows for Spark")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-spark", action="store_true")
    parser.add_argument("--no-receivers", action="store_true")
    parser.add_argument("--output", type=Path, default=RESULTS)
    asked = parser.parse_args()
    results: dict[str, Any] = {"machine": machine() | {"load": os.getloadavg()[0]}}
    if not asked.no_receivers:
        results["receiver"] = compare_receivers(asked.messages, asked.paho_messages, asked.rounds)
    if not asked.no_spark:
        results["spark"] = compare_with_arrow_files(asked.rows, asked.rounds)
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    asked.output.write_text(json.dumps(results, indent=2) + "\n")
    summary = {key: value for part in results.values() for key, value in part.items() if key != "samples"}
    print(json.dumps(summary, indent=2))


if __name__ == "__main__":
    main()
