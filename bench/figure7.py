"""Figure 7 of the paper on interest filters: what questions to a filter cost a broker.

python -m bench.figure7 [--seconds 3] [--out docs/experiments/bloom]

First as in the paper: 0 to 10,000 questions to a Bloom filter for each PUBLISH, one publisher, one
subscriber, 1,024 bytes. Then with the search itself, as each method does it over 6,000 filters of 10 levels.
Throughput is taken flat out; latency at half the lowest throughput, the same rate for all.
"""

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.contenders import free_port, started
from bench.measure import drive
from bench.probing_broker import METHODS
from braidmq.load.case import Case, Result
from braidmq.sim.optional import load

QUERIES = (0, 1, 10, 100, 1_000, 10_000)
PAYLOAD_BYTES = 1024
WINDOW = 1000  # undelivered messages: latency under load is the broker's, not that of endless queues
TOPIC = "bench/topic"
METHOD_COLORS = ("#888888", "#d95f02", "#1b6ca8", "#1b9e77")


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """What one broker showed."""

    work: str  # questions a PUBLISH, or the method that searches
    delivered_per_s: float
    mean_latency_us: float
    p99_latency_us: float


def flat_out(seconds: float) -> Case:
    return Case(
        topics=(TOPIC,), subscriptions=(TOPIC,), payload_bytes=PAYLOAD_BYTES, window=WINDOW, batch=16,
        steady_s=seconds,
    )


def measure(work: str, case: Case) -> Result:
    """One run against a broker that does this work for each PUBLISH."""
    port = free_port()
    option = "--queries" if work.isdigit() else "--method"
    command = [sys.executable, "-m", "bench.probing_broker", str(port), option, work]
    with started(work, command, port) as contender:
        return drive(contender, case)


def draw(points: Sequence[Point], path: Path) -> None:
    """The paper's two panels; the methods' searches as lines across them."""
    plt = load("matplotlib.pyplot", "figures", "'braidmq[sim]'")
    plt.switch_backend("Agg")
    figure, panels = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
    asked = [point for point in points if point.work.isdigit()]
    for panel, field, label in zip(
        panels, ("delivered_per_s", "mean_latency_us"), ("messages/s", "mean latency, µs"), strict=True
    ):
        panel.plot([int(point.work) for point in asked], [getattr(point, field) for point in asked],
                   color="#444444", marker="o")
        for color, point in zip(METHOD_COLORS, points[len(asked):], strict=True):
            panel.axhline(getattr(point, field), color=color, linewidth=1, label=f"{point.work} search")
        panel.set_xscale("symlog")
        panel.set_xlim(-0.3, 2 * QUERIES[-1])
        panel.set_yscale("log")
        panel.set_xlabel("questions to the filter for each PUBLISH")
        panel.set_ylabel(label)
        panel.grid(alpha=0.3, linewidth=0.4)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(METHODS), fontsize=8, frameon=False)
    figure.savefig(path.with_suffix(".png"), dpi=110)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    plt.close(figure)


def store(points: Sequence[Point], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Point.__struct_fields__)
        for point in points:
            writer.writerow([point.work, *(f"{value:.1f}" for value in msgspec.structs.astuple(point)[1:])])


def show(points: Sequence[Point]) -> None:
    table = Table("work for each PUBLISH", "messages/s", "mean latency, µs", "p99, µs", title="Figure 7")
    for point in points:
        work = f"{point.work} questions" if point.work.isdigit() else f"{point.work} search"
        table.add_row(work, f"{point.delivered_per_s:,.0f}", f"{point.mean_latency_us:,.0f}",
                      f"{point.p99_latency_us:,.0f}")
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--out", type=Path, default=Path("docs/experiments/bloom"))
    given = parser.parse_args()
    works = [*map(str, QUERIES), *METHODS]
    case = flat_out(given.seconds)
    quiet = not sys.stderr.isatty()
    rates = [measure(work, case).delivered_per_s for work in track(works, "throughput", disable=quiet)]
    paced = msgspec.structs.replace(case, rate_per_s=min(rates) / 2, batch=1)
    latencies = [measure(work, paced).latency for work in track(works, "latency", disable=quiet)]
    points = [
        Point(work=work, delivered_per_s=rate, mean_latency_us=latency.mean_us, p99_latency_us=latency.p99_us)
        for work, rate, latency in zip(works, rates, latencies, strict=True)
    ]
    given.out.mkdir(parents=True, exist_ok=True)
    store(points, given.out / "figure7.csv")
    draw(points, given.out / "figure7")
    show(points)


if __name__ == "__main__":
    main()
