"""(4) What must hold when the last fault was mended some time ago: one cluster, and nothing left to do."""

from braidmq.sim.cluster.machine import Life
from braidmq.sim.cluster.plan import TOPICS
from braidmq.sim.cluster.world import World
from braidmq.topics import matches


def unsettled(world: World) -> list[str]:
    """What is not as it should be in the end."""
    lives = {machine.name: machine.life for machine in world.running() if machine.life is not None}
    wrong = [f"{name} is not running" for name in world.machines if name not in lives]
    wrong += [f"{name} waits for answers" for name, client in world.clients.items() if not client.is_at_rest]
    for name, life in lives.items():
        found = (*_left_over(life), *_still_queued(life, lives), *_unknown(life, lives))
        wrong += [f"{name}: {line}" for line in found]
    return [*wrong, *_sessions(lives), *_retained(lives)]


def _left_over(life: Life) -> list[str]:
    """What waits though all clients and nodes are there."""
    wrong = []
    for client_id, session in life.broker.sessions.items():
        session.check()
        if session.queue is not None and len(session.queue):
            wrong.append(f"{len(session.queue)} messages wait for {client_id}")
    for group in life.broker.groups:
        group.check()
    life.broker.router.trie.check()
    return wrong


def _still_queued(life: Life, lives: dict[str, Life]) -> list[str]:
    """What waits for nodes; one that has lost its disk is another one now, and its queue is kept in vain."""
    names = {other.machine.papers.node: name for name, other in lives.items()}
    queued = {peer.node: peer.queued_count + len(peer.unacknowledged()) for peer in life.broker.peers}
    return [
        f"{count} messages wait for {names[node]}"
        for node, count in queued.items()
        if count and node in names
    ]


def _unknown(life: Life, lives: dict[str, Life]) -> list[str]:
    """Nodes that this one is not linked with, or of whose subscriptions it does not know."""
    if life.joined is None:
        return []
    wrong = []
    linked = life.joined.linked()
    ways = {topic: life.joined.ways(topic) for topic in TOPICS}
    for name, other in lives.items():
        if other is life:
            continue
        if name not in linked:
            wrong.append(f"is not linked with {name}")
        wrong += [
            f"sends nothing on {topic} to {name}"
            for topic in TOPICS
            if name not in ways[topic] and _is_wanted(other, topic)
        ]
    return wrong


def _is_wanted(life: Life, topic: str) -> bool:
    subscriptions = [
        subscription
        for session in life.broker.sessions.values()
        for subscription in session.subscriptions.values()
    ]
    return any(
        subscription.group is None and matches(subscription.filter, topic.encode())
        for subscription in subscriptions
    )


def _sessions(lives: dict[str, Life]) -> list[str]:
    """One session a client id."""
    homes: dict[str, list[str]] = {}
    for name, life in lives.items():
        for client_id in life.broker.sessions:
            homes.setdefault(client_id, []).append(name)
    return [f"{client_id} has sessions at {found}" for client_id, found in homes.items() if len(found) > 1]


def _retained(lives: dict[str, Life]) -> list[str]:
    """The same everywhere."""
    kept = {
        name: {topic: bytes(message.payload) for topic, message in life.broker.retained.all()}
        for name, life in lives.items()
    }
    first, *others = kept
    return [
        f"{first} and {other} have retained {kept[first]} and {kept[other]}"
        for other in others
        if kept[other] != kept[first]
    ]
