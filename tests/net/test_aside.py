"""Decisions that take long: pools apart, nobody locked out by others' guesses, nothing done for the dead."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from braidmq.access.verdicts import Admitted, Pending, Refused, WorkKind
from braidmq.broker.access import Errand
from braidmq.limits import Limits
from braidmq.net.aside import THREADS, Aside

Verdict = Admitted | Refused
YES, NO = Admitted("ada"), Refused(0x86, "no")
FLOOD = 600


class Office:
    """An `Aside`, and what it has decided about whom."""

    def __init__(self, **limits: int) -> None:
        self.broker = SimpleNamespace(
            limits=Limits(**limits), turn=lambda now: None, refused_logins=0
        )
        turn: Any = SimpleNamespace(broker=self.broker, begun=lambda: None)
        self.aside = Aside(turn, asyncio.get_running_loop())
        self.decided: dict[str, Verdict] = {}
        self.worked: list[str] = []
        self.changed = asyncio.Event()

    def ask(
        self,
        who: str,
        found: Callable[[], Verdict | Pending],
        kind: WorkKind = "password",
        peer: str = "192.0.2.1:1",
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        def work() -> Verdict | Pending:
            self.worked.append(who)
            return found()

        def decide(verdict: Verdict) -> None:
            self.decided[who] = verdict
            self.changed.set()

        self.aside(Errand(Pending(work, kind), peer, who, is_wanted, decide))

    async def until(self, *who: str) -> None:
        while not self.decided.keys() >= set(who):
            self.changed.clear()
            await self.changed.wait()


@pytest.fixture
async def gate() -> AsyncIterator[threading.Event]:
    """What blocked work waits for; open at the end in any case."""
    gate = threading.Event()
    yield gate
    gate.set()


def blocked(gate: threading.Event) -> Callable[[], Verdict]:
    def work() -> Verdict:
        gate.wait()
        return YES

    return work


async def test_call_outs_that_hang_do_not_keep_out_who_has_a_password(gate: threading.Event) -> None:
    office = Office()
    for number in range(THREADS["callout"] + 5):
        office.ask(f"callout-{number}", blocked(gate), "callout")
    for number in range(THREADS["policy"] + 5):
        office.ask(f"policy-{number}", blocked(gate), "policy")
    office.ask("ada", lambda: YES)
    await office.until("ada")
    assert office.decided == {"ada": YES}
    office.aside.stop()


async def test_work_that_leads_to_other_work_goes_on_in_the_pool_of_that() -> None:
    office = Office()
    names: list[str] = []

    def call_out() -> Verdict:
        names.append(threading.current_thread().name)
        return YES

    office.ask("ada", lambda: Pending(call_out, "callout"))
    await office.until("ada")
    assert office.decided["ada"] == YES
    assert names[0].startswith("braidmq-callout")
    office.aside.stop()


async def test_nothing_is_done_for_a_client_that_has_gone(gate: threading.Event) -> None:
    office = Office()
    for number in range(THREADS["password"]):
        office.ask(f"busy-{number}", blocked(gate))
    office.ask("gone", lambda: YES, is_wanted=lambda: False)
    office.ask("ada", lambda: YES)
    gate.set()
    await office.until("ada")
    office.ask("bob", lambda: YES)
    await office.until("bob")
    assert "gone" not in office.worked
    office.aside.stop()


async def test_wrong_passwords_do_not_lock_out_the_right_one(gate: threading.Event) -> None:
    office = Office()

    def wrong() -> Verdict:
        gate.wait()
        return NO

    for number in range(FLOOD):
        office.ask(f"guess-{number}", wrong)
    office.ask("elsewhere", lambda: YES, peer="192.0.2.2:1")
    office.ask("same-address", lambda: YES)
    gate.set()
    await office.until("elsewhere", "same-address")
    assert office.decided["elsewhere"] == office.decided["same-address"] == YES
    assert len(office.decided) < FLOOD / 4
    office.aside.stop()


async def test_when_too_many_wait_the_busiest_address_is_told_so(gate: threading.Event) -> None:
    office = Office(logins_waiting_max=2)
    for number in range(THREADS["password"] + 2):
        office.ask(f"flood-{number}", blocked(gate))
    office.ask("ada", lambda: YES, peer="192.0.2.2:1")
    gate.set()
    await office.until("ada", f"flood-{THREADS['password']}")
    assert office.decided["ada"] == YES
    refused = office.decided[f"flood-{THREADS['password']}"]
    assert isinstance(refused, Refused)
    assert refused.reason == 0x89
    assert office.broker.refused_logins == 1
    office.aside.stop()


async def test_a_judge_that_fails_lets_nobody_in() -> None:
    office = Office()
    office.ask("ada", lambda: NO if 1 // 0 else YES)
    await office.until("ada")
    assert office.decided["ada"] == Refused(0x88, "authentication is out of order")
    office.aside.stop()
