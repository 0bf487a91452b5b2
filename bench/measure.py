"""Drives the contenders by turns and keeps what each run showed. Decides nothing about good or bad."""

import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import msgspec

from bench import contenders
from bench.cases import TRIE_FILTERS, UNPIPELINED, Row
from bench.contenders import BROKER_CORE, GENERATOR_CORE, BenchError, Contender, pinned
from bench.worker import Errand
from braidmq.load.case import Case, Result

WARM_UP_CONNECTIONS = 10
LIMIT_ROUNDS_MAX = 3
MEMORY_ROUNDS_MAX = 3
DISTURBED_MAX = 0.05  # a run whose processes waited for a CPU longer than this share of it is done again
ATTEMPTS = 3
START_AND_STOP_MAX_S = 120.0
ANOTHER = "the other BraidMQ"

Starter = Callable[[], AbstractContextManager[Contender]]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How long and how often; the protocol level and the rest of each load come from its row."""

    rounds: int = 5
    seconds: float = 3.0
    ramp_s: float = 0.5
    version: int = 5
    ours: str = "braidmq"
    against: str = ""  # a checkout of BraidMQ that takes Mosquitto's place, so that a change can be judged


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    value: float  # deliveries/s, p99 in µs, or KiB per connection
    cpu_s_per_million: float = 0.0  # of the broker, for a million deliveries
    broker_busy: float = 0.0  # share of the time in which it ran or wanted to
    generator_busy: float = 0.0  # share of the time in which it had something to do; it spins in the rest
    generator_cpu_s: float = 0.0
    disturbed: float = 0.0
    delivery_ratio: float = 1.0
    duplicates: int = 0
    order_faults: int = 0
    refused: int = 0
    foreign: int = 0
    broken_links: int = 0
    p50_us: float = 0.0
    p99_us: float = 0.0
    p999_us: float = 0.0


class Side(msgspec.Struct, frozen=True):
    """All the runs of one contender."""

    name: str
    samples: tuple[Sample, ...]

    def median(self, field: str = "value") -> float:
        return statistics.median([float(getattr(sample, field)) for sample in self.samples])

    @property
    def spread(self) -> float:
        """Half the distance of the extremes, as a share of the median."""
        values = [sample.value for sample in self.samples]
        return (max(values) - min(values)) / 2 / self.median() if self.median() else 0.0


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What one row showed."""

    row: Row
    ours: Side
    theirs: Side | None = None
    relay: Side | None = None  # bare uvloop, the same bytes
    ceiling: Side | None = None  # bare C: what the generator can do
    rate_per_s: float = 0.0  # of the latency row


def drive(contender: Contender, case: Case, others: tuple[Contender, ...] = ()) -> Result:
    """One run of the generator, in a process on its own core; `others` are looked at too."""
    case = msgspec.structs.replace(case, port=contender.port)
    with pinned(GENERATOR_CORE):
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    time_max_s = case.ramp_s + case.steady_s + case.drain_max_s + START_AND_STOP_MAX_S
    try:
        output, complaint = process.communicate(
            msgspec.json.encode(Errand(case, contender.pid, tuple(one.pid for one in others))),
            timeout=time_max_s,
        )
    finally:
        process.kill()
    if process.returncode:
        raise BenchError(f"{contender.name}: {complaint.decode(errors='replace').strip()}")
    return msgspec.json.decode(output, type=Result)


def summarise(row: Row, result: Result) -> Sample:
    before, begin, end = (result.probes[moment] for moment in ("before", "begin", "end"))
    cpu_s = end["cpu_s"] - begin["cpu_s"]
    waited_s = max(end[key] - begin[key] for key in ("waited_s", "generator_waited_s"))
    value = {
        "throughput": result.delivered_per_s,
        "latency": result.latency.p99_us,
        "memory": (begin["resident_bytes"] - before["resident_bytes"]) / 1024 / max(1, row.load.idle),
    }[row.kind]
    return Sample(
        value=value,
        cpu_s_per_million=cpu_s * 1e6 / result.steady_delivered if result.steady_delivered else 0.0,
        broker_busy=(cpu_s + end["waited_s"] - begin["waited_s"]) / result.steady_s,
        generator_busy=result.generator_busy,
        generator_cpu_s=result.generator_cpu_s,
        disturbed=waited_s / result.steady_s,
        delivery_ratio=result.delivery_ratio,
        duplicates=result.duplicates,
        order_faults=result.order_faults,
        refused=result.refused,
        foreign=result.foreign,
        broken_links=result.broken_links,
        p50_us=result.latency.p50_us,
        p99_us=result.latency.p99_us,
        p999_us=result.latency.p999_us,
    )


def sample(row: Row, contender: Contender, case: Case) -> Sample:
    """The least disturbed of a few runs; mostly the first will do."""
    best: Sample | None = None
    for _ in range(ATTEMPTS):
        one = summarise(row, drive(contender, case))
        if best is None or one.disturbed < best.disturbed:
            best = one
        if best.disturbed <= DISTURBED_MAX or row.kind == "memory":
            break
    assert best is not None
    return best


def our_broker(settings: Settings) -> Starter:
    return contenders.mosquitto if settings.ours == "mosquitto" else contenders.braidmq


def their_broker(settings: Settings) -> Starter:
    if settings.against:
        return lambda: contenders.braidmq(name=ANOTHER, checkout=Path(settings.against))
    return contenders.mosquitto


def timed(row: Row, settings: Settings) -> Case:
    if row.kind == "memory":
        return msgspec.structs.replace(row.load, version=settings.version)
    return msgspec.structs.replace(
        row.load, version=settings.version, steady_s=settings.seconds, ramp_s=settings.ramp_s
    )


@contextmanager
def both(settings: Settings) -> Iterator[tuple[Contender, Contender]]:
    with our_broker(settings)() as ours, their_broker(settings)() as theirs:
        yield ours, theirs


def alternate(row: Row, pair: tuple[Contender, Contender], case: Case, rounds: int) -> tuple[Side, Side]:
    """A B A B …, so that whatever drifts hits both."""
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(sample(row, pair[0], case))
        theirs.append(sample(row, pair[1], case))
    return Side(pair[0].name, tuple(ours)), Side(pair[1].name, tuple(theirs))


def limit(row: Row, case: Case, rounds: int, *, bare_c: bool) -> Side:
    with contenders.relay(bare_c=bare_c) as contender:
        runs = [sample(row, contender, case) for _ in range(min(rounds, LIMIT_ROUNDS_MAX))]
        return Side(contender.name, tuple(runs))


def measure_throughput(row: Row, settings: Settings) -> Measured:
    case = timed(row, settings)
    with both(settings) as pair:
        ours, theirs = alternate(row, pair, case, settings.rounds)
    relay, ceiling = (
        (limit(row, case, settings.rounds, bare_c=bare_c) for bare_c in (False, True))
        if row.relayed
        else (None, None)
    )
    return Measured(row=row, ours=ours, theirs=theirs, relay=relay, ceiling=ceiling)


def measure_latency(row: Row, settings: Settings) -> Measured:
    """At half of what the peer can do here and now, each message in a write of its own."""
    with both(settings) as pair:
        flat_out = msgspec.structs.replace(
            UNPIPELINED, version=settings.version, steady_s=settings.seconds, ramp_s=settings.ramp_s
        )
        runs = [drive(pair[1], flat_out) for _ in range(min(settings.rounds, LIMIT_ROUNDS_MAX))]
        rate_per_s = statistics.median(run.delivered_per_s for run in runs) / 2
        case = msgspec.structs.replace(timed(row, settings), rate_per_s=rate_per_s)
        ours, theirs = alternate(row, pair, case, settings.rounds)
    return Measured(row=row, ours=ours, theirs=theirs, rate_per_s=rate_per_s)


def measure_memory(row: Row, settings: Settings) -> Measured:
    """Growth over a few connections, so that what is allocated once for all is not counted."""
    case = timed(row, settings)
    warm_up = msgspec.structs.replace(case, idle=WARM_UP_CONNECTIONS)
    sides: tuple[list[Sample], list[Sample]] = ([], [])
    for _ in range(min(settings.rounds, MEMORY_ROUNDS_MAX)):
        with ExitStack() as running:
            for contender, samples in zip(running.enter_context(both(settings)), sides, strict=True):
                drive(contender, warm_up)
                samples.append(sample(row, contender, case))
    ours, theirs = (tuple(samples) for samples in sides)
    peer = ANOTHER if settings.against else "mosquitto"
    return Measured(row=row, ours=Side(settings.ours, ours), theirs=Side(peer, theirs))


def measure_match(row: Row, settings: Settings) -> Measured:
    """The slower of the trie's two workloads; Mosquitto's own tree can't be asked."""
    try:
        from bench import topics_bench
    except ImportError as error:
        raise BenchError(f"the trie can't be measured: {error}") from error
    with pinned(BROKER_CORE):
        costs_ns = [
            topics_bench.measure_size(workload, TRIE_FILTERS, 1, with_dicts=False)["trie"]["match_ns"]
            for workload in topics_bench.WORKLOADS
        ]
    return Measured(row=row, ours=Side("braidmq", (Sample(value=max(costs_ns) / 1000),)))


def measure(row: Row, settings: Settings) -> Measured:
    by_kind = {
        "throughput": measure_throughput,
        "latency": measure_latency,
        "memory": measure_memory,
        "match": measure_match,
    }
    return by_kind[row.kind](row, settings)
