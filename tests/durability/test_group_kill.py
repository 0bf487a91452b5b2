"""The broker is killed while a shared group works: nothing that it acknowledged is lost, QoS 2 isn't doubled.

Two members' sessions last, the third one's don't, and members come and go; so what is kept is in the group,
in lasting sessions, and with a session that the kill ends.
"""

import random
from pathlib import Path

import pytest

from braidmq.wire import Properties, Subscribe, Subscription
from tests.durability.clients import Publisher, Subscriber, Wire, run
from tests.durability.test_kill_loop import Node, acknowledgements, numbers

FILTER = "$share/crew/load/#"
ROUNDS = 4


class Passing(Subscriber):
    """Its session never lasts. It takes QoS 1 at most, since QoS 2 would rightly die with it."""

    def on_connack(self) -> None:
        self.send(Subscribe(1, tuple(Subscription(filter, 1) for filter in self.filters)))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("policy", ["adaptive", "hash_topic"])
def test_a_group_survives_kills(tmp_path: Path, policy: str) -> None:
    chance = random.Random(7)
    flags = ("--group-policy", policy, "--set", "groups.messages_max=1000000")
    node = Node(tmp_path / "data", *flags, "--set", "groups.bytes_max=1000000000")
    one, two = Publisher("one", 1, "load/1"), Publisher("two", 2, "load/2")
    workers = [Subscriber("worker-1", FILTER), Subscriber("worker-2", FILTER)]
    passing = Passing("passing", FILTER, properties=Properties(receive_maximum=5))
    members, publishers = [*workers, passing], [one, two]
    wires: list[Wire] = [*members, *publishers]
    try:
        for worker in workers:
            worker.connect(node.port)
        assert run(list(workers), lambda: all(worker.granted for worker in workers))
        for _ in range(ROUNDS):
            present = chance.sample(members, chance.randrange(len(members) + 1))
            for wire in [*present, *publishers]:
                wire.connect(node.port)
            wanted = acknowledgements(publishers) + chance.randrange(100, 800)
            assert run(wires, lambda wanted=wanted: acknowledgements(publishers) >= wanted)
            node.restart()
            for wire in wires:
                wire.close()
        for publisher in publishers:
            publisher.is_paused = True
        for wire in [*workers, *publishers]:
            wire.connect(node.port)
        assert run(wires, lambda: not one.open and not two.open)
        assert run(wires, lambda: has_all(members, "load/1", one) and has_all(members, "load/2", two))
        got_once = [number for worker in workers for number in numbers(worker.once, "load/2")]
        assert len(set(got_once)) == len(got_once), "QoS 2 doubled"
    finally:
        for wire in wires:
            wire.close()
        node.kill()


def has_all(members: list[Subscriber], topic: str, publisher: Publisher) -> bool:
    seen = {n for member in members for n in numbers(member.once + member.at_least_once, topic)}
    return seen.issuperset(publisher.acknowledged)
