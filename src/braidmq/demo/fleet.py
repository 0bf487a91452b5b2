"""The devices of one broker as a process: follows the plan, and keeps a ledger of what was acknowledged.

    python -m braidmq.demo.fleet     # the task as one line of JSON on stdin, reports on stdout

It ends when the plan is done, or when its stdin ends: so it never outlives the demo.
"""

import select
import sys
import time
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from braidmq.client import BlockingClient, publish_patiently
from braidmq.demo.ledger import Ledger
from braidmq.demo.plan import FleetPlan, Name
from braidmq.errors import BraidError
from braidmq.wire import Properties, Publish

TICK_S: Final = 0.05
PATIENCE_S: Final = 30.0
SESSION_EXPIRY_S: Final = 3600
NO_SUBSCRIBER: Final = 0x10
PROPERTIES: Final = Properties(content_type="application/json")


class FleetTask(msgspec.Struct, frozen=True, kw_only=True):
    plan: FleetPlan
    name: str
    broker: str
    devices: list[int]
    ledger: str


class FleetReport(msgspec.Struct, frozen=True, kw_only=True):
    """How far a fleet is."""

    acknowledged: int = 0
    refused: int = 0  # the broker said no, or had nobody to give it to
    behind_s: float = 0.0
    done: bool = False


class Fleet:
    def __init__(self, task: FleetTask, client: BlockingClient, ledger: Ledger) -> None:
        self._task = task
        self._client = client
        self._ledger = ledger
        self.report = FleetReport()

    def say(self, after_s: float, until_s: float) -> None:
        """Publishes what is due between these times, and notes what was acknowledged."""
        plan = self._task.plan
        names = sorted(plan.due_between(self._task.devices, after_s, until_s), key=plan.due_s)
        outcomes = publish_patiently(self._client, [self._packet(name) for name in names], PATIENCE_S)
        taken = [
            name
            for name, outcome in zip(names, outcomes, strict=True)
            if not isinstance(outcome, BraidError) and outcome.reason != NO_SUBSCRIBER
        ]
        self._ledger.acknowledged(taken)
        self.report = msgspec.structs.replace(
            self.report,
            acknowledged=self.report.acknowledged + len(taken),
            refused=self.report.refused + len(names) - len(taken),
        )

    def _packet(self, name: Name) -> Publish:
        topic, payload = self._task.plan.message(name)
        # A broker is killed on the way: what is sent again after that must not count twice.
        return Publish(topic, payload, qos=2, properties=PROPERTIES)


def run(task: FleetTask, commands: BinaryIO, reports: BinaryIO) -> None:
    plan = task.plan
    client = BlockingClient(
        task.broker, client_id=task.name, session_expiry_s=SESSION_EXPIRY_S, connect_patience_s=PATIENCE_S
    )
    with client, Ledger(Path(task.ledger)) as ledger:
        fleet = Fleet(task, client, ledger)
        said_until_s = 0.0
        while said_until_s < plan.seconds:
            now_s = min(time.time() - plan.start_ms / 1000, plan.seconds)
            if now_s > said_until_s:
                fleet.say(said_until_s, now_s)
                said_until_s = now_s
            behind_s = time.time() - plan.start_ms / 1000 - said_until_s
            _tell(reports, msgspec.structs.replace(fleet.report, behind_s=behind_s))
            if said_until_s < plan.seconds and _ended(commands, TICK_S):
                return
        _tell(reports, msgspec.structs.replace(fleet.report, done=True))


def _tell(reports: BinaryIO, report: FleetReport) -> None:
    reports.write(msgspec.json.encode(report) + b"\n")
    reports.flush()


def _ended(commands: BinaryIO, wait_s: float) -> bool:
    """Waits a little; True if the demo has closed our stdin, or is gone."""
    readable, _, _ = select.select([commands], [], [], wait_s)
    return bool(readable) and not commands.read(1)


if __name__ == "__main__":
    run(msgspec.json.decode(sys.stdin.buffer.readline(), type=FleetTask), sys.stdin.buffer, sys.stdout.buffer)
