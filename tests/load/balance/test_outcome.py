"""What the notes of publisher and members add up to."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from braidmq.load.balance import records, report
from braidmq.load.balance.outcome import MemberOutcome, Outcome, Run, Waits, summed_up
from braidmq.load.balance.plan import CONTENDERS, TRIALS, Trial
from braidmq.load.balance.records import Record


def two_members(fault_at_s: float | None = None) -> Trial:
    trial = TRIALS["slow"]
    scenario = replace(trial.scenario, publish_s=[0.0, 1.0, 2.0], members=trial.scenario.members[:2])
    return replace(trial, scenario=scenario, fault_at_s=fault_at_s)


def test_records_survive_their_file_and_a_cut_off_one_is_not_there() -> None:
    noted = [Record(0, 1.5, 2.5), Record(2**40, 3.0, 4.0)]
    data = b"".join(records.pack(record) for record in noted)
    assert records.unpack(data + b"\x01\x02") == noted
    assert len(data) == 2 * records.RECORD_BYTES
    assert records.number_of(records.payload(77)) == 77


def test_waits_by_member_and_overall() -> None:
    run = Run(100.0, [100.0, 101.0, 102.5],
              [[Record(0, 100.2, 100.3), Record(2, 102.6, 102.9)], [Record(1, 102.0, 102.1)]])  # fmt: skip
    outcome = summed_up(two_members(), CONTENDERS["adaptive"], run)
    assert outcome.waits.messages == 3
    assert outcome.waits.mean_ms == pytest.approx((200 + 1000 + 100) / 3)
    assert outcome.waits.most_ms == pytest.approx(1000)
    assert [member.waits.messages for member in outcome.members] == [2, 1]
    assert outcome.members[0].waits.mean_ms == pytest.approx(150)
    assert outcome.members[0].work_mean_ms == pytest.approx(200)
    assert (outcome.lost, outcome.doubled, outcome.recovery_s) == (0, 0, None)
    assert outcome.late_most_ms == pytest.approx(500)
    assert outcome.overrun_mean_ms == pytest.approx((75 + 275 + 75) / 3)  # 25 ms were planned


def test_lost_and_doubled_messages() -> None:
    run = Run(0.0, [0.0, 1.0, 2.0], [[Record(0, 0.5, 0.6)], [Record(0, 0.1, 0.2), Record(2, 2.05, 2.1)]])
    outcome = summed_up(two_members(fault_at_s=0.5), CONTENDERS["mosquitto"], run)
    assert (outcome.lost, outcome.doubled) == (1, 1)
    assert outcome.waits.messages == 2
    assert outcome.members[0].waits == Waits(0, 0.0, 0.0, 0.0)  # the other one was first
    assert outcome.recovery_s == 0.0


def test_recovery_is_the_last_long_wait_after_the_fault() -> None:
    run = Run(0.0, [0.0, 1.0, 2.0], [[Record(0, 0.0, 0.1), Record(1, 1.2, 1.3)], [Record(2, 2.05, 2.1)]])
    assert summed_up(two_members(0.25), CONTENDERS["mosquitto"], run).recovery_s == pytest.approx(0.95)


def outcome(trial: str, contender: str, mean_ms: float, *, p99_ms: float = 0.0, lost: int = 0) -> Outcome:
    waits = Waits(10, mean_ms, p99_ms, p99_ms)
    return Outcome(
        trial=trial, contender=contender, qos=1, sent=10 + lost, waits=waits,
        members=(MemberOutcome(waits, 25.0),), lost=lost, doubled=0,
        recovery_s=None if TRIALS[trial].fault_at_s is None else 0.5, late_most_ms=0.0, overrun_mean_ms=0.1,
    )  # fmt: skip


def held(*outcomes: Outcome) -> dict[str, bool]:
    return {verdict.claim: verdict.holds for verdict in report.verdicts(outcomes)}


@pytest.mark.parametrize(
    ("contender", "mean_ms", "p99_ms", "expected"),
    [("round_robin", 1490.0, 0.0, [True]), ("round_robin", 1700.0, 0.0, [False]), ("random", 1.0, 0.0, []),
     ("status", 27.4, 0.0, [True]), ("status", 56.0, 0.0, [False]), ("adaptive", 12.0, 36.0, [True, False])],
)  # fmt: skip
def test_goals_of_scenario_2(contender: str, mean_ms: float, p99_ms: float, expected: list[bool]) -> None:
    assert list(held(outcome("2", contender, mean_ms, p99_ms=p99_ms)).values()) == expected


def test_goals_of_scenario_1() -> None:
    found = held(outcome("1", "random", 30.0), outcome("1", "round_robin", 0.5), outcome("1", "status", 2.5))
    assert list(found.values()) == [True, False]


def test_faults_are_judged_against_mosquitto() -> None:
    found = held(outcome("pause", "mosquitto", 50.0, lost=1), outcome("pause", "adaptive", 51.5, lost=1))
    assert found == {
        "pause, adaptive: mean wait not above Mosquitto's": False,
        "pause, adaptive: nothing is lost": False,
    }
    found = held(outcome("death", "mosquitto", 0.5, lost=3), outcome("death", "adaptive", 5.0))
    assert found == {
        "death, adaptive: loses less than Mosquitto": True,
        "death, adaptive: nothing is lost": True,
    }
    assert list(held(outcome("death", "adaptive", 5.0))) == ["death, adaptive: nothing is lost"]


def test_tables_and_json(tmp_path: Path) -> None:
    outcomes = [outcome("2", "round_robin", 1500.0), outcome("2", "status", 30.0)]
    outcomes.append(outcome("slow", "mosquitto", 9.0))
    text = StringIO()
    report.print_tables(Console(file=text, width=140), outcomes)
    assert "98.0 %" in text.getvalue()
    assert "27.4" in text.getvalue()  # the thesis's
    assert "4 x 25 ms; one takes ten times as long" in text.getvalue()
    path = tmp_path / "results.json"
    report.write_json(path, "braidmq load balance", outcomes, report.verdicts(outcomes))
    written = msgspec.json.decode(path.read_bytes())
    assert msgspec.convert(written["outcomes"], list[Outcome]) == outcomes
    assert [verdict["holds"] for verdict in written["verdicts"]] == [True, True]
