"""What there is to tell about the receivers of a pipeline: each change once. Pure but for the telling."""

from collections.abc import Callable

from braidmq.spark.health import CONNECTED_STATES, SETTLED_STATES, is_absent
from braidmq.spark.tasks import Report
from braidmq.spark.wal import SourceState

States = dict[str, SourceState]  # by group


class ReceiverNews:
    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._told: dict[str, str] = {}
        self._was_ready = False
        self._warned: set[str] = set()

    def tell(self, states: States) -> None:
        reports = [report for state in states.values() for report in state.receivers]
        for report in reports:
            line = _line(report)
            if line and line != self._told.get(report.subscriber):
                self._told[report.subscriber] = line
                self._say(f"receiver {report.subscriber}: {line}")
        for group, state in states.items():
            if state.warning and group not in self._warned:
                self._warned.add(group)
                self._say(f"group {group}: {state.warning}")
        is_ready = bool(reports) and not any(map(is_absent, reports))
        if is_ready and not self._was_ready:
            self._was_ready = True
            self._say(f"ready: {len(reports)} receivers have subscribed")


def _line(report: Report) -> str:
    if report.state in CONNECTED_STATES:
        full = ", and its log is full" if report.state == "full" else ""
        return f"connected{full}; {_promise(report)}"
    if report.state in SETTLED_STATES:
        return report.state
    return f"not connected: {report.error}" if report.error else ""  # it has only just begun


def _promise(report: Report) -> str:
    if report.repeats_by == "numbers":
        return "exactly once"
    if report.repeats_by == "guess":
        return "repeats are guessed, which can lose messages"
    return "at least once: this broker doesn't number its deliveries"


def all_received(states: States) -> bool:
    """Whether nothing is known to wait before the receivers, and all of them are there."""
    return all(
        not state.waiting and not any(map(is_absent, state.receivers))
        for state in states.values()
    )
