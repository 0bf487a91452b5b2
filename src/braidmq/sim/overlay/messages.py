"""The paper's set-up message by message: the nodes that brokers run join, explore and publish on a virtual
network.

Nobody fails here, so nothing is asked of neighbours after they have joined, and messages take the same time
each. What the closed form says of tables that everybody has been offered to, this shows for tables that
were learned.
"""

import resource
import time
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Final

from braidmq.overlay.settings import OverlaySettings, Reading
from braidmq.sim.overlay.network import PUBLISHERS_MAX, SUBSCRIBERS_MAX, VIRTUAL_NODES_PER_BROKER
from braidmq.sim.overlay.world import OverlayWorld, Publication
from braidmq.sim.world.network import Conditions

PUBLICATIONS: Final = 3
DELAY_S: Final = 0.001
JOIN_EVERY_S: Final = 0.001
SLOWLY_FIRST: Final = 200  # a network of a few can't take many at once
PERIOD_S: Final = 1000.0  # the regular round comes once, after everybody has joined


@dataclass(frozen=True, slots=True)
class MessageTask:
    brokers: int
    subscribers: tuple[int, ...]
    entries_max: int
    seed: int
    reading: Reading = Reading.EVERYBODY


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One topic: its first and its last publication."""

    brokers: int
    entries_max: int
    subscribers: int
    hops_first: float
    hops_mean: float
    hops_max: int
    missed: int
    repeated: int
    messages: int  # PUB and ACK of the last one


@dataclass(frozen=True, slots=True)
class MessageResult:
    rows: tuple[MessageRow, ...]
    virtual_nodes: int
    messages: int
    messages_per_join: float
    seconds: float  # of this process
    memory_mb: float


def run_messages(task: MessageTask) -> MessageResult:
    started_s = time.process_time()
    rng = Random(task.seed)
    world = OverlayWorld(task.seed, _settings(task), Conditions((DELAY_S, DELAY_S)))
    joins = _memberships(task, rng)
    _join_all(world, joins)
    joined = sum(world.messages.values())
    world.run_for(PERIOD_S * 1.3)
    rows = [_publish(world, task, count, publisher) for count, publisher in _measured(joins)]
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds = time.process_time() - started_s
    total = sum(world.messages.values())
    return MessageResult(tuple(rows), len(joins), total, joined / len(joins), seconds, memory_mb)


def _settings(task: MessageTask) -> OverlaySettings:
    return OverlaySettings(
        entries_max=task.entries_max,
        near_count=1,
        reading=task.reading,
        link_s=0,
        order_hold_s=0,
        period_s=PERIOD_S,
        publisher_idle_s=100 * PERIOD_S,
        ack_s=10.0,
    )


@dataclass(frozen=True, slots=True)
class _Membership:
    broker: str
    topic: str
    publishes: bool
    measured: int  # subscribers of its topic if that is measured, else 0


def _memberships(task: MessageTask, rng: Random) -> list[_Membership]:
    """Who takes part in what: the measured topics, and small ones until every broker has five on average."""
    names = [f"b{number}" for number in range(task.brokers)]
    found: list[_Membership] = []
    for count in task.subscribers:
        topic = f"{rng.getrandbits(32):08x}/{count}"
        first, *others = rng.sample(names, count + 1)
        found.append(_Membership(first, topic, True, count))
        found += [_Membership(name, topic, False, count) for name in others]
    total = VIRTUAL_NODES_PER_BROKER * task.brokers
    while len(found) < total:
        topic = f"{rng.getrandbits(32):08x}"
        publishers, subscribers = rng.randint(1, PUBLISHERS_MAX), rng.randint(0, SUBSCRIBERS_MAX)
        found += [_Membership(name, topic, True, 0) for name in rng.sample(names, publishers)]
        found += [_Membership(name, topic, False, 0) for name in rng.sample(names, subscribers)]
    del found[total:]
    rng.shuffle(found)
    return found


def _join_all(world: OverlayWorld, joins: list[_Membership]) -> None:
    """One after the other, faster than a join takes."""
    seed = joins[0].broker
    for number, one in enumerate(joins):
        if one.broker not in world.overlays:
            world.start(one.broker, [] if one.broker == seed else [seed])
        (world.advertise if one.publishes else world.subscribe)(one.broker, one.topic)
        world.run_for(JOIN_EVERY_S if number > SLOWLY_FIRST else 20 * JOIN_EVERY_S)
    world.run_for(10.0)


def _measured(joins: list[_Membership]) -> list[tuple[int, _Membership]]:
    return sorted(
        ((one.measured, one) for one in joins if one.measured and one.publishes), key=lambda pair: pair[0]
    )


def _publish(world: OverlayWorld, task: MessageTask, count: int, publisher: _Membership) -> MessageRow:
    publications: list[Publication] = []
    for _ in range(PUBLICATIONS):
        before = Counter(world.messages)
        publications.append(world.publish(publisher.broker, publisher.topic))
        world.run_for(1.0)
    sent = world.messages - before
    first, last = publications[0], publications[-1]
    hops = [one for ones in last.hops.values() for one in ones]
    first_hops = [one for ones in first.hops.values() for one in ones]
    return MessageRow(
        task.brokers,
        task.entries_max,
        count,
        sum(first_hops) / max(1, len(first_hops)),
        sum(hops) / max(1, len(hops)),
        max(hops, default=0),
        sum(count - len(publication.hops) for publication in publications),
        sum(len(ones) - 1 for publication in publications for ones in publication.hops.values()),
        sent["Pub"] + sent["Ack"],
    )
