"""A link that is cut again and again, in the middle of whatever is on it, and one on which nothing moves."""

from pathlib import Path

from braidmq.client import BlockingClient
from tests.cluster.live.nodes import LiveNode, meet, until
from tests.cluster.live.test_forwarding import client_of, payloads
from tests.faults import FaultProxy, FaultProxyThread

MESSAGES = 300
BYTES_BETWEEN_CUTS = 6_000  # enough for a handshake and some tens of messages


def publish(node: LiveNode, expected: list[bytes]) -> None:
    with client_of(node, "publisher") as publisher:
        publisher.publish_many([("t", payload) for payload in expected], qos=2)


def test_what_is_published_while_links_break_arrives_once_and_in_order(tmp_path: Path) -> None:
    north, east = LiveNode(tmp_path, "north"), LiveNode(tmp_path, "east")
    with (
        FaultProxyThread("127.0.0.1", north.link_port) as to_north,
        FaultProxyThread("127.0.0.1", east.link_port) as to_east,
    ):
        proxies = (to_north, to_east)
        try:
            north.start("--set", f"cluster.advertise={to_north.address}")
            east.start("--set", f"cluster.advertise={to_east.address}", "--join", to_north.address)
            for node in (north, east):
                until(node.is_up, f"{node.name} is up")
            meet([north, east])
            with BlockingClient(f"127.0.0.1:{east.port}", client_id="subscriber") as subscriber:
                subscriber.subscribe("t", qos=2)
                cut_often(proxies)
                broken_and_back(north, east, proxies, subscriber)
        finally:
            for node in (north, east):
                if node.process is not None:
                    node.stop()


def cut_often(proxies: tuple[FaultProxyThread, ...]) -> None:
    for proxy in proxies:
        proxy.call(lambda fault: fault.cut_after(to_server=BYTES_BETWEEN_CUTS, to_client=BYTES_BETWEEN_CUTS))
        proxy.call(FaultProxy.cut)


def broken_and_back(
    north: LiveNode, east: LiveNode, proxies: tuple[FaultProxyThread, ...], subscriber: BlockingClient
) -> None:
    expected = [b"%0100d" % number for number in range(MESSAGES)]
    publish(north, expected)
    assert payloads(subscriber, MESSAGES) == expected
    assert sum(proxy.proxy.accepted for proxy in proxies) > 3
    for proxy in proxies:
        proxy.call(lambda fault: fault.cut_after())
        proxy.call(FaultProxy.stall)
    until(lambda: north.sees(east="dead"), "east is dead to north")
    publish(north, [b"meanwhile"])
    for proxy in proxies:
        proxy.call(FaultProxy.go_on)
    meet([north, east])
    publish(north, [b"afterwards"])
    assert payloads(subscriber, 2) == [b"meanwhile", b"afterwards"]
