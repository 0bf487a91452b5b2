"""What keeping costs, and what it buys: `make bench`, or one part of it:

    python -m bench.durability rate       # QoS 1 into a persistent session: kept, in memory, and Mosquitto
    python -m bench.durability restart    # ready after a restart with 100,000 sessions and 1,000,000 messages
    python -m bench.durability memory     # 200,000 waiting messages of 1 KiB, with a bound of 8 MiB
    python -m bench.durability all        # all of them; stored in bench/results/durability.json

Mosquitto has its persistence on and saves once a second. So `kill -9` costs it up to a second of what it has
acknowledged, and ours nothing: in mode process every acknowledgement waits until the operating system has the
message.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec

from bench import contenders, report
from bench.cases import Row, acknowledged
from bench.contenders import BenchError, find_mosquitto
from bench.measure import Sample, Settings, Side, sample
from bench.worker import process_use
from braidmq.store.durable import QUEUE_MEMORY_BYTES_MAX

RESULTS = Path(__file__).parent / "results" / "durability.json"
LASTING = msgspec.structs.replace(acknowledged(1), session_expiry_s=3600)
SESSIONS, MESSAGES = 100_000, 1_000_000
BOUND_BYTES = 8 * 1024 * 1024
BOUND_MESSAGES, BOUND_SESSIONS, BOUND_PAYLOAD_BYTES = 200_000, 100, 1024


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """One figure and what it should be."""

    name: str
    title: str
    figure: float
    unit: str
    goal: float
    at_least: bool
    sides: dict[str, Side] = {}
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        reached = self.figure >= self.goal if self.at_least else self.figure <= self.goal
        return "reached" if reached else "short"

    @property
    def text(self) -> str:
        sign = "≥" if self.at_least else "≤"
        goal = f"{sign} {self.goal:.3g}{self.unit}"
        return f"{self.title}: {self.figure:.3g}{self.unit}, goal {goal}: {self.verdict}"


# ---- rate --------------------------------------------------------------------------------------------


def measure_rate(settings: Settings) -> Iterator[Goal]:
    """The same load in turn for ours in memory, in both modes of keeping, and Mosquitto."""
    row = Row(name="kept", title="QoS 1 into a persistent session", kind="throughput", goal=0.5, load=LASTING)
    case = msgspec.structs.replace(LASTING, steady_s=settings.seconds, ramp_s=settings.ramp_s)
    with ExitStack() as running:
        runners = [
            running.enter_context(starter)
            for starter in (
                contenders.braidmq(name="in memory"),
                contenders.durable_braidmq("process"),
                contenders.durable_braidmq("fsync"),
                contenders.mosquitto(saves=True),
            )
        ]
        samples: dict[str, list[Sample]] = {runner.name: [] for runner in runners}
        for _ in range(settings.rounds):
            for runner in runners:
                samples[runner.name].append(sample(row, runner, case))
    sides = {name: Side(name, tuple(found)) for name, found in samples.items()}
    for side in sides.values():
        cost_us = side.median("cpu_s_per_million")
        print(f"  {side.name:10} {side.median():12,.0f} messages/s {cost_us:8.2f} µs CPU each", flush=True)
    yield from rate_goals(sides)


def rate_goals(sides: dict[str, Side]) -> Iterator[Goal]:
    notes = tuple(note for side in sides.values() for note in (*report.faults(side), *report.doubts(side)))
    pairs: tuple[tuple[str, str, str, float], ...] = (
        ("kept", "process ÷ in memory", "in memory", 0.5),
        ("mosquitto", "process ÷ Mosquitto that saves each second", "mosquitto", 3.0),
    )
    for name, title, other, goal in pairs:
        figure = sides["process"].median() / max(1.0, sides[other].median())
        yield Goal(
            name=name, title=title, figure=figure, unit="", goal=goal, at_least=True, sides=sides, notes=notes
        )


# ---- restart and memory ------------------------------------------------------------------------------


def measure_restart(sessions: int, messages: int) -> Iterator[Goal]:
    """With the messages, and without them, to know what memory is theirs."""
    took_s, resident = restarted(sessions, messages)
    _, without = restarted(sessions, 0)
    title = f"restart with {sessions:,} sessions and {messages:,} messages of 100 bytes"
    yield Goal(name="restart", title=title, figure=took_s, unit=" s", goal=10, at_least=False)
    yield Goal(
        name="restart-memory", title="resident memory that the messages add after it",
        figure=(resident - without) / 1e6, unit=" MB", goal=3 * QUEUE_MEMORY_BYTES_MAX / 1e6, at_least=False,
    )


def restarted(sessions: int, messages: int) -> tuple[float, float]:
    """Seconds until a broker is ready, and the memory that it has then."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        run_fill(directory, sessions, messages)
        began_s = time.monotonic()
        with contenders.braidmq("--data-dir", directory) as broker:
            took_s = time.monotonic() - began_s
            return took_s, process_use(broker.pid)["resident_bytes"]


def run_fill(directory: str, *numbers: int) -> int:
    """Fill a data directory, in a process of its own; by how many bytes that process has grown."""
    command = [sys.executable, "-m", "bench.durability_fill", directory, *map(str, numbers)]
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def measure_memory() -> Iterator[Goal]:
    """How much the memory grows while the messages are published to absent sessions."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        growth = run_fill(directory, BOUND_SESSIONS, BOUND_MESSAGES, BOUND_PAYLOAD_BYTES, BOUND_BYTES)
    title = f"growth by {BOUND_MESSAGES:,} waiting messages of {BOUND_PAYLOAD_BYTES} bytes"
    yield Goal(name="memory", title=title, figure=growth / 1e6, unit=" MB", goal=60, at_least=False)


# ---- all of it ---------------------------------------------------------------------------------------


def parts(given: argparse.Namespace) -> dict[str, Callable[[], Iterator[Goal]]]:
    settings = Settings(rounds=given.rounds, seconds=given.seconds)
    return {
        "rate": lambda: measure_rate(settings),
        "restart": lambda: measure_restart(given.sessions, given.messages),
        "memory": measure_memory,
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "python -m bench.durability",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=("rate", "restart", "memory", "all"))
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--out", type=Path, help="where to store JSON (all: bench/results/durability.json)")
    given = parser.parse_args(argv)
    if find_mosquitto() is None and given.what in ("rate", "all"):
        print(contenders.MOSQUITTO_MISSING, file=sys.stderr)
        return 1
    goals: list[Goal] = []
    try:
        for name, part in parts(given).items():
            if given.what in (name, "all"):
                for goal in part():
                    print(goal.text, *goal.notes, sep="\n  ", flush=True)
                    goals.append(goal)
    except BenchError as error:
        print(error, file=sys.stderr)
        return 1
    out = given.out or (RESULTS if given.what == "all" else None)
    if out:
        store(out, given, goals)
    return 0


def store(path: Path, given: argparse.Namespace, goals: list[Goal]) -> None:
    settings = {key: getattr(given, key) for key in ("seconds", "rounds", "sessions", "messages")}
    rows = [msgspec.to_builtins(goal) | {"verdict": goal.verdict} for goal in goals]
    report.write(path, settings, rows)


if __name__ == "__main__":
    sys.exit(main())
