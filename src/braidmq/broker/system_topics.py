"""The broker's numbers as retained messages under $SYS, named as Mosquitto names them.

Every ten seconds a census is taken, a slice at a time, and each topic whose value has changed is published
again, to whoever subscribes. Clients can't publish there. The messages count towards no limit and are not
stored. Rates are in events a minute, averaged with a weight that falls by half in about 0.7, 3.5 and 10.4
minutes (an exponential average over 1, 5 and 15 minutes).

Each of the first shared groups has its state as JSON at `groups/NAME/FILTER`, the filter percent-encoded so
that it is one level.
"""

from collections.abc import Callable, Generator, Iterator
from itertools import islice
from math import exp
from typing import Final
from urllib.parse import quote

import msgspec

import braidmq
from braidmq.broker.broker import Broker
from braidmq.broker.census import Census, take_census
from braidmq.broker.counters import DROP_NAMES
from braidmq.broker.sharing.state import state_of
from braidmq.messages.message import Message

PERIOD_S: Final = 10.0
SLICE_PAUSE_S: Final = 0.005
LOADS_MIN: Final = (1, 5, 15)
ROOT: Final = "$SYS/broker"
GROUPS_SHOWN_MAX: Final = 100
GROUP_MEMBERS_SHOWN_MAX: Final = 20
# What rates are told of, and the totals that they are made from.
LOADS: Final = {
    "messages/received": "messages/received",
    "messages/sent": "messages/sent",
    "publish/received": "publish/messages/received",
    "publish/sent": "publish/messages/sent",
    "publish/dropped": "publish/messages/dropped",
    "bytes/received": "bytes/received",
    "bytes/sent": "bytes/sent",
    "connections": "connects",
    "sockets": "sockets",
}


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
    """Publishes a broker's numbers until the broker's timers are no longer run.

    `memory_use` tells how many bytes of memory are used now, and were at the most.
    """

    def __init__(
        self, broker: Broker, now: float, memory_use: Callable[[], tuple[int, int]] = lambda: (0, 0)
    ) -> None:
        self._broker = broker
        broker.turn(now)
        self._memory_use = memory_use
        self._started_at_s = now
        self._updated_at_s = now
        self._connected_max = 0
        self._shown: dict[str, str] = {}
        self._groups_shown: dict[str, bytes] = {}
        self._loads: dict[str, Load] = {}
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
                self._publish(name, value.encode())
        self._show_groups()

    def _show_groups(self) -> None:
        """The state of each shared group as JSON; topics of groups that have gone are cleared."""
        now, shown = self._broker.hub.now, {}
        for group in islice(self._broker.groups, GROUPS_SHOWN_MAX):
            name = f"groups/{group.name}/{quote(group.filter.decode(), safe='')}"
            shown[name] = msgspec.json.encode(state_of(group, now, GROUP_MEMBERS_SHOWN_MAX))
        for name in self._groups_shown.keys() - shown.keys():
            self._publish(name, b"")
        for name, state in shown.items():
            if self._groups_shown.get(name) != state:
                self._publish(name, state)
        self._groups_shown = shown

    def _publish(self, name: str, value: bytes) -> None:
        message = Message(f"{ROOT}/{name}".encode(), value, 0, True)
        self._broker.publishing.publish_anyway(message)

    def _values(self, census: Census) -> Iterator[tuple[str, str]]:
        broker = self._broker
        now = broker.hub.now
        yield "version", f"braidmq version {braidmq.__version__}"
        yield "uptime", f"{int(now - self._started_at_s)} seconds"
        for name, count in (*self._counts(census), *self._drops(), *self._totals()):
            yield name, str(count)
        yield from self._load_values(now)

    def _counts(self, census: Census) -> Iterator[tuple[str, int]]:
        """What there is now."""
        broker = self._broker
        retained = len(broker.retained)
        memory_bytes, memory_bytes_max = self._memory_use()
        yield "clients/connected", census.connected
        yield "clients/active", census.connected
        yield "clients/disconnected", census.away
        yield "clients/inactive", census.away
        yield "clients/total", census.sessions
        yield "clients/maximum", self._connected_max
        yield "subscriptions/count", census.subscriptions
        yield "shared_subscriptions/count", broker.router.shared_subscriptions
        yield "groups/count", len(broker.groups)
        yield "groups/messages/waiting", sum(len(group.core.queue) for group in broker.groups)
        yield "retained messages/count", retained
        yield "messages/stored", retained + census.queued_messages
        yield "store/messages/count", retained + census.queued_messages
        yield "store/messages/bytes", broker.retained.held_bytes + census.queued_bytes
        yield "messages/inflight", census.in_flight_messages
        yield "heap/current", memory_bytes
        yield "heap/maximum", memory_bytes_max
        yield "tls/handshakes", broker.handshakes

    def _drops(self) -> Iterator[tuple[str, int]]:
        counts = self._broker.hub.counters.by_name()
        for reason in DROP_NAMES:
            yield f"publish/messages/dropped/{reason}", counts[f"dropped_{reason}"]

    def _totals(self) -> Iterator[tuple[str, int]]:
        """What has happened since the start."""
        broker, counts = self._broker, self._broker.hub.counters.by_name()
        yield "clients/expired", broker.sessions_expired
        yield "messages/received", counts["packets_received"]
        yield "messages/sent", counts["packets_sent"]
        yield "publish/messages/received", counts["publishes_received"]
        yield "publish/messages/sent", counts["publishes_sent"]
        yield "publish/messages/dropped", sum(counts[f"dropped_{reason}"] for reason in DROP_NAMES)
        yield "publish/bytes/received", counts["publish_bytes_received"]
        yield "publish/bytes/sent", counts["publish_bytes_sent"]
        yield "bytes/received", counts["bytes_received"]
        yield "bytes/sent", counts["bytes_sent"]
        yield "quotas/pauses", broker.quota_pauses
        yield "quotas/refused wills", broker.wills.refused
        yield "quotas/refused addresses", broker.refused_addresses
        yield "quotas/refused connecting", broker.newcomers.pushed_out
        yield "quotas/refused connections", broker.refused_connections
        yield "quotas/refused logins", broker.refused_logins

    def _load_values(self, now: float) -> Iterator[tuple[str, str]]:
        passed_s, self._updated_at_s = now - self._updated_at_s, now
        totals = dict(self._totals())
        totals |= {"connects": self._broker.connects_received, "sockets": self._broker.opened}
        for name, counted in LOADS.items():
            total = totals[counted]
            load = self._loads.setdefault(name, Load())
            if passed_s > 0:
                load.update(total, passed_s)
            for minutes, average in load.averages.items():
                yield f"load/{name}/{minutes}min", f"{average:.2f}"
