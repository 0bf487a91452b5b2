"""The same clients do the same on one node and on several, and are given the same."""

from collections import defaultdict
from collections.abc import Callable
from random import Random
from typing import Final

import pytest

from braidmq.limits import Limits
from braidmq.sim.cluster.clients import Manners
from braidmq.sim.cluster.machine import Habits
from braidmq.sim.cluster.network import Delays
from braidmq.sim.cluster.plan import FILTERS, MEET_S, TOPICS
from braidmq.sim.cluster.trace import Connected, Got, Published, Subscribed
from braidmq.sim.cluster.world import World

STEP_S: Final = 1.0  # all that a step causes has happened by then
CLIENTS: Final = ("c1", "c2", "c3", "c4")
STEPS: Final = 40

Step = Callable[[World], None]
Seen = dict[object, list[object]]


def script(seed: int) -> list[Step]:
    """What clients do, one after another."""
    rng = Random(seed)
    numbers = iter(range(1, 10_000))
    steps: list[Step] = [coming(name) for name in CLIENTS]
    for _ in range(STEPS):
        kind = rng.choice(("subscribe", "unsubscribe", "publish", "publish", "publish", "go", "come"))
        name = rng.choice(CLIENTS)
        if kind == "subscribe":
            steps.append(subscribing(name, rng.choice(FILTERS), rng.randint(0, 2)))
        elif kind == "unsubscribe":
            steps.append(unsubscribing(name, rng.choice(FILTERS)))
        elif kind == "publish":
            messages = [
                (next(numbers), rng.choice(TOPICS), rng.randint(0, 2), rng.random() < 0.2)
                for _ in range(rng.choice((1, 5)))
            ]
            steps.append(publishing(name, messages))
        elif kind == "go":
            steps.append(going(name, politely=rng.random() < 0.5))
        else:
            steps.append(coming(name))
    return [*steps, *(coming(name) for name in CLIENTS)]


def coming(name: str) -> Step:
    return lambda world: world.clients[name].come()


def going(name: str, *, politely: bool) -> Step:
    return lambda world: world.clients[name].go(politely=politely)


def subscribing(name: str, filter: str, qos: int) -> Step:
    return lambda world: world.clients[name].subscribe(filter, qos)


def unsubscribing(name: str, filter: str) -> Step:
    return lambda world: world.clients[name].unsubscribe(filter)


def publishing(name: str, messages: list[tuple[int, str, int, bool]]) -> Step:
    def publish(world: World) -> None:
        client = world.clients[name]
        for number, topic, qos, retain in messages:
            if client.can_publish(qos):
                client.publish(number, topic, qos, retain=retain)

    return publish


def seen_with(nodes: int, seed: int) -> Seen:
    """What each client saw: of each publisher, topic and class in order."""
    world = World(seed, Limits(), Delays())
    names = [f"n{number}" for number in range(1, nodes + 1)]
    world.add_nodes(dict.fromkeys(names, Habits()))
    rng = Random(seed)
    for number, client in enumerate(CLIENTS):
        manners = Manners(lasts=rng.random() < 0.6, window=rng.choice((1, 20)))
        world.add_client(client, names[number % nodes], manners)
    for name in names:
        world.start(name)
    world.run_until(MEET_S)
    for step in script(seed):
        step(world)
        world.run_until(world.clock.now + STEP_S)
    return summary(world)


def summary(world: World) -> Seen:
    publishers = {
        event.number: (event.client, event.qos > 0 or event.retain) for event in world.trace.all(Published)
    }
    found: Seen = defaultdict(list)
    for event in world.trace.events:
        if isinstance(event, Got):
            key = event.client, publishers[event.number], event.topic, event.qos > 0, event.retain
            found[key].append((event.number, event.qos, event.life))
        elif isinstance(event, Connected):
            found[event.client, "connected"].append(event.life)
        elif isinstance(event, Subscribed):
            found[event.client, "subscribed"].append((event.filter, event.qos))
    return found


@pytest.mark.parametrize("nodes", [3])
def test_several_nodes_look_like_one(nodes: int) -> None:
    for seed in range(20):
        one, several = seen_with(1, seed), seen_with(nodes, seed)
        assert any(isinstance(found[0], tuple) for found in one.values())
        assert several == one, f"seed {seed}"
