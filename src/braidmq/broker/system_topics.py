"""The broker's numbers as retained messages under $SYS, named as Mosquitto names them.

Every ten seconds a census is taken, a slice at a time, and each topic whose value has changed is published
again, to whoever subscribes. Clients can't publish there. The messages count towards no limit and are not
stored. Rates are in events a minute, averaged with a weight that falls by half in about 0.7, 3.5 and 10.4
minutes (an exponential average over 1, 5 and 15 minutes).
"""

from collections.abc import Generator, Iterator
from math import exp
from typing import Final

import braidmq
from braidmq.broker.broker import Broker
from braidmq.broker.census import Census, take_census
from braidmq.broker.hub import DROP_NAMES
from braidmq.broker.message import Message

PERIOD_S: Final = 10.0
SLICE_PAUSE_S: Final = 0.005
LOADS_MIN: Final = (1, 5, 15)
ROOT: Final = "$SYS/broker"


class Load:
    """How often something happens, a minute, averaged over the last minutes."""

    def __init__(self) -> None:
        self.averages = dict.fromkeys(LOADS_MIN, 0.0)
        self._total = 0

    def update(self, total: int, passed_s: float) -> None:
        """It has happened `total` times in all; `passed_s` went by since the last update."""
        per_minute = (total - self._total) * 60 / passed_s
        self._total = total
        for minutes, average in self.averages.items():
            kept = exp(-passed_s / (60 * minutes))
            self.averages[minutes] = per_minute + (average - per_minute) * kept


class SystemTopics:
    """Publishes a broker's numbers until the broker's timers are no longer run."""

    def __init__(self, broker: Broker, now: float) -> None:
        self._broker = broker
        broker.hub.now = now
        self._started_at_s = now
        self._updated_at_s = now
        self._connected_max = 0
        self._shown: dict[str, str] = {}
        self._loads = {
            name: Load()
            for name in (
                "publish/received",
                "publish/sent",
                "publish/dropped",
                "bytes/received",
                "bytes/sent",
            )
        }
        self._begin()

    def _begin(self) -> None:
        self._go_on(take_census(self._broker))

    def _go_on(self, counting: Generator[None, None, Census]) -> None:
        timers, now = self._broker.timers, self._broker.hub.now
        try:
            next(counting)
        except StopIteration as finished:
            self._show(finished.value)
            timers.set(now + PERIOD_S, self._begin)
        else:
            timers.set(now + SLICE_PAUSE_S, lambda: self._go_on(counting))

    def _show(self, census: Census) -> None:
        self._connected_max = max(self._connected_max, census.connected)
        for name, value in self._values(census):
            if self._shown.get(name) != value:
                self._shown[name] = value
                message = Message(f"{ROOT}/{name}".encode(), value.encode(), 0, True)
                self._broker.retained.keep_own(message)
                self._broker.router.publish(message)

    def _values(self, census: Census) -> Iterator[tuple[str, str]]:
        broker = self._broker
        now = broker.hub.now
        yield "version", f"braidmq version {braidmq.__version__}"
        yield "uptime", f"{int(now - self._started_at_s)} seconds"
        totals = self._totals()
        retained = len(broker.retained)
        for name, count in {
            "clients/connected": census.connected,
            "clients/active": census.connected,
            "clients/disconnected": census.away,
            "clients/inactive": census.away,
            "clients/total": census.sessions,
            "clients/maximum": self._connected_max,
            "subscriptions/count": census.subscriptions,
            "retained messages/count": retained,
            "messages/stored": retained + census.queued_messages,
            "store/messages/count": retained + census.queued_messages,
            "messages/inflight": census.in_flight_messages,
            "publish/messages/received": totals["publish/received"],
            "publish/messages/sent": totals["publish/sent"],
            "publish/messages/dropped": totals["publish/dropped"],
            "bytes/received": totals["bytes/received"],
            "bytes/sent": totals["bytes/sent"],
        }.items():
            yield name, str(count)
        yield from self._load_values(totals, now)

    def _totals(self) -> dict[str, int]:
        counts = self._broker.hub.counters()
        return {
            "publish/received": counts["publishes_received"],
            "publish/sent": counts["publishes_sent"],
            "publish/dropped": sum(counts[f"dropped_{reason}"] for reason in DROP_NAMES),
            "bytes/received": counts["bytes_received"],
            "bytes/sent": counts["bytes_sent"],
        }

    def _load_values(self, totals: dict[str, int], now: float) -> Iterator[tuple[str, str]]:
        passed_s, self._updated_at_s = now - self._updated_at_s, now
        for name, load in self._loads.items():
            if passed_s > 0:
                load.update(totals[name], passed_s)
            for minutes, average in load.averages.items():
                yield f"load/{name}/{minutes}min", f"{average:.2f}"
