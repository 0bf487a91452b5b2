"""(4) What must hold when the last fault was mended some time ago: one cluster, and nothing left to do."""

from braidmq.sim.cluster.machine import Life
from braidmq.sim.cluster.world import World


def unsettled(world: World) -> list[str]:
    """What is not as it should be in the end."""
    lives = {machine.name: machine.life for machine in world.running() if machine.life is not None}
    wrong = [f"{name} is not running" for name in world.machines if name not in lives]
    wrong += [f"{name} waits for answers" for name, client in world.clients.items() if not client.is_at_rest]
    for name, life in lives.items():
        wrong += [f"{name}: {line}" for line in _left_over(life)]
    return wrong + _sessions(lives)


def _left_over(life: Life) -> list[str]:
    """What waits though all clients are there and read."""
    wrong = []
    for client_id, session in life.broker.sessions.items():
        session.check()
        if session.queue is not None and len(session.queue):
            wrong.append(f"{len(session.queue)} messages wait for {client_id}")
    for group in life.broker.groups:
        group.check()
    life.broker.router.trie.check()
    return wrong


def _sessions(lives: dict[str, Life]) -> list[str]:
    """One session a client id."""
    homes: dict[str, list[str]] = {}
    for name, life in lives.items():
        for client_id in life.broker.sessions:
            homes.setdefault(client_id, []).append(name)
    return [f"{client_id} has sessions at {found}" for client_id, found in homes.items() if len(found) > 1]
