"""The receivers of a query for Prometheus, on a port of the driver's machine."""

from collections.abc import Callable, Iterable
from typing import Any

from braidmq.spark.supervisor import Supervisor
from braidmq.spark.tasks import Report

CONNECTED_STATES = ("receiving", "full")
PREFIX = "braidmq_spark_receiver_"

Table = dict[str, tuple[str, Callable[[Report], float]]]

_GAUGES: Table = {
    "connected": ("1 while there is a connection to the broker", lambda r: int(r.state in CONNECTED_STATES)),
    "wal_full": ("1 while the log is full and nothing is read", lambda r: int(r.state == "full")),
    "wal_bytes": ("Bytes in the log", lambda r: r.wal_bytes),
    "waiting_messages": ("Messages received and not yet stored", lambda r: r.waiting),
    "next_offset": ("Number that the next row gets", lambda r: r.next_offset),
    "last_message_seconds": ("When the last message came, since 1970", lambda r: r.last_message_at),
    "exactly_once": ("1 while the broker numbers its deliveries", lambda r: int(r.repeats_by == "numbers")),
}
_COUNTERS: Table = {
    "rows": ("Messages stored", lambda r: r.rows),
    "stored_bytes": ("Bytes stored", lambda r: r.received_bytes),
    "segments": ("Segments stored", lambda r: r.segments),
    "redelivered": ("Messages that came marked as delivered before", lambda r: r.redelivered),
    "repeats": ("Of these not stored again", lambda r: r.repeats),
    "dropped": ("QoS 0 messages dropped for lack of room", lambda r: r.dropped),
    "connections": ("Connections made", lambda r: r.connections),
}


class ReceiverCollector:
    """Reads the newest reports whenever Prometheus asks. Counters begin anew with a receiver process."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def collect(self) -> Iterable[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        reports: list[Report] = self._supervisor.reports()
        kinds: list[tuple[Any, Table]]
        kinds = [(GaugeMetricFamily, _GAUGES), (CounterMetricFamily, _COUNTERS)]
        for kind, table in kinds:
            for name, (text, value) in table.items():
                family = kind(PREFIX + name, text, labels=["subscriber"])
                for report in reports:
                    family.add_metric([report.subscriber], value(report))
                yield family
        restarts = CounterMetricFamily(PREFIX + "restarts", "Restarts of the process", labels=["subscriber"])
        for name, count in self._supervisor.restarts().items():
            restarts.add_metric([name], count)
        yield restarts


def serve_metrics(supervisor: Supervisor, host: str, port: int) -> int:
    """Starts a small HTTP server in a thread; gives its port."""
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry()
    registry.register(ReceiverCollector(supervisor))
    server, _thread = start_http_server(port, host, registry)
    return server.server_port
