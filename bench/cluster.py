"""What it costs to be many: messages that cross from one broker to another, beside messages that don't.

    python -m bench.cluster [--rounds 3] [--seconds 2] [--rows forward,visible,takeover] [--out FILE.json]

*forward*: one publisher and one subscriber, both at one node, then at two that are linked, then the same
with two Mosquittos and a bridge between them. All by turns. Rates mean little on two cores, where two brokers
and the generator share them: CPU a message, of each broker by itself, is what counts.
*visible*: how long a SUBSCRIBE takes until all of eight nodes know of it, which its SUBACK says.
*takeover*: how long a client with queued messages takes to connect at another node and get them all there.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from bench.contenders import (
    BRAIDMQ_LIMITS,
    MOSQUITTO_CONFIG,
    MOSQUITTO_MISSING,
    BenchError,
    Contender,
    find_mosquitto,
    free_port,
    started,
)
from bench.measure import drive
from braidmq.errors import BraidError
from braidmq.load.case import Case
from braidmq.wire import Publish
from tests.support.raw import RawClient

SECRET = "a secret for a benchmark"
BRIDGE = """\
connection bridge
address 127.0.0.1:{other}
topic # out 2
bridge_protocol_version mqttv50
cleansession false
notifications false
try_private true
"""
LINKED_MAX_S = 30.0
VISIBLE_NODES, VISIBLE_TIMES = 8, 200
TAKEOVER_MESSAGES, TAKEOVER_TIMES = 1000, 50


class Crossing(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a publisher and a subscriber, perhaps at different brokers."""

    delivered_per_s: float
    origin_us: float  # CPU a message of the broker that is published to
    target_us: float  # of the one that the subscriber is at; 0: it is the same
    delivery_ratio: float
    duplicates: int


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured, in numbers; each text is a case."""

    forward: dict[str, list[Crossing]] = {}
    visible_ms: list[float] = []
    takeover_ms: list[float] = []


# ---- brokers -----------------------------------------------------------------------------------------------


def node_command(port: int, link: int, seed: int | None, kept: Sequence[str]) -> list[str]:
    limits = [part for limit in BRAIDMQ_LIMITS for part in ("--limit", limit)]
    joining = ["--join", f"127.0.0.1:{seed}"] if seed is not None else []
    command = [sys.executable, "-m", "braidmq", "serve", "--port", str(port), "--log-level", "error"]
    listen = ["--cluster-listen", f"127.0.0.1:{link}", "--set", f"cluster.secret={SECRET}"]
    return [*command, *listen, *joining, *limits, *kept]


@contextmanager
def nodes(count: int, *, durability: str | None = None) -> Iterator[list[Contender]]:
    """So many linked nodes: in memory, or each with a directory of its own."""
    with ExitStack() as stack:
        links = [free_port() for _ in range(count)]
        found: list[Contender] = []
        for number, link in enumerate(links):
            kept = ["--in-memory"]
            if durability is not None:
                directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
                kept = ["--data-dir", directory, "--durability", durability]
            port = free_port()
            command = node_command(port, link, links[0] if number else None, kept)
            found.append(stack.enter_context(started(f"node {number}", command, port)))
        await_links(found)
        yield found


def await_links(found: list[Contender], origins: int | None = None) -> None:
    """Until what is published at any of them (at the first `origins`) reaches subscribers at all others."""
    clients = [connected(one.port, f"probe-{number}") for number, one in enumerate(found)]
    for client in clients:
        client.subscribe("bench/probe")
    for number, publisher in enumerate(clients[:origins]):
        deadline = time.monotonic() + LINKED_MAX_S
        waiting = [client for client in clients if client is not publisher]
        while waiting:
            if time.monotonic() > deadline:
                raise BenchError("the brokers don't find each other")
            publisher.publish("bench/probe", b"%d" % number)
            time.sleep(0.05)
            waiting = [client for client in waiting if b"%d" % number not in payloads(client)]
    for client in clients:
        client.sock.close()


def connected(port: int, client_id: str, **wishes: Any) -> RawClient:
    client = RawClient(port, timeout_s=20)
    client.connect(client_id, **wishes)
    return client


def payloads(client: RawClient) -> list[bytes]:
    """What came until now."""
    return [packet.payload for packet in client.barrier() if isinstance(packet, Publish)]


@contextmanager
def bridged_mosquittos() -> Iterator[list[Contender]]:
    program = find_mosquitto()
    if program is None:
        raise BenchError(MOSQUITTO_MISSING)
    ports = [free_port(), free_port()]
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
        found = []
        for port, bridge in ((ports[1], ""), (ports[0], BRIDGE.format(other=ports[1]))):
            path = Path(directory, f"{port}.conf")
            path.write_text(MOSQUITTO_CONFIG.format(port=port, persistence="persistence false") + bridge)
            found.append(stack.enter_context(started("mosquitto", [program, "-c", str(path)], port)))
        found.reverse()
        await_links(found, origins=1)
        yield found


# ---- forward -----------------------------------------------------------------------------------------------

ONE_TO_ONE = Case(subscriptions=("bench/topic",), topics=("bench/topic",), batch=64, check_every=64)
LOADS = {
    "QoS 0": ONE_TO_ONE,
    # With sessions that last, so that what is delivered has to be kept at one node, too.
    "QoS 1": msgspec.structs.replace(
        ONE_TO_ONE, qos=1, subscriber_qos=1, window=1000, check_every=1, session_expiry_s=3600
    ),
}


def crossing(brokers: Sequence[Contender], load: Case, *, crosses: bool) -> Crossing:
    """One run: the subscriber is at the second broker if the messages are to cross."""
    origin, target = brokers[0], brokers[1]
    case = msgspec.structs.replace(load, subscriber_port=target.port if crosses else 0)
    result = drive(origin, case, (target,))
    begin, end = result.probes["begin"], result.probes["end"]
    per_message = 1e6 / max(1, result.steady_delivered)
    return Crossing(
        delivered_per_s=result.delivered_per_s,
        origin_us=(end["cpu_s"] - begin["cpu_s"]) * per_message,
        target_us=(end["cpu_s:0"] - begin["cpu_s:0"]) * per_message if crosses else 0.0,
        delivery_ratio=result.delivery_ratio,
        duplicates=result.duplicates,
    )


def measure_forward(rounds: int, seconds: float) -> dict[str, list[Crossing]]:
    found: dict[str, list[Crossing]] = {}
    with nodes(2) as memory, nodes(2, durability="process") as durable, bridged_mosquittos() as bridged:
        for _ in range(rounds):
            for name, load in LOADS.items():
                load = msgspec.structs.replace(load, steady_s=seconds)
                ours = memory if load.qos == 0 else durable
                found.setdefault(f"{name}, one node", []).append(crossing(ours, load, crosses=False))
                found.setdefault(f"{name}, two nodes", []).append(crossing(ours, load, crosses=True))
                found.setdefault(f"{name}, one Mosquitto", []).append(crossing(bridged, load, crosses=False))
                found.setdefault(f"{name}, two Mosquittos", []).append(crossing(bridged, load, crosses=True))
    return found


# ---- visible, takeover -------------------------------------------------------------------------------------


def measure_visible() -> list[float]:
    """Milliseconds from SUBSCRIBE to SUBACK, which says that all nodes know."""
    with nodes(VISIBLE_NODES) as found:
        clients = [connected(one.port, f"visible-{number}") for number, one in enumerate(found)]
        times_ms = []
        for number in range(VISIBLE_TIMES):
            client = clients[number % len(clients)]
            began_s = time.perf_counter()
            client.subscribe(f"visible/{number}/#")
            times_ms.append((time.perf_counter() - began_s) * 1000)
        return times_ms


def measure_takeover() -> list[float]:
    """Milliseconds from CONNECT at the other node until the last of the queued messages is there."""
    with nodes(2, durability="process") as found:
        publisher = connected(found[0].port, "publisher")
        times_ms = []
        for number in range(TAKEOVER_TIMES):
            mover = connected(found[0].port, f"mover-{number}", session_expiry_s=3600)
            mover.subscribe(f"move/{number}", qos=1)
            mover.sock.close()
            for message in range(TAKEOVER_MESSAGES):
                publisher.publish(f"move/{number}", b"%d" % message, qos=1)
            times_ms.append(taken_over_ms(found[1].port, f"mover-{number}"))
        return times_ms


def taken_over_ms(port: int, client_id: str) -> float:
    began_s = time.perf_counter()
    mover = connected(port, client_id, clean_start=False, session_expiry_s=3600)
    if not mover.connack.session_present:
        raise BenchError("the session did not follow its client")
    for message in range(TAKEOVER_MESSAGES):
        mover.take(payload=b"%d" % message)
    took_ms = (time.perf_counter() - began_s) * 1000
    mover.sock.close()
    return took_ms


# ---- the program -------------------------------------------------------------------------------------------


def show(figures: Figures, console: Console) -> None:
    table = Table(title="CPU a message, µs (medians)")
    for column in ("case", "messages/s", "origin", "target", "delivered", "twice"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for name, runs in figures.forward.items():
        middle = {
            field: statistics.median(getattr(run, field) for run in runs)
            for field in ("delivered_per_s", "origin_us", "target_us", "delivery_ratio")
        }
        table.add_row(
            name,
            f"{middle['delivered_per_s']:,.0f}",
            f"{middle['origin_us']:.3f}",
            f"{middle['target_us']:.3f}",
            f"{middle['delivery_ratio']:.4f}",
            str(sum(run.duplicates for run in runs)),
        )
    if figures.forward:
        console.print(table)
    for title, times_ms in (
        (f"subscription visible on {VISIBLE_NODES} nodes", figures.visible_ms),
        (f"takeover with {TAKEOVER_MESSAGES} messages", figures.takeover_ms),
    ):
        if times_ms:
            p99 = statistics.quantiles(times_ms, n=100, method="inclusive")[98]
            console.print(f"{title}: p50 {statistics.median(times_ms):.1f} ms, p99 {p99:.1f} ms")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default="forward,visible,takeover", help="which, separated by commas")
    parser.add_argument("--rounds", type=int, default=3, help="how often all take turns (3)")
    parser.add_argument("--seconds", type=float, default=2.0, help="measured interval of a run (2)")
    parser.add_argument("--out", type=Path, help="where to store JSON")
    given = parser.parse_args(argv)
    rows = given.rows.split(",")
    console = Console()
    try:
        figures = Figures(
            forward=measure_forward(given.rounds, given.seconds) if "forward" in rows else {},
            visible_ms=measure_visible() if "visible" in rows else [],
            takeover_ms=measure_takeover() if "takeover" in rows else [],
        )
    except BraidError as error:
        print(error, file=sys.stderr)
        return 1
    show(figures, console)
    if given.out is not None:
        given.out.write_bytes(msgspec.json.format(msgspec.json.encode(figures)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
