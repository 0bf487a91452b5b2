"""How fast a client may send, and an address may connect: token buckets, where they are configured.

Whoever sends too fast is read more slowly, nothing is lost by it: a bucket may go below nothing by what one
read brought, and reading goes on when it is paid back. A `MeteredConnection` takes the place of a Connection
only where there is such a limit, so that nobody else pays for the counting.
"""

from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any, Final

from braidmq.broker.connection import Connection, Shell, State
from braidmq.broker.pauses import Pause
from braidmq.timing.bucket import Bucket

if TYPE_CHECKING:
    from braidmq.broker.broker import Broker

ADDRESSES_MAX: Final = 65_536
NETWORK_BITS: Final = 64  # what one household or server has of IPv6 addresses


class AddressRates:
    """How often each address has connected, or failed to log in: a bucket each, at most ADDRESSES_MAX."""

    def __init__(self, rate_per_s: int) -> None:
        self._rate_per_s = rate_per_s
        self._buckets: dict[str, Bucket] = {}

    def admits(self, peer: str, now: float) -> bool:
        """Whether one more connection of `peer` (its address and port) is within the rate."""
        return self._bucket(network_of(peer), now).take_one(now)

    def spend(self, network: str, now: float) -> None:
        """One more, whether it is within the rate or not."""
        self._bucket(network, now).spend(1, now)

    def rests_until(self, network: str, now: float) -> float:
        """When what was spent beyond the rate is paid back; `now` if nothing was."""
        bucket = self._buckets.get(network)
        return now if bucket is None else now + bucket.spend(0, now)

    def _bucket(self, network: str, now: float) -> Bucket:
        bucket = self._buckets.get(network)
        if bucket is None:
            if len(self._buckets) >= ADDRESSES_MAX:
                self._buckets.clear()  # forgiving for a moment is cheaper than remembering for ever
            bucket = self._buckets[network] = Bucket(self._rate_per_s, now)
        return bucket


def network_of(peer: str) -> str:
    """The address of `host:port` or `[host]:port`; of an IPv6 address its network."""
    host = peer.rpartition(":")[0].strip("[]")
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host)
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(int(address) >> NETWORK_BITS)


class MeteredConnection(Connection):
    """A connection that is read no faster than the limits allow."""

    def __init__(self, hub: Any, publishing: Any, broker: "Broker", shell: Shell, peer: str) -> None:
        super().__init__(hub, publishing, broker, shell, peer)
        limits = hub.limits
        bytes_max, messages_max = limits.client_bytes_per_s_max, limits.client_messages_per_s_max
        self._bytes = Bucket(bytes_max, hub.now) if bytes_max else None
        self._messages = Bucket(messages_max, hub.now) if messages_max else None

    def received(self, count: int, now: float) -> int:
        before = self._published()
        result = super().received(count, now)
        self._spend(count, self._published() - before)
        return result

    def go_on(self, now: float) -> None:
        before = self._published()
        super().go_on(now)
        self._spend(0, self._published() - before)

    def _published(self) -> int:
        """All messages of all clients; while one connection's input is handled, only its own are added."""
        return self.hub.counters.by_name()["publishes_received"]

    def _spend(self, count: int, messages: int) -> None:
        now = self.hub.now
        wait_s = 0.0
        if self._bytes is not None:
            wait_s = self._bytes.spend(count, now)
        if self._messages is not None:
            wait_s = max(wait_s, self._messages.spend(messages, now))
        if wait_s > 0 and Pause.RATE not in self._pauses and self.state is not State.CLOSED:
            self.broker.quota_pauses += 1
            self._pause(Pause.RATE)
            self.broker.timers.set(now + wait_s, self._paid_back)

    def _paid_back(self) -> None:
        self._resume(Pause.RATE)
