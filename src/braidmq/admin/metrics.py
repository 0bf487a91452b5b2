"""The broker's numbers for Prometheus. They are read when asked for; nothing is counted twice."""

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

import braidmq
from braidmq.admin.cluster_metrics import cluster_metrics
from braidmq.admin.desk import Desk
from braidmq.broker.census import Census
from braidmq.broker.counters import DROP_NAMES
from braidmq.broker.sharing.state import MS_PER_S, GroupState, MemberState, state_of

LAG_PROBE_S: Final = 0.25
LAG_BUCKETS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


GROUPS_SHOWN_MAX: Final = 100
GROUP_MEMBERS_SHOWN_MAX: Final = 100
GROUP_METRICS: Final[tuple[tuple[str, str, Callable[[GroupState], float]], ...]] = (
    ("waiting_messages", "Messages that wait in a shared group", lambda group: group.waiting_messages),
    ("waiting_bytes", "Bytes of messages that wait in a shared group", lambda group: group.waiting_bytes),
    ("members", "Members of a shared group, connected or not", lambda group: group.member_count),
)
MEMBER_METRICS: Final[tuple[tuple[str, str, Callable[[MemberState], float | None]], ...]] = (
    ("connected", "1 while a member is connected", lambda member: member.connected),
    ("in_flight_messages", "Messages that a member has not acknowledged",
     lambda member: member.in_flight_messages),
    ("given_messages", "Messages that the group has given a member since it came",
     lambda member: member.given_messages),
    ("reported_queue", "Messages that wait at a member, as reported", lambda member: member.reported_queue),
    ("service_seconds", "How long a member takes for a message", lambda member: _seconds(member.service_ms)),
    ("expected_wait_seconds", "How long a message would wait at a member",
     lambda member: _seconds(member.expected_wait_ms)),
)


def _seconds(time_ms: float | None) -> float | None:
    return None if time_ms is None else time_ms / MS_PER_S


class Metrics:
    """One broker's numbers, and how late its loop is."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._census = Census()
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        self._lag_s = Histogram(
            "braidmq_loop_lag_seconds",
            "How much later than asked the event loop runs something",
            buckets=LAG_BUCKETS_S,
            registry=self._registry,
        )

    async def watch_lag(self) -> None:
        """Ask the loop again and again to do something at a time, and note how late it is. Never returns."""
        while True:
            due_s = time.monotonic() + LAG_PROBE_S
            await asyncio.sleep(LAG_PROBE_S)
            self._lag_s.observe(max(0.0, time.monotonic() - due_s))

    async def text(self) -> bytes:
        """All numbers in Prometheus's text format."""
        self._census = await self._desk.census()
        return generate_latest(self._registry)

    def describe(self) -> list[Metric]:
        """Nothing is known before it is asked for."""
        return []

    def collect(self) -> Iterator[Metric]:
        """What the registry asks for: the broker's numbers as of now."""
        yield InfoMetricFamily("braidmq_build", "The broker's version", {"version": braidmq.__version__})
        yield from self._counters()
        yield from self._status_reports()
        yield from self._gauges()
        yield from self._groups()
        if self._desk.cluster is not None:
            yield from cluster_metrics(self._desk.cluster.status())

    def _counters(self) -> Iterator[Metric]:
        counts = self._desk.broker.hub.counters.by_name()
        for name, what in (
            ("packets_received", "Packets of all kinds that clients have sent"),
            ("packets_sent", "Packets of all kinds sent to clients"),
            ("publishes_received", "PUBLISH packets that clients have sent"),
            ("publishes_sent", "PUBLISH packets sent to clients"),
            ("publish_bytes_received", "Bytes of PUBLISH packets that clients have sent"),
            ("publish_bytes_sent", "Bytes of PUBLISH packets sent to clients"),
            ("bytes_received", "Bytes that clients have sent"),
            ("bytes_sent", "Bytes sent to clients"),
        ):
            yield CounterMetricFamily(f"braidmq_{name}", what, counts[name])
        dropped = CounterMetricFamily(
            "braidmq_messages_dropped", "Messages that did not reach who wanted them", labels=["reason"]
        )
        for reason in DROP_NAMES:
            dropped.add_metric([reason], counts[f"dropped_{reason}"])
        yield dropped
        broker = self._desk.broker
        for name, what, count in (
            ("connections_opened", "Network connections that came to be", broker.opened),
            ("connects", "CONNECT packets that could be read", broker.connects_received),
            ("connections_refused", "Closed because of connections_max", broker.refused_connections),
            ("connecting_refused", "Closed because of connecting_max", broker.newcomers.pushed_out),
            ("addresses_refused", "Closed because of address_connects_per_s_max", broker.refused_addresses),
            ("logins_refused", "Told to come again because of logins_waiting_max", broker.refused_logins),
            ("wills_refused", "CONNECTs refused because of wills_bytes_max", broker.wills.refused),
            ("quota_pauses", "Times that a client which sent too fast was made to wait", broker.quota_pauses),
            ("sessions_expired", "Sessions that ended after their expiry", broker.sessions_expired),
            ("observer_failures", "Errors of plug-ins that look on", broker.audience.failures),
        ):
            yield CounterMetricFamily(f"braidmq_{name}", what, count)
        collections = sum(generation["collections"] for generation in gc.get_stats())
        yield CounterMetricFamily("braidmq_gc_collections", "Runs of the garbage collector", collections)

    def _groups(self) -> Iterator[Metric]:
        """The first shared groups and members: there is a bound to how many series one broker may make."""
        broker = self._desk.broker
        states = [
            state_of(group, broker.hub.now, GROUP_MEMBERS_SHOWN_MAX)
            for group in islice(broker.groups, GROUPS_SHOWN_MAX)
        ]
        yield GaugeMetricFamily("braidmq_groups", "Shared groups", len(broker.groups))
        for name, what, value_of in GROUP_METRICS:
            family = GaugeMetricFamily(f"braidmq_group_{name}", what, labels=["group", "filter"])
            for state in states:
                family.add_metric([state.name, state.filter], value_of(state))
            yield family
        for name, what, of_member in MEMBER_METRICS:
            labels = ["group", "filter", "client_id"]
            family = GaugeMetricFamily(f"braidmq_group_member_{name}", what, labels=labels)
            for state in states:
                for member in state.members:
                    value = of_member(member)
                    if value is not None:
                        family.add_metric([state.name, state.filter, member.client_id], value)
            yield family

    def _status_reports(self) -> Iterator[Metric]:
        reports = self._desk.broker.status_reports
        outcomes = CounterMetricFamily(
            "braidmq_status_reports", "Status reports of clients, by what became of them", labels=["outcome"]
        )
        outcomes.add_metric(["taken"], reports.taken)
        for fault, count in reports.faults.items():
            outcomes.add_metric([fault], count)
        yield outcomes

    def _gauges(self) -> Iterator[Metric]:
        broker, census = self._desk.broker, self._census
        store = broker.hub.promises.store
        for name, what, value in (
            ("uptime_seconds", "Time since the start", self._desk.health().uptime_s),
            ("connections", "Network connections, also before CONNECT", len(broker.connections)),
            ("tls_handshakes", "Sockets whose PROXY header or TLS handshake isn't over", broker.handshakes),
            ("clients_connected", "Sessions whose client is connected", census.connected),
            ("sessions", "Sessions, also of clients that are away", census.sessions),
            ("subscriptions", "Subscriptions of all sessions", census.subscriptions),
            ("retained_messages", "Retained messages, those of $SYS included", len(broker.retained)),
            ("retained_bytes", "Bytes of retained messages", broker.retained.held_bytes),
            ("will_bytes", "Bytes of wills that wait", broker.wills.held_bytes),
            ("in_flight_messages", "QoS 1 and 2 deliveries not yet acknowledged", census.in_flight_messages),
            ("queued_messages", "QoS 1 and 2 deliveries that wait for their client", census.queued_messages),
            ("queued_bytes", "Bytes of deliveries that wait for their client", census.queued_bytes),
            ("store_failing", "1 while the store can't be written", int(store.is_failing)),
        ):
            yield GaugeMetricFamily(f"braidmq_{name}", what, value)
