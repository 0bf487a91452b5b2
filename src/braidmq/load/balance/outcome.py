"""Who got what, who waited how long, what was lost: computed from what publisher and members noted. Pure.

A message that was worked on twice counts with its first time. `recovery_s` is how long after the fault the
last message was begun that had waited more than RECOVERED_S: 0 if none had.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

import msgspec

from braidmq.load.balance.plan import Contender, Trial
from braidmq.load.balance.records import Record
from braidmq.sim.balance.trial import MS, percentile

RECOVERED_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Run:
    """What was noted in one trial, in monotonic seconds."""

    start_s: float
    sent_s: Sequence[float]  # of each message
    noted: Sequence[Sequence[Record]]  # of each member


class Waits(msgspec.Struct, frozen=True):
    messages: int
    mean_ms: float
    p99_ms: float
    most_ms: float


class MemberOutcome(msgspec.Struct, frozen=True):
    waits: Waits
    work_mean_ms: float  # how long a message really took


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    trial: str
    contender: str
    qos: int
    sent: int
    waits: Waits
    members: tuple[MemberOutcome, ...]
    lost: int
    doubled: int
    recovery_s: float | None  # None: nothing went wrong
    late_most_ms: float  # how far the publisher was behind its times, at most
    overrun_mean_ms: float  # how much longer than planned the work on a message took: what the machine added


def summed_up(trial: Trial, contender: Contender, run: Run) -> Outcome:
    first: dict[int, tuple[float, int]] = {}  # message: when work on it began, and where
    doubled = 0
    for member, noted in enumerate(run.noted):
        for record in noted:
            known = first.get(record.number)
            doubled += known is not None
            if known is None or record.began_s < known[0]:
                first[record.number] = (record.began_s, member)
    wait_s = {number: began_s - run.sent_s[number] for number, (began_s, _) in first.items()}
    by_member = [[wait_s[number] for number, (_, member) in first.items() if member == index]
                 for index in range(len(run.noted))]  # fmt: skip
    late_s = [sent_s - run.start_s - planned_s
              for sent_s, planned_s in zip(run.sent_s, trial.scenario.publish_s, strict=True)]  # fmt: skip
    return Outcome(
        trial=trial.name,
        contender=contender.name,
        qos=contender.qos,
        sent=len(run.sent_s),
        waits=_waits(list(wait_s.values())),
        members=tuple(
            MemberOutcome(_waits(waits), _work_mean_ms(noted))
            for waits, noted in zip(by_member, run.noted, strict=True)
        ),
        lost=len(run.sent_s) - len(first),
        doubled=doubled,
        recovery_s=_recovery_s(trial, run, wait_s),
        late_most_ms=max(late_s) * MS,
        overrun_mean_ms=_overrun_mean_ms(trial, run),
    )


def _waits(wait_s: Sequence[float]) -> Waits:
    if not wait_s:
        return Waits(0, 0.0, 0.0, 0.0)
    return Waits(len(wait_s), fmean(wait_s) * MS, percentile(wait_s, 0.99) * MS, max(wait_s) * MS)


def _work_mean_ms(noted: Sequence[Record]) -> float:
    return fmean(record.ended_s - record.began_s for record in noted) * MS if noted else 0.0


def _overrun_mean_ms(trial: Trial, run: Run) -> float:
    overruns_s = [
        record.ended_s - run.start_s - model.finish_s(record.began_s - run.start_s, 1.0)
        for model, noted in zip(trial.scenario.members, run.noted, strict=True)
        for record in noted
    ]
    return fmean(overruns_s) * MS if overruns_s else 0.0


def _recovery_s(trial: Trial, run: Run, wait_s: dict[int, float]) -> float | None:
    if trial.fault_at_s is None:
        return None
    fault_at_s = run.start_s + trial.fault_at_s
    late = [run.sent_s[number] + waited_s for number, waited_s in wait_s.items() if waited_s > RECOVERED_S]
    return max(max(late, default=fault_at_s) - fault_at_s, 0.0)
