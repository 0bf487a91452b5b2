"""What the demo knows about itself at a moment, and how that is shown: as a table, or as a line."""

from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from braidmq.demo.fleet import FleetReport
from braidmq.demo.receivers import Receiver
from braidmq.spark.pipeline.tables import AGGREGATES, ALERTS, DEAD_LETTERS, RAW

ALERTS_SHOWN = 4


@dataclass
class Situation:
    phase: str = "starting"
    traffic_s: float = 0.0
    fleets: list[FleetReport] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    receivers: list[Receiver] = field(default_factory=list)
    slow: str | None = None  # the receiver that is being held up
    killed: str | None = None  # the broker that is not there
    alerts: dict[str, str] = field(default_factory=dict)  # id -> what was told over MQTT

    @property
    def messages_in(self) -> int:
        return sum(fleet.acknowledged for fleet in self.fleets)

    @property
    def lag(self) -> int:
        return max(0, self.messages_in - self.rows.get(RAW, 0))


def shown(now: Situation) -> RenderableType:
    parts: list[RenderableType] = [_numbers(now), _receivers(now)]
    parts += [Text(f"alert  {text}") for text in list(now.alerts.values())[:ALERTS_SHOWN]]
    if len(now.alerts) > ALERTS_SHOWN:
        parts.append(Text(f"       and {len(now.alerts) - ALERTS_SHOWN} more"))
    return Group(Text(f"{_phase(now)}, {now.traffic_s:.0f} s of traffic"), *parts)


def _phase(now: Situation) -> str:
    return f"{now.phase}, {now.killed} is killed" if now.killed is not None else now.phase


def _numbers(now: Situation) -> Table:
    table = Table("messages in", "per s", "raw rows", "lag", "readings", "dead letters", "windows", "alerts")
    rate = now.messages_in / now.traffic_s if now.traffic_s else 0.0
    others = [name for name in now.rows if name not in (RAW, DEAD_LETTERS, AGGREGATES, ALERTS)]
    rows = [sum(now.rows[name] for name in others)]
    rows += [now.rows.get(name, 0) for name in (DEAD_LETTERS, AGGREGATES, ALERTS)]
    first = (now.messages_in, rate, now.rows.get(RAW, 0), now.lag)
    table.add_row(*(f"{number:,.0f}" for number in (*first, *rows)))
    return table


def _receivers(now: Situation) -> Table:
    table = Table("receiver", "messages", "share", "")
    total = sum(receiver.rows for receiver in now.receivers)
    for receiver in now.receivers:
        share = f"{receiver.rows / total:.0%}" if total else ""
        state = "" if receiver.connected else "not connected"
        state = "slow" if receiver.subscriber == now.slow else state
        table.add_row(receiver.subscriber, f"{receiver.rows:,}", share, state)
    return table


def line(now: Situation) -> str:
    """The same for a file or a pipe; before the devices talk there is nothing to count."""
    if not now.fleets:
        return f"{now.phase} …"
    total = sum(receiver.rows for receiver in now.receivers)
    shares = " ".join(f"{receiver.rows / total:.0%}" for receiver in now.receivers) if total else "-"
    return (
        f"{_phase(now)} {now.traffic_s:.0f} s  in {now.messages_in:,}  raw {now.rows.get(RAW, 0):,}  "
        f"lag {now.lag:,}  dead letters {now.rows.get(DEAD_LETTERS, 0):,}  shares {shares}  "
        f"alerts {len(now.alerts)}"
    )
