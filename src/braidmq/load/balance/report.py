"""Tables on the terminal, JSON, and whether the goals are met."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from braidmq.load.balance.outcome import Outcome
from braidmq.load.balance.plan import MOSQUITTO, ROUND_ROBIN, TRIALS
from braidmq.sim.balance import printed
from braidmq.sim.balance.verdicts import Verdict

ROUND_ROBIN_MS: Final = (1460.0, 1520.0)  # scenario 2
MEAN_MS_MAX: Final = {"status": 55.0, "status2": 40.0, "least_inflight": 20.0, "adaptive": 20.0}  # scenario 2
ADAPTIVE_P99_MS_MAX: Final = 35.0
SCENARIO_1_MS_MAX: Final = 2.0  # all but random
NOISE_MS: Final = 1.0  # where nobody waits, the machine decides
PERCENT: Final = 100.0


def write_json(path: Path, command: str, outcomes: Sequence[Outcome], found: Sequence[Verdict]) -> None:
    record = {"command": command, "outcomes": outcomes, "verdicts": found}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")


def print_tables(console: Console, outcomes: Sequence[Outcome]) -> None:
    for name in dict.fromkeys(outcome.trial for outcome in outcomes):
        of_trial = [outcome for outcome in outcomes if outcome.trial == name]
        is_fault = of_trial[0].recovery_s is not None
        table = Table(title=f"{name}: {TRIALS[name].scenario.about}", box=SIMPLE_HEAD, title_justify="left")
        columns = fault_row if is_fault else thesis_row
        for heading in columns(of_trial[0], of_trial):
            table.add_column(heading, justify="left" if heading == "" else "right")
        for outcome in of_trial:
            table.add_row(*columns(outcome, of_trial).values())
        console.print(table)
    overrun_ms = max((outcome.overrun_mean_ms for outcome in outcomes), default=0.0)
    late_ms = max((outcome.late_most_ms for outcome in outcomes), default=0.0)
    console.print(
        f"Waits in ms, mean/p99. In the worst run the machine added {overrun_ms:.2f} ms to a message's work; "
        f"the publisher was late by {late_ms:.1f} ms at most.",
        highlight=False,
    )


def thesis_row(outcome: Outcome, of_trial: Sequence[Outcome]) -> dict[str, str]:
    row = {"": outcome.contender, "QoS": str(outcome.qos), "mean": number(outcome.waits.mean_ms),
           "p99": number(outcome.waits.p99_ms)}  # fmt: skip
    for index, member in enumerate(outcome.members):
        row[f"member {index}"] = f"{number(member.waits.mean_ms)}/{number(member.waits.p99_ms)}"
    row["messages"] = "/".join(str(member.waits.messages) for member in outcome.members)
    saved = reduction(outcome, of_trial)
    row["less than RR"] = "" if saved is None else f"{saved * PERCENT:.1f} %"
    thesis_ms = printed.OVERALL_MS.get(outcome.contender) if outcome.trial == "2" else None
    row["thesis"] = "" if thesis_ms is None else f"{thesis_ms:g}"
    return row


def fault_row(outcome: Outcome, of_trial: Sequence[Outcome]) -> dict[str, str]:
    return {
        "": outcome.contender,
        "mean": number(outcome.waits.mean_ms),
        "p99": number(outcome.waits.p99_ms),
        "most": number(outcome.waits.most_ms),
        "messages": "/".join(str(member.waits.messages) for member in outcome.members),
        "lost": str(outcome.lost),
        "doubled": str(outcome.doubled),
        "recovered after": f"{outcome.recovery_s:.1f} s",
    }


def number(value_ms: float) -> str:
    return f"{value_ms:.0f}" if value_ms >= 100 else f"{value_ms:.1f}"


def reduction(outcome: Outcome, of_trial: Sequence[Outcome]) -> float | None:
    """The share of round robin's mean wait that is saved, where there is something to save."""
    base = next((other for other in of_trial if other.contender == ROUND_ROBIN), None)
    if base is None or base is outcome or base.waits.mean_ms < SCENARIO_1_MS_MAX:
        return None
    return 1 - outcome.waits.mean_ms / base.waits.mean_ms


def verdicts(outcomes: Sequence[Outcome]) -> list[Verdict]:
    """On what was run; the goals are for runs of full length."""
    results = {(outcome.trial, outcome.contender): outcome for outcome in outcomes}
    found = [verdict for key, outcome in results.items() for verdict in _goals(*key, outcome)]
    for (trial, contender), outcome in results.items():
        if outcome.recovery_s is not None and contender not in (MOSQUITTO, ROUND_ROBIN):
            found += _against(outcome, results.get((trial, MOSQUITTO)))
            found.append(_nothing_lost(outcome))
    return found


def _goals(trial: str, contender: str, outcome: Outcome) -> list[Verdict]:
    mean_ms, p99_ms = outcome.waits.mean_ms, outcome.waits.p99_ms
    if trial == "1" and contender != "random":
        return [_at_most("scenario 1", contender, "mean", mean_ms, SCENARIO_1_MS_MAX)]
    if trial != "2":
        return []
    if contender == ROUND_ROBIN:
        least, most = ROUND_ROBIN_MS
        claim = f"scenario 2, {contender}: mean wait {least:.0f} to {most:.0f} ms, as in the thesis (1492.3)"
        return [Verdict(claim, f"{mean_ms:.1f} ms", least <= mean_ms <= most)]
    found = []
    if contender in MEAN_MS_MAX:
        found.append(_at_most("scenario 2", contender, "mean", mean_ms, MEAN_MS_MAX[contender]))
    if contender == "adaptive":
        found.append(_at_most("scenario 2", contender, "p99", p99_ms, ADAPTIVE_P99_MS_MAX))
    return found


def _at_most(scenario: str, contender: str, measure: str, value_ms: float, most_ms: float) -> Verdict:
    claim = f"{scenario}, {contender}: {measure} wait at most {most_ms:g} ms"
    return Verdict(claim, f"{value_ms:.2f} ms", value_ms <= most_ms)


def _against(outcome: Outcome, rival: Outcome | None) -> list[Verdict]:
    """Who loses messages has no waits for them: then the losses are what is compared."""
    if rival is None:
        return []
    if rival.lost > outcome.lost:
        claim = f"{outcome.trial}, {outcome.contender}: loses less than Mosquitto"
        return [Verdict(claim, f"{outcome.lost} against {rival.lost}", True)]
    ours_ms, theirs_ms = outcome.waits.mean_ms, rival.waits.mean_ms
    claim = f"{outcome.trial}, {outcome.contender}: mean wait not above Mosquitto's"
    return [Verdict(claim, f"{ours_ms:.1f} against {theirs_ms:.1f} ms", ours_ms <= theirs_ms + NOISE_MS)]


def _nothing_lost(outcome: Outcome) -> Verdict:
    claim = f"{outcome.trial}, {outcome.contender}: nothing is lost"
    return Verdict(claim, f"{outcome.lost} lost, {outcome.doubled} doubled", outcome.lost == 0)
