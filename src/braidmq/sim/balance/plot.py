"""The thesis's figures 43 to 47 from our runs, and two of our own. PNG and SVG; same results, same bytes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from braidmq.sim.balance import printed
from braidmq.sim.balance.named import DURATION_S
from braidmq.sim.balance.trial import MS
from braidmq.sim.balance.verdicts import Named, Ratios
from braidmq.sim.balance.world import Outcome
from braidmq.sim.optional import load

_COLORS = ("#1b6ca8", "#d95f02", "#1b9e77", "#7570b3", "#b03060", "#888888")
_GROUPS = ("subscriber-0", "subscriber-1", "subscriber-2", "all")


def draw_latencies(title: str, means_ms: Mapping[str, Sequence[float]], path: Path, thesis: bool) -> None:
    """Figures 43 and 44: mean latency at each subscriber and overall, by policy."""
    plt = _pyplot()
    figure, panel = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    for position, (policy, means) in enumerate(means_ms.items()):
        places = [index + (position - 1) * 0.26 for index in range(len(means))]
        bars = panel.bar(places, means, 0.25, label=policy, color=_COLORS[position])
        panel.bar_label(bars, [_number(mean) for mean in means], fontsize=7)
        if thesis:
            panel.plot([places[-1]], [printed.OVERALL_MS[policy]], marker="*", markersize=11, color="black",
                       markerfacecolor="none", linestyle="none",
                       label="thesis, overall" if position == 0 else None)  # fmt: skip
    panel.set_yscale("log")
    panel.set_xticks(range(len(_GROUPS)), _GROUPS)
    panel.set_ylabel("mean latency, ms")
    figure.legend(loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    panel.set_title(title, fontsize=10)
    _save(plt, figure, path)


def draw_given(title: str, counts: Sequence[Sequence[int]], path: Path) -> None:
    """Figure 45: messages given to each subscriber, second by second."""
    plt = _pyplot()
    figure, panel = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    for subscriber, of_one in enumerate(counts):
        panel.plot(range(1, len(of_one) + 1), of_one, marker="o", markersize=3, color=_COLORS[subscriber],
                   label=_GROUPS[subscriber])  # fmt: skip
    _finish(plt, figure, panel, title, "time, s", "messages a second", path)


def draw_processing(title: str, outcome: Outcome, path: Path) -> None:
    """Figure 46: the mean processing time that the broker knows of each subscriber."""
    plt = _pyplot()
    figure, panel = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    for subscriber in range(len(outcome.given)):
        known = [(time, mean_s * MS) for time, index, mean_s in outcome.reports if index == subscriber]
        known = [point for point in known if point[0] <= DURATION_S]
        panel.step([time for time, _ in known], [mean for _, mean in known], where="post", marker="o",
                   markersize=3, color=_COLORS[subscriber], label=_GROUPS[subscriber])  # fmt: skip
    _finish(plt, figure, panel, title, "time, s", "known processing time, ms", path)


def draw_messages(title: str, outcome: Outcome, path: Path) -> None:
    """Figure 47: the latency of each message."""
    plt = _pyplot()
    figure, panel = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    for subscriber in range(len(outcome.given)):
        numbers = [number for number, index in enumerate(outcome.member) if index == subscriber]
        panel.plot(numbers, [outcome.wait_s[number] * MS for number in numbers], linestyle="none", marker=".",
                   markersize=2, color=_COLORS[subscriber], label=_GROUPS[subscriber])  # fmt: skip
    _finish(plt, figure, panel, title, "message", "latency, ms", path)


def draw_named(title: str, results: Named, path: Path) -> None:
    """Mean wait of each method in each scenario, ours filled and the reference hollow."""
    plt = _pyplot()
    scenarios = list(dict.fromkeys(scenario for scenario, _ in results))
    methods = list(dict.fromkeys(method for _, method in results))
    figure, panel = plt.subplots(figsize=(10.0, 4.8), layout="constrained")
    for position, method in enumerate(methods):
        places = [index + (position - len(methods) / 2) * 0.075 for index in range(len(scenarios))]
        color = plt.get_cmap("tab20")(position)
        means = [results[scenario, method].wait_mean_ms for scenario in scenarios]
        panel.plot(places, means, linestyle="none", marker="o", markersize=5, color=color, label=method)
        reference = printed.WAITS_MS.get(method, {})
        known = [(place, reference[name][0]) for place, name in zip(places, scenarios, strict=True)
                 if name in reference]  # fmt: skip
        panel.plot([place for place, _ in known], [mean for _, mean in known], linestyle="none", marker="o",
                   markersize=8, markerfacecolor="none", color=color, alpha=0.6)  # fmt: skip
    panel.set_yscale("log")
    panel.set_xticks(range(len(scenarios)), scenarios, fontsize=8)
    panel.set_ylabel("mean wait, ms (hollow: reference)")
    panel.grid(axis="y", alpha=0.3, linewidth=0.4)
    figure.legend(loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    panel.set_title(title, fontsize=10)
    _save(plt, figure, path)


def draw_ratios(title: str, ratios: Mapping[str, Ratios], path: Path) -> None:
    """Geometric mean and worst case of each method over the ideal queue."""
    plt = _pyplot()
    figure, panel = plt.subplots(figsize=(8.0, 5.2), layout="constrained")
    rows = list(ratios.values())[::-1]
    places = range(len(rows))
    panel.barh(places, [row.geometric_mean for row in rows], 0.6, color=_COLORS[0], label="geometric mean")
    panel.plot([row.worst for row in rows], places, linestyle="none", marker="|", markersize=10,
               color=_COLORS[1], label="worst")  # fmt: skip
    for place, row in zip(places, rows, strict=True):
        panel.annotate(f"{row.geometric_mean:.2f}", (row.geometric_mean, place), xytext=(3, -3),
                       textcoords="offset points", fontsize=7)  # fmt: skip
    panel.set_xscale("log")
    panel.set_yticks(places, [row.method for row in rows], fontsize=8)
    panel.set_xlabel("completion over that of the ideal queue")
    panel.legend(fontsize=8, frameon=False)
    panel.set_title(title, fontsize=10)
    _save(plt, figure, path)


def _finish(plt: Any, figure: Any, panel: Any, title: str, x: str, y: str, path: Path) -> None:
    panel.set_xlabel(x)
    panel.set_ylabel(y)
    panel.grid(alpha=0.3, linewidth=0.4)
    panel.legend(fontsize=8, frameon=False)
    panel.set_title(title, fontsize=10)
    _save(plt, figure, path)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _pyplot() -> Any:
    matplotlib = load("matplotlib", "The figures", "'braidmq[sim]'")
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "braidmq", "font.size": 9})
    return load("matplotlib.pyplot", "The figures", "'braidmq[sim]'")


def _save(plt: Any, figure: Any, path: Path) -> None:
    figure.savefig(path.with_suffix(".png"), dpi=80, metadata={"Software": None})
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    plt.close(figure)
