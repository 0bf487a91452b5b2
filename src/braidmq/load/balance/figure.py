"""The waits of every run drawn: a panel a trial, a bar a contender, the p99 as a mark."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from braidmq.load.balance.outcome import Outcome
from braidmq.load.balance.plan import TRIALS
from braidmq.sim.optional import load

_BAR: Final = "#1b6ca8"
_LEAST_MS: Final = 0.1  # a logarithmic axis has no zero


def draw(outcomes: Sequence[Outcome], path: Path) -> None:
    matplotlib = load("matplotlib", "figures", "'braidmq[sim]'")
    matplotlib.use("Agg")
    plt = load("matplotlib.pyplot", "figures", "'braidmq[sim]'")
    names = list(dict.fromkeys(outcome.trial for outcome in outcomes))
    figure, panels = plt.subplots(
        len(names), 1, figsize=(6.4, 1.9 * len(names) + 0.4), layout="constrained", squeeze=False, sharex=True
    )
    for panel, name in zip(panels[:, 0], names, strict=True):
        of_trial = [outcome for outcome in outcomes if outcome.trial == name]
        places = range(len(of_trial))
        means = [max(outcome.waits.mean_ms, _LEAST_MS) for outcome in of_trial]
        panel.barh(places, means, color=_BAR, label="mean")
        panel.plot([max(outcome.waits.p99_ms, _LEAST_MS) for outcome in of_trial], places, "k|",
                   markersize=12, label="p99")  # fmt: skip
        panel.set_yticks(places, [outcome.contender for outcome in of_trial], fontsize=8)
        panel.invert_yaxis()
        panel.set_xscale("log")
        panel.set_title(f"{name}: {TRIALS[name].scenario.about}", fontsize=9, loc="left")
    panels[-1, 0].set_xlabel("wait, ms")
    panels[0, 0].legend(fontsize=8, frameon=False)
    figure.savefig(path.with_suffix(".png"), dpi=150)
    plt.close(figure)
