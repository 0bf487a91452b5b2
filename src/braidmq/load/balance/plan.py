"""Who is measured under what. Pure values; the scenarios are the simulator's own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final, Literal

from braidmq.client import StatusReporting
from braidmq.errors import ConfigError
from braidmq.sim.balance.named import DURATION_S, THESIS_INTERVAL_S, join_overload
from braidmq.sim.balance.scenario import MemberModel, Scenario, every
from braidmq.sim.balance.thesis import SERVICE_S, thesis_scenario

BrokerKind = Literal["braidmq", "mosquitto"]
MOSQUITTO: Final = "mosquitto"
ROUND_ROBIN: Final = "round_robin"


@dataclass(frozen=True, slots=True)
class Contender:
    """A broker and its policy, and the signals that its members give."""

    name: str
    broker: BrokerKind = "braidmq"
    policy: str = ROUND_ROBIN  # of ours; Mosquitto has its own
    qos: int = 0
    status: StatusReporting | None = None

    def at_qos(self, qos: int) -> "Contender":
        return replace(self, qos=qos)


# As in the thesis: a report once a second, and no others.
THESIS_STATUS: Final = StatusReporting(interval_s=1.0, events=False)

CONTENDERS: Final = {
    contender.name: contender
    for contender in (
        Contender("random", policy="random"),
        Contender(ROUND_ROBIN),
        Contender("status", policy="status", status=THESIS_STATUS),
        Contender("status2", policy="status2", status=StatusReporting()),
        Contender("least_inflight", policy="least_inflight", qos=1),
        Contender("adaptive", policy="adaptive", qos=1),
        Contender(MOSQUITTO, broker="mosquitto"),
    )
}
THESIS_CONTENDERS: Final = ("random", ROUND_ROBIN, "status", "status2", "least_inflight", "adaptive")
FAULT_CONTENDERS: Final = (MOSQUITTO, ROUND_ROBIN, "least_inflight", "adaptive")


@dataclass(frozen=True, slots=True)
class Death:
    """A member's process is killed in the middle of its work, and nothing takes its place."""

    member: int
    after_s: float  # at the first message that it begins then


@dataclass(frozen=True, slots=True)
class Trial:
    """What happens in one run, whoever the contender is."""

    name: str
    scenario: Scenario
    deaths: tuple[Death, ...] = ()
    session_expiry_s: int = 0  # of the members
    fault_at_s: float | None = None  # when it begins to go wrong
    qos: int | None = None  # of everything; None: as the contender likes it

    def contenders(self) -> tuple[str, ...]:
        return THESIS_CONTENDERS if self.fault_at_s is None else FAULT_CONTENDERS

    def with_contender(self, contender: Contender) -> Contender:
        return contender if self.qos is None else contender.at_qos(self.qos)


def thesis_trial(number: int) -> Trial:
    """The thesis's scenario with its nominal service times: what a real machine adds, it adds by itself."""
    scenario = thesis_scenario(number)
    members = tuple(MemberModel(service_s) for service_s in SERVICE_S[number])
    about = "/".join(f"{service_s * 1000:g}" for service_s in SERVICE_S[number])
    return Trial(str(number), replace(scenario, members=members, about=f"{about} ms, every 10.34 ms"))


# Faults: three members can carry the load of four, so that only the choice of a member makes it go wrong.
FAULT_AT_S: Final = 5.0
FAULT_SERVICE_S: Final = 0.025
_HEALTHY: Final = MemberModel(FAULT_SERVICE_S)


def _fault(name: str, about: str, first: MemberModel) -> Scenario:
    times = every(THESIS_INTERVAL_S, DURATION_S)
    return Scenario(name, times, [1.0] * len(times), (first, *[_HEALTHY] * 3), about=f"4 x 25 ms; {about}")


def slow_trial() -> Trial:
    first = MemberModel(FAULT_SERVICE_S, slow=(FAULT_AT_S, 10.0, 10 * FAULT_SERVICE_S))
    about = "one takes ten times as long from 5 to 10 s"
    return Trial("slow", _fault("slow", about, first), fault_at_s=FAULT_AT_S, qos=1)


def pause_trial() -> Trial:
    first = MemberModel(FAULT_SERVICE_S, pause=(FAULT_AT_S, FAULT_AT_S + 2.0))
    about = "one stands still from 5 to 7 s"
    return Trial("pause", _fault("pause", about, first), fault_at_s=FAULT_AT_S, qos=1)


def death_trial() -> Trial:
    scenario = _fault("death", "one is killed at its work at 5 s", _HEALTHY)
    return Trial("death", scenario, (Death(0, FAULT_AT_S),), fault_at_s=FAULT_AT_S, qos=1)


def kept_session_trial() -> Trial:
    about = "one is killed at its work at 5 s, and its session lasts 5 s longer"
    scenario = _fault("kept session", about, _HEALTHY)
    deaths = (Death(0, FAULT_AT_S),)
    return Trial("kept-session", scenario, deaths, session_expiry_s=5, fault_at_s=FAULT_AT_S, qos=1)


def join_trial() -> Trial:
    return Trial("join", join_overload(Random(0)), fault_at_s=FAULT_AT_S, qos=1)


TRIALS: Final = {
    trial.name: trial
    for trial in (
        thesis_trial(1), thesis_trial(2),
        slow_trial(), pause_trial(), death_trial(), kept_session_trial(), join_trial(),
    )
}  # fmt: skip


def shortened(trial: Trial, seconds: float) -> Trial:
    """The same trial in less time: fewer messages, everything else sooner in proportion."""
    if seconds <= 0:
        raise ConfigError(f"--seconds {seconds:g}: expected more than 0")
    share = seconds / DURATION_S
    if share == 1.0:
        return trial
    times = [time for time in trial.scenario.publish_s if time < seconds]
    members = tuple(_sooner(member, share) for member in trial.scenario.members)
    work = trial.scenario.work[: len(times)]
    return replace(
        trial,
        scenario=replace(trial.scenario, publish_s=times, work=work, members=members),
        deaths=tuple(replace(death, after_s=death.after_s * share) for death in trial.deaths),
        fault_at_s=None if trial.fault_at_s is None else trial.fault_at_s * share,
        session_expiry_s=round(trial.session_expiry_s * share),
    )


def _sooner(member: MemberModel, share: float) -> MemberModel:
    joins_at_s, slow, pause = member.joins_at_s, member.slow, member.pause
    return replace(
        member,
        joins_at_s=None if joins_at_s is None else joins_at_s * share,
        slow=None if slow is None else (slow[0] * share, slow[1] * share, slow[2]),
        pause=None if pause is None else (pause[0] * share, pause[1] * share),
    )


def chosen(
    trials: Sequence[str], contenders: Sequence[str], seconds: float, *, with_mosquitto: bool
) -> list[tuple[Trial, Contender]]:
    """The runs, in order. No contenders named: those of each trial."""
    return [
        (trial, trial.with_contender(CONTENDERS[contender]))
        for trial in (shortened(TRIALS[name], seconds) for name in trials)
        for contender in contenders or trial.contenders()
        if contender != MOSQUITTO or with_mosquitto
    ]
