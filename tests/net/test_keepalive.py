"""A client that vanishes without a word is noticed by the system, whatever keep alive it asked for."""

from pathlib import Path

import pytest

from tests.net.running import serving
from tests.support.raw import RawClient

TIMERS = Path("/proc/net/tcp")
KEEP_ALIVE_TIMER = "02"


def timer_of(port: int, established: str = "01") -> list[str]:
    """The kernel's timers of connections to a local port."""
    rows = [line.split() for line in TIMERS.read_text().splitlines()[1:]]
    return [row[5][:2] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == established]


@pytest.mark.skipif(not TIMERS.exists(), reason="reads the kernel's table of connections")
def test_the_system_asks_whether_a_silent_client_is_there() -> None:
    with serving([{}, {"protocol": "websocket"}, {"proxy_protocol": True}]) as (_, ports):
        client = RawClient(ports[0])
        client.connect("c", keep_alive_s=0)
        assert timer_of(ports[0]) == [KEEP_ALIVE_TIMER]
        others = [RawClient(port) for port in ports[1:]]
        assert [timer_of(port) for port in ports[1:]] == [[KEEP_ALIVE_TIMER]] * 2
        for each in (client, *others):
            each.close()
