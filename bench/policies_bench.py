"""What choosing a member of a shared group costs, by policy and group size; and a message's way through it.

choose      Policy.choose alone
message     choose, then sent, and acked: what a policy costs a message of QoS 1
group       SharedGroup.published and acknowledged: the same with the group's own bookkeeping
waiting     the same while 1,000 messages wait in the group, so that each acknowledgement sends one
broker      a message of QoS 1 through the broker's core, bytes to bytes: PUBLISH read, member chosen, PUBLISH
            written, both acknowledgements; no sockets. `plain` is the same for an ordinary subscription

Members are declared, have a known speed and report, and a few messages are always in flight. Times are CPU
times in microseconds, the median of several rounds, calls from Python included. The goals are for choose: at
most 2 us for 3 members and 10 us for 100.

python bench/policies_bench.py [--members 3 20 100] [--json FILE]
"""

import argparse
import json
import math
import random
import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from braidmq.broker.access import BuiltInGate
from braidmq.broker.broker import Broker
from braidmq.broker.sharing.group import SharedGroup
from braidmq.broker.sharing.member import Delivery, Member
from braidmq.broker.sharing.policies import POLICIES, Policy, make_policy
from braidmq.config.groups import GroupsConfig, PolicyName
from braidmq.limits import Limits
from braidmq.store import MemoryStore
from braidmq.wire import V5, Connect, Properties, Publish, Subscribe, Subscription, encode

SIZES = (3, 20, 100)
GOALS_US = {3: 2.0, 100: 10.0}
MESSAGES = 2_000
ROUNDS = 9
INFLIGHT = 2  # per member
SPACING_S = 0.0001
WAITING = 1_000
BURST = 20  # messages in one read of the broker


def make_member(number: int, rng: random.Random) -> Member:
    member = Member(f"member-{number}", 0.0, acks_when_processed=True, rtt_s=0.0005, rtt_min_s=0.0005)
    member.report(0.5, rng.randrange(4), rng.uniform(0.02, 0.03))
    first = Delivery(member)
    member.sent(0.6, first)
    member.acked(0.6 + rng.uniform(0.02, 0.03), first)
    return member


def seated(name: str, size: int) -> Policy:
    rng = random.Random(size)
    policy = make_policy(name, rng)
    for number in range(size):
        policy.join(make_member(number, rng), 0.0)
    return policy


def choosing(policy: Policy) -> Callable[[], None]:
    """Choices with messages in flight; `pending` opens every window, so that somebody is always chosen."""
    members, now = policy.members, 1.0
    for member in members:
        for _ in range(INFLIGHT):
            policy.sent(member, now, Delivery(member))
    publishers = [f"publisher-{number}" for number in range(64)]
    pending = 4 * len(members)

    def run() -> None:
        choose, time_s = policy.choose, now
        for number in range(MESSAGES):
            time_s += SPACING_S
            choose(time_s, publishers[number & 63], "plant/line/sensor", 1, pending)

    return run


def through_policy(policy: Policy) -> Callable[[], None]:
    flights: deque[Delivery] = deque()
    publishers = [f"publisher-{number}" for number in range(64)]
    capacity, pending = INFLIGHT * len(policy.members), 4 * len(policy.members)
    clock = [1.0]

    def run() -> None:
        for number in range(MESSAGES):
            clock[0] += SPACING_S
            now = clock[0]
            member = policy.choose(now, publishers[number & 63], "plant/line/sensor", 1, pending)
            if member is not None:
                delivery = Delivery(member)
                policy.sent(member, now, delivery)
                flights.append(delivery)
            if len(flights) > capacity:
                done = flights.popleft()
                policy.acked(done.member, now, done)

    return run


def through_group(name: str, size: int, waiting: int) -> Callable[[], None]:
    rng = random.Random(size)
    group = SharedGroup(make_policy(name, rng))
    members = [make_member(number, rng) for number in range(size)]
    for member in members:
        if waiting:
            member.receive_max = INFLIGHT
        group.subscribed(member, 0.0)
    flights: deque[Delivery] = deque()
    publishers = [f"publisher-{number}" for number in range(64)]
    capacity = INFLIGHT * size
    clock = [1.0]

    def publish(number: int) -> None:
        for effect in group.published("message", clock[0], 1, publishers[number & 63], "plant/line", 100):
            if isinstance(effect, Delivery):
                flights.append(effect)

    for number in range(waiting):
        publish(number)

    def run() -> None:
        for number in range(MESSAGES):
            clock[0] += SPACING_S
            publish(number)
            if len(flights) > capacity or (waiting and flights):
                done = flights.popleft()
                for effect in group.acknowledged(done, clock[0]):
                    if isinstance(effect, Delivery):
                        flights.append(effect)

    return run


class Peer:
    """The other end of a connection of the broker's core, and its shell."""

    def __init__(self, broker: Broker, client_id: str) -> None:
        self.connection = broker.open(self, "bench", broker.hub.now)
        asked = (("ack-mode", "processed"),)
        self.send(encode(Connect(client_id, properties=Properties(user_properties=asked)), V5))

    def send(self, data: bytes) -> None:
        self.connection.receive(data, self.connection.hub.now)

    def read(self) -> bytes:
        data = self.connection.output.take()
        self.connection.output_drained()
        return data

    def close(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def defer(self, action: Callable[[], None]) -> None:
        action()


def through_broker(name: str, size: int, filter: str = "$share/group/plant/line") -> Callable[[], None]:
    policy = cast(PolicyName, name)
    broker = Broker(Limits(), MemoryStore(), BuiltInGate(), str, groups=GroupsConfig(policy=policy))
    broker.advance(1.0)
    members = [Peer(broker, f"member-{number}") for number in range(size)]
    for member in members:
        member.send(encode(Subscribe(1, (Subscription(filter, 1),)), V5))
        member.read()
    publisher = Peer(broker, "publisher")
    frames = encode(Publish("plant/line", b"x" * 100, 1, packet_id=1), V5) * BURST
    dirty = broker.hub.dirty

    def run() -> None:
        for _ in range(MESSAGES // BURST):
            broker.advance(broker.hub.now + BURST * SPACING_S)
            publisher.send(frames)
            publisher.read()
            for member in members:
                acknowledge(member)
            for connection in dirty:
                connection.output.take()
            dirty.clear()

    return run


def acknowledge(member: Peer) -> None:
    """Answer every PUBLISH; all are of one size, and their id follows the topic."""
    data = member.read()
    if not data:
        return
    size = 2 + data[1]
    at = 4 + len("plant/line")
    answers = bytearray()
    for start in range(0, len(data), size):
        answers += b"\x40\x02" + data[start + at : start + at + 2]
    member.send(bytes(answers))


def median_us(run: Callable[[], None]) -> float:
    run()
    rounds = []
    for _ in range(ROUNDS):
        started = time.process_time_ns()
        run()
        rounds.append((time.process_time_ns() - started) / MESSAGES / 1000)
    return statistics.median(rounds)


MEASURES: dict[str, Callable[[str, int], Callable[[], None]]] = {
    "choose": lambda name, size: choosing(seated(name, size)),
    "message": lambda name, size: through_policy(seated(name, size)),
    "group": lambda name, size: through_group(name, size, 0),
    "waiting": lambda name, size: through_group(name, size, WAITING),
    "broker": through_broker,
    "plain": lambda name, _: through_broker(name, 1, "plant/line"),
}


@dataclass(frozen=True, slots=True)
class Row:
    policy: str
    members: int
    times_us: dict[str, float]


def measure(name: str, size: int) -> Row:
    return Row(name, size, {what: round(median_us(make(name, size)), 3) for what, make in MEASURES.items()})


def main() -> int:
    parser = argparse.ArgumentParser(description="What choosing a member of a shared group costs.")
    parser.add_argument("--members", type=int, nargs="+", default=SIZES, help="sizes of the group")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    rows = [measure(name, size) for name in POLICIES for size in arguments.members]
    print(f"{'us of CPU':16}{'members':>8}" + "".join(f"{what:>9}" for what in MEASURES))
    for row in rows:
        print(f"{row.policy:16}{row.members:8}" + "".join(f"{us:9.2f}" for us in row.times_us.values()))
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    slow = [row for row in rows if row.times_us["choose"] > GOALS_US.get(row.members, math.inf)]
    for row in slow:
        print(f"{row.policy}: choose misses its goal of {GOALS_US[row.members]} us for {row.members} members")
    return 1 if slow else 0


if __name__ == "__main__":
    raise SystemExit(main())
