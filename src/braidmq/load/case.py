"""What the generator is asked to do, and what it found out. Pure values, no I/O.

A case describes publishers, subscribers and the way they talk; a result has the counts, the rates of the
steady interval, the faults and the latencies. Both survive JSON, because the generator runs in a process
of its own that can be pinned to a core.
"""

from collections import Counter

import msgspec

from braidmq.errors import ConfigError
from braidmq.topics import matches, split_shared

STAMP_BYTES = 16  # publisher and sequence number in the first 8 bytes of a payload, send time in the next 8
PUBLISHERS_MAX = 1 << 24
TRACKERS_MAX = 1 << 22
WINDOW_MAX = 65535


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One load: who publishes what to whom, how fast and for how long."""

    host: str = "127.0.0.1"
    port: int = 1883
    subscriber_port: int = 0  # where subscribers connect, at another node of a cluster; 0 is the same
    version: int = 5  # protocol level: 4 is MQTT 3.1.1
    client_prefix: str = "load"

    publishers: int = 1
    topics: tuple[str, ...] = ("load/topic",)
    random_topics: bool = False  # each message picks one; otherwise a publisher keeps to one, in turn
    qos: int = 0
    payload_bytes: int = 100
    batch: int = 1  # messages a write
    window: int = 0  # QoS 1/2: unacknowledged, QoS 0: undelivered messages of one publisher; 0 is no limit
    rate_per_s: float = 0.0  # of all publishers together; 0 is as fast as flow control lets them
    messages: int = 0  # of each publisher, then the run ends; 0 is until time is up
    send_buffer_bytes: int = 256 * 1024  # small enough that a slow broker is felt soon

    subscriptions: tuple[str, ...] = ()  # one subscriber for each filter
    subscriber_qos: int = 0
    receive_maximum: int = 1000
    session_expiry_s: int = 0  # of publishers and subscribers; MQTT 5
    check_every: int = 1  # look into every n-th message; above 1, loss is known by count alone

    idle: int = 0  # connections that only connect
    seed: int = 1
    ramp_s: float = 0.5  # load before the measured interval
    steady_s: float = 3.0
    quiet_s: float = 1.0  # what is still on its way has come, or is lost, when nothing came for so long
    drain_max_s: float = 20.0
    spin: bool = True  # poll without sleeping: waking up a sleeper is charged to the broker that wakes it

    def check(self) -> None:
        """Raise ConfigError for a load that cannot be driven or whose result would mean nothing."""
        for wrong, detail in (
            (self.version not in (4, 5), "version is 4 (MQTT 3.1.1) or 5"),
            (self.payload_bytes < STAMP_BYTES, f"a payload needs {STAMP_BYTES} bytes for its stamp"),
            (self.qos > 0 and not 0 < self.window <= WINDOW_MAX, "QoS 1 and 2 need a window of 1..65535"),
            (self.batch < 1 or self.check_every < 1, "batch and check_every start at 1"),
            (not self.topics, "at least one topic"),
            (self.session_expiry_s > 0 and self.version != 5, "session_expiry_s needs version 5"),
            (self.publishers >= PUBLISHERS_MAX, f"fewer than {PUBLISHERS_MAX} publishers"),
            (
                self.publishers * len(self.subscriptions) > TRACKERS_MAX and self.check_every == 1,
                "too many pairs of publisher and subscriber to check each message; set check_every",
            ),
            (
                self.qos == 0 and self.window > 0 and self.check_every > 1,
                "a QoS 0 window needs every message checked",
            ),
        ):
            if wrong:
                raise ConfigError(detail)


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Of the messages sent in the steady interval and looked into, from (planned) send to receipt."""

    count: int = 0
    mean_us: float = 0.0
    p50_us: float = 0.0
    p99_us: float = 0.0
    p999_us: float = 0.0
    max_us: float = 0.0


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What the subscribers saw; rates are over the steady interval, counts and faults over the whole run."""

    sent: int = 0
    acknowledged: int = 0
    refused: int = 0  # acknowledged with an error: the broker said that it did not take the message
    delivered: int = 0
    expected: int = 0  # deliveries that the accepted messages ask for
    duplicates: int = 0
    order_faults: int = 0  # arrived after a later message of the same publisher, whatever the topic
    foreign: int = 0  # deliveries and acknowledgements that belong to no message of this run
    broken_links: int = 0
    stalls: int = 0  # times that a QoS 0 window was given up because nothing came back
    drained: bool = True  # False when messages were still coming at the end
    steady_s: float = 0.0
    steady_delivered: int = 0
    steady_sent: int = 0
    generator_cpu_s: float = 0.0  # in the steady interval
    generator_busy: float = 0.0  # share of the steady interval not spent waiting
    window: int = 0  # as granted by the broker
    latency: Latency = Latency()
    probes: dict[str, dict[str, float]] = {}

    @property
    def lost(self) -> int:
        return max(0, self.expected - (self.delivered - self.duplicates))

    @property
    def delivery_ratio(self) -> float:
        return (self.delivered - self.duplicates) / self.expected if self.expected else 1.0

    @property
    def delivered_per_s(self) -> float:
        return self.steady_delivered / self.steady_s if self.steady_s else 0.0

    @property
    def sent_per_s(self) -> float:
        return self.steady_sent / self.steady_s if self.steady_s else 0.0


def streams(subscriptions: tuple[str, ...]) -> list[int]:
    """Number of the stream each subscriber reads: the members of a shared group read one together."""
    numbers: dict[object, int] = {}
    found = []
    for position, subscription in enumerate(subscriptions):
        group, _ = split_shared(subscription)
        found.append(numbers.setdefault(position if group is None else subscription, len(numbers)))
    return found


def fan_out(topics: tuple[str, ...], subscriptions: tuple[str, ...]) -> list[int]:
    """Deliveries that one message on each of the topics asks for."""
    plain: Counter[str] = Counter()
    shared: set[tuple[str, str]] = set()
    for subscription in subscriptions:
        group, inner = split_shared(subscription)
        if group is None:
            plain[inner] += 1
        else:
            shared.add((group, inner))
    wanted = [*plain.items(), *((inner, 1) for _, inner in shared)]
    return [sum(count for inner, count in wanted if matches(inner, topic)) for topic in topics]
