"""Whether the receivers of a query receive, and when the query has to end because they don't. Pure.

A broker that is away is no error by itself: messages wait there, or at the publishers. Three things are: a
session that another client has taken, because then somebody else gets our messages; a broker that doesn't let
us in from the start, because that won't pass; and a broker that is away for longer than the user allows
(`failWhenDisconnected`).
"""

from collections.abc import Iterable

from braidmq.errors import BraidError
from braidmq.spark.tasks import Report

CONNECTED_STATES = ("receiving", "full")
SETTLED_STATES = (*CONNECTED_STATES, "drained")


class SessionTakenError(BraidError):
    """Another client uses the MQTT session of one of our receivers."""


class DisconnectedError(BraidError):
    """A receiver has had no connection for too long."""


class RefusedError(BraidError):
    """A broker doesn't let a receiver in."""


class Health:
    """`note` is told every second, whatever the query does; `check` when it asks for its next batch."""

    def __init__(self, disconnected_s_max: float | None) -> None:
        self._disconnected_s_max = disconnected_s_max
        self._connected_at: dict[str, float] = {}  # by subscriber, when it was last seen to be
        self._asked_at: dict[str, float] = {}  # when it was first asked for

    def note(self, reports: Iterable[Report], now: float) -> None:
        for report in reports:
            self._asked_at.setdefault(report.subscriber, now)
            if report.state in SETTLED_STATES:
                self._connected_at[report.subscriber] = now

    def check(self, reports: Iterable[Report], now: float) -> None:
        """Raises what has to end the query."""
        for report in reports:
            if report.state == "taken":
                raise SessionTakenError(
                    f"{report.error}: another query uses the same group or clientIdPrefix. Its messages are "
                    "shared out between the two. Give each query a group of its own"
                )
            if is_absent(report):
                self._check_absent(report, now)

    def _check_absent(self, report: Report, now: float) -> None:
        since = self._connected_at.get(report.subscriber)
        if report.refused and since is None:
            raise RefusedError(f"receiver {report.subscriber}: {report.error}")
        away_s = now - (self._asked_at.get(report.subscriber, now) if since is None else since)
        if self._disconnected_s_max is not None and away_s > self._disconnected_s_max:
            raise DisconnectedError(
                f"receiver {report.subscriber} has had no connection for {away_s:.0f} s, more than "
                f"failWhenDisconnected allows: {reason_of(report)}"
            )


def is_absent(report: Report) -> bool:
    """Whether it should have a connection and has none; one that only drains may have lost its broker."""
    return not report.draining and report.state not in SETTLED_STATES


def unsettled(reports: Iterable[Report]) -> list[str]:
    """What each receiver that doesn't receive says about it."""
    return [f"{report.subscriber}: {reason_of(report)}" for report in reports if is_absent(report)]


def reason_of(report: Report) -> str:
    return report.error or f"it is {report.state}"
