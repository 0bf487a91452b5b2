"""The figures, drawn as PNG and SVG with the paper's printed values marked."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from braidmq.sim.bloom.hierarchy import MATCH, NO_MATCH
from braidmq.sim.bloom.sweeps import SWEEPS, Row
from braidmq.sim.bloom.theory import PRINTED as PRINTED_NUMBERS
from braidmq.sim.bloom.trial import BF, BFP, BROKER, METHODS, PREFIX, PRINTED
from braidmq.sim.optional import load

_STYLES = {
    BF: {"color": "#888888", "marker": "s"},
    BFP: {"color": "#d95f02", "marker": "^"},
    PREFIX: {"color": "#1b6ca8", "marker": "o"},
    BROKER: {"color": "#1b9e77", "marker": "o", "linestyle": "--", "markerfacecolor": "white"},
    PRINTED: {"color": "#b03060", "marker": "x", "linestyle": ":"},
}
_LABELS = {
    "n_t": "subscriptions $n_t$",
    "n_lv": "levels $n_{lv}$",
    "p_wc": "wildcard probability $p_{wc}$",
    "l_wc": "first wildcard level $l_{wc}$",
}


def draw_sweeps(title: str, rows: Sequence[Row], path: Path) -> None:
    """Four panels, one a sweep, as in the paper."""
    plt = _pyplot()
    figure, panels = plt.subplots(2, 2, figsize=(9.5, 6.8), layout="constrained")
    for letter, panel, sweep in zip("abcd", panels.flat, SWEEPS, strict=True):
        for method in METHODS:
            line = [row for row in rows if row.parameter == sweep.symbol and row.method == method]
            panel.plot([row.value for row in line], [row.queries for row in line],
                       label=method, markersize=4, linewidth=1.2, **_STYLES[method])
        panel.set_yscale("log")
        panel.set_xlabel(f"({letter}) {_LABELS[sweep.symbol]}")
        panel.set_ylabel("queries per topic")
        highest = max(row.queries for row in rows if row.parameter == sweep.symbol)
        panel.set_ylim(0.8, max(12.0, 1.6 * highest))
        panel.minorticks_off()
        panel.grid(alpha=0.3, linewidth=0.4)
        if rows[0].figure == "figure6" and sweep.symbol == "n_lv":
            _mark_printed(panel)
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(METHODS), fontsize=8, frameon=False)
    figure.suptitle(title, fontsize=11)
    _save(plt, figure, path)


def draw_hierarchy(title: str, rows: Sequence[Row], path: Path) -> None:
    """Bars: where `+` may stand, with and without a match."""
    plt = _pyplot()
    figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained", sharey=True)
    settings = sorted({row.value for row in rows})
    for panel, mode in zip(panels, (NO_MATCH, MATCH), strict=True):
        for position, method in enumerate(METHODS):
            heights = [row.queries for value in settings for row in rows
                       if (row.mode, row.value, row.method) == (mode, value, method)]
            places = [index + (position - 2) * 0.16 for index in range(len(settings))]
            bars = panel.bar(places, heights, 0.15, label=method, color=_STYLES[method]["color"])
            panel.bar_label(bars, fmt="%.0f", fontsize=7)
        panel.set_xticks(range(len(settings)), [_place(value) for value in settings], fontsize=8)
        panel.set_yscale("log")
        panel.set_title(mode, fontsize=9)
    panels[0].set_ylabel("queries per topic")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(METHODS), fontsize=8, frameon=False)
    figure.suptitle(title, fontsize=11)
    _save(plt, figure, path)


def _place(plus_anywhere: float) -> str:
    if plus_anywhere == 0:
        return "+ from level 3 on"
    return "+ at any level" if plus_anywhere == 1 else f"{plus_anywhere:.0%} of + at any level"


def _mark_printed(panel: Any) -> None:
    for printed in PRINTED_NUMBERS:
        panel.plot([printed.levels], [printed.value], marker="*", markersize=14, markerfacecolor="none",
                   markeredgecolor="black", linestyle="none", zorder=5)
        panel.annotate(f"paper: {printed.value}", (printed.levels, printed.value), xytext=(-8, 8),
                       textcoords="offset points", ha="right", fontsize=8)


def _pyplot() -> Any:
    matplotlib = load("matplotlib", "The figures", "'braidmq[sim]'")
    matplotlib.use("Agg")
    # The same results give the same file, byte by byte.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "braidmq", "font.size": 9})
    return load("matplotlib.pyplot", "The figures", "'braidmq[sim]'")


def _save(plt: Any, figure: Any, path: Path) -> None:
    figure.savefig(path.with_suffix(".png"), dpi=80, metadata={"Software": None})
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    plt.close(figure)
