"""Figures 5, 6 and 7 of the paper from our runs, and those of our own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from braidmq.sim.overlay.paths import SG_TBPS, SINGLE, PathRow
from braidmq.sim.report import pyplot, save_png

_STYLES: dict[str, dict[str, Any]] = {
    SINGLE: {"color": "#444444", "marker": "", "linestyle": ":"},
    "CAN-MC d=5": {"color": "#c0a060", "marker": "^", "linestyle": "--"},
    "Bayeux b=4": {"color": "#999999", "marker": "x", "linestyle": "--"},
    "Scribe b=1": {"color": "#7570b3", "marker": "s"},
    "Scribe b=4": {"color": "#7570b3", "marker": "s", "markerfacecolor": "white"},
    SG_TBPS: {"color": "#d95f02", "marker": "^"},
    "P, L=60": {"color": "#1b6ca8", "marker": "o"},
    "P, L=120": {"color": "#1b6ca8", "marker": "o", "markerfacecolor": "white"},
    "F, L=60": {"color": "#1b9e77", "marker": "D"},
    "F, L=120": {"color": "#1b9e77", "marker": "D", "markerfacecolor": "white"},
}


def draw_paths(title: str, rows: Sequence[PathRow], measure: str, label: str, path: Path) -> None:
    plt = pyplot()
    figure, panel = plt.subplots(figsize=(7.0, 4.6), layout="constrained")
    for method, style in _STYLES.items():
        line = [row for row in rows if row.method == method]
        if line:
            panel.plot(
                [row.subscribers for row in line],
                [getattr(row, measure) for row in line],
                label=method,
                markersize=5,
                linewidth=1.2,
                **style,
            )
    _finish(panel, label)
    figure.legend(loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    panel.set_title(title, fontsize=10)
    save_png(plt, figure, path)


def draw_delays(rows: Sequence[PathRow], path: Path) -> None:
    """Figure 7: the paper's model, and beside it the same costs with every child waiting for its turn."""
    plt = pyplot()
    figure, panels = plt.subplots(1, 2, figsize=(10.0, 4.8), layout="constrained", sharey=True)
    measures = (("model_ms", "the paper's model"), ("exact_mean_ms", "child after child, real fan-outs"))
    for panel, (measure, title) in zip(panels, measures, strict=True):
        for method, style in _STYLES.items():
            line = [row for row in rows if row.method == method and getattr(row, measure) > 0]
            if line and not method.startswith(("CAN", "Bayeux")):
                panel.plot(
                    [row.subscribers for row in line],
                    [getattr(row, measure) for row in line],
                    label=method,
                    markersize=5,
                    linewidth=1.2,
                    **style,
                )
        _finish(panel, "mean delay, ms")
        panel.set_yscale("log")
        panel.set_title(title, fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    figure.suptitle("Figure 7: delay", fontsize=10)
    save_png(plt, figure, path)


def _finish(panel: Any, label: str) -> None:
    panel.set_xscale("log", base=2)
    panel.set_xlabel("subscribers")
    panel.set_ylabel(label)
    panel.grid(alpha=0.3, linewidth=0.4)
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
