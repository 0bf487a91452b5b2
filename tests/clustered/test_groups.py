"""Shared groups over several nodes: one node has the group, all others have members of it."""

from collections import Counter
from random import Random

import pytest

from braidmq.broker.moving import let_go
from braidmq.broker.restoring import install_session, session_records
from braidmq.broker.sharing.policies import POLICIES
from braidmq.config.groups import GroupsConfig
from braidmq.messages.message import Message
from tests.clustered.group_world import Net, Worker


def owner_of(net: Net) -> int:
    owners = {node.part.owner(number) for node in net.nodes.values() for number in node.part._groups}
    assert len(owners) == 1, owners
    owner = owners.pop()
    assert owner is not None
    return owner


def drain(net: Net, workers: list[Worker]) -> None:
    """Until everything has arrived and is acknowledged."""
    net.run()
    while sum(worker.answer() for worker in workers):
        net.run()
    for worker in workers:
        worker.read()
    net.run()


def done_by(workers: list[Worker]) -> list[int]:
    return sorted(int(payload) for worker in workers for payload in worker.done)


def near_and_far(net: Net, workers: list[Worker]) -> tuple[Worker, list[Worker]]:
    """The member on the owner's node, and the others."""
    owner = owner_of(net)
    near = next(worker for worker in workers if worker.node is net.nodes[owner])
    return near, [worker for worker in workers if worker is not near]


def crew(net: Net) -> list[Worker]:
    """A member on each node."""
    workers = [Worker(f"worker-{me}").come(node, 2) for me, node in net.nodes.items()]
    net.run()
    return workers


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_each_message_goes_to_one_member_wherever_it_was_published(qos: int) -> None:
    net = Net(3)
    workers = crew(net)
    for index in range(30):
        net.nodes[1 + index % 3].publish("t/1", b"%d" % index, qos)
        net.run()
    drain(net, workers)
    assert done_by(workers) == list(range(30))
    assert all(len(worker.done) == 10 for worker in workers), "they take turns, near and far"
    net.check()


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_policy_gives_to_near_and_far_members(policy: str) -> None:
    net = Net(3, config=GroupsConfig(policy=policy))
    workers = crew(net)
    for index in range(60):
        node = net.nodes[1 + index % 3]
        node.publish(f"t/{index % 20}", b"%d" % index, 1 + index % 2, publisher=f"somebody-{index % 20}")
        net.run()
        workers[index % 3].answer(2)
    drain(net, workers)
    assert done_by(workers) == list(range(60))
    if policy != "sticky":
        assert sum(bool(worker.done) for worker in workers) > 1
    net.check()


def test_a_far_member_gets_no_more_than_it_has_room_for() -> None:
    net = Net(2)
    near, (far,) = near_and_far(net, crew(net))
    near.go()
    net.run()
    window = far.node.broker.limits.inflight_max
    for index in range(window + 5):
        near.node.publish("t/1", b"%d" % index, 1)
    net.run()
    far.read()
    assert len(far.open) == window
    group = near.node.broker.groups.get("crew", b"t/#")
    assert len(group.core.queue) == 5
    drain(net, [far])
    assert done_by([far]) == list(range(window + 5))


def test_what_a_session_has_when_it_ends_goes_to_another_member_if_qos_1() -> None:
    net = Net(2)
    near, (far,) = near_and_far(net, crew(net))
    far.go()
    far.lasting = False
    far.come(far.node, 2)
    near.go()
    net.run()
    for index, qos in enumerate((1, 1, 2)):
        near.node.publish("t/1", b"%d" % index, qos)
    net.run()
    far.read()
    assert len(far.open) == 3
    near.come(near.node, 2)
    far.go()
    drain(net, [near])
    assert done_by([near]) == [0, 1]
    assert near.node.dropped("session_ended") == 1, "[MQTT-4.8.2-5]"


def test_what_a_dead_node_has_goes_to_others_if_qos_1_and_is_withdrawn_there() -> None:
    net = Net(2)
    near, (far,) = near_and_far(net, crew(net))
    owner, other = near.node.me, far.node.me
    near.go()
    net.run()
    for index, qos in enumerate((1, 1, 2)):
        near.node.publish("t/1", b"%d" % index, qos)
    net.run()
    far.read()
    far.go()  # it has not acknowledged
    net.run()
    net.cut(owner, other)
    net.count_dead(owner, other)
    near.come(near.node, 2)
    assert near.answer() == 2
    net.link(owner, other)
    net.run()
    far.come(far.node)
    drain(net, [near, far])
    assert (done_by([near]), done_by([far])) == ([0, 1], [2]), (
        "nothing twice, and QoS 2 stays with its member"
    )
    net.check()


def test_another_node_has_the_group_when_its_owner_is_dead() -> None:
    net = Net(3)
    workers = crew(net)
    owner = owner_of(net)
    net.kill(owner)
    net.run()
    left = [worker for worker in workers if worker.node.me != owner]
    assert owner_of(net) != owner
    for index in range(10):
        left[index % 2].node.publish("t/1", b"%d" % index, 2)
        net.run()
    drain(net, left)
    assert done_by(left) == list(range(10))
    assert all(len(worker.done) == 5 for worker in left)
    net.check()


def test_what_waits_goes_on_to_the_next_owner_and_what_was_begun_is_finished() -> None:
    net = Net(3)
    first, second, third = net.nodes.values()
    worker = Worker("worker-1").come(first, 2)
    net.run()
    assert owner_of(net) == first.me
    for index in range(4):
        third.publish("t/1", b"%d" % index, 1 + index % 2)
    net.run()
    worker.read()  # it has four
    worker.go()
    for index in range(4, 8):
        third.publish("t/1", b"%d" % index, 1 + index % 2)
    net.run()
    assert len(first.broker.groups.get("crew", b"t/#").core.queue) == 4
    others = [Worker("worker-2").come(second, 2), Worker("worker-3").come(third, 2)]
    net.run()
    assert owner_of(net) != first.me, "a seed of names and ids where the others win"
    worker.come(first)
    drain(net, [worker, *others])
    assert done_by([worker, *others]) == list(range(8))
    assert done_by([worker])[:4] == [0, 1, 2, 3], "what it had is its own"
    for node in net.nodes.values():
        assert all(group.core.is_gone or group.core.subscribed_count for group in node.broker.groups)
    net.check()


def test_a_partition_has_an_owner_on_each_side_and_one_hands_over_afterwards() -> None:
    net = Net(2)
    workers = crew(net)
    net.cut(1, 2)
    net.count_dead(1, 2)
    net.count_dead(2, 1)
    for index in range(10):
        net.nodes[1 + index % 2].publish("t/1", b"%d" % index, 2)
    net.run()
    assert [node.part.owner(number) for node in net.nodes.values() for number in node.part._groups] == [1, 2]
    assert workers[0].answer() == workers[1].answer() == 5
    net.link(1, 2)
    net.run()
    owner_of(net)
    for index in range(10, 20):
        net.nodes[1 + index % 2].publish("t/1", b"%d" % index, 2)
        net.run()
    drain(net, workers)
    assert done_by(workers) == list(range(20))
    net.check()


def test_a_message_for_a_group_that_nobody_knows_is_held_and_then_given_up() -> None:
    net = Net(2)
    one, two = net.nodes.values()
    number = one.part.number("crew", b"t/#")
    for payload in (b"early", b"late"):
        one.broker.groups.deliver_to(number, Message(b"t/1", payload, 1))
        if payload == b"early":
            worker = Worker("worker").come(two, 1)
            net.run()
            net.pass_to(net.now + 0.2)
            net.run()
            worker.answer()
            assert worker.done == [b"early"]
            worker.leave()
            net.run()
    net.pass_to(net.now + 1.9)
    assert one.dropped("group_gone") == 0
    net.pass_to(net.now + 0.3)
    assert one.dropped("group_gone") == 1


def test_a_restarted_owner_gives_what_waited_to_who_is_there() -> None:
    net = Net(2, is_durable=True)
    near, (far,) = near_and_far(net, crew(net))
    near.go()
    far.go()
    net.run()
    for index in range(6):
        far.node.publish("t/1", b"%d" % index, 1 + index % 2)
    net.run()
    node = net.restart(near.node.me)
    near.lost_its_node(node)
    net.link(1, 2)
    net.run()
    far.come(far.node)
    near.come(node)
    drain(net, [near, far])
    assert done_by([near, far]) == list(range(6))
    net.check()


def test_what_waited_where_nobody_is_left_goes_to_the_node_that_has_the_group() -> None:
    net = Net(2, is_durable=True)
    near, (far,) = near_and_far(net, crew(net))
    far.go()
    near.go()
    near.lasting = False
    near.come(near.node, 2)
    near.client.read = list  # it takes nothing in
    near.client.connection.session.detach()
    net.run()
    for index in range(6):
        far.node.publish("t/1", b"%d" % index, 1 + index % 2)
    net.run()
    net.restart(near.node.me)
    net.link(1, 2)
    net.run()
    net.pass_to(net.now + 0.2)
    net.run()
    far.come(far.node)
    drain(net, [far])
    assert done_by([far]) == list(range(6))


def test_a_restarted_node_tells_the_giver_what_its_clients_answer() -> None:
    net = Net(2, is_durable=True)
    near, (far,) = near_and_far(net, crew(net))
    near.go()
    net.run()
    for index in range(6):
        near.node.publish("t/1", b"%d" % index, 1 + index % 2)
    net.run()
    far.read()
    node = net.restart(far.node.me)
    far.lost_its_node(node)
    net.link(1, 2)
    net.run()
    far.come(node)
    net.run()
    drain(net, [far])
    assert done_by([far]) == list(range(6))
    near.come(near.node)
    drain(net, [near, far])
    assert near.done == [], "the owner knows that nothing is left"
    net.check()


def test_what_a_member_has_moves_with_its_session() -> None:
    net = Net(3)
    near, (far, other) = near_and_far(net, crew(net))
    near.go()
    other.go()
    net.run()
    for index in range(6):
        near.node.publish("t/1", b"%d" % index, 1 + index % 2)
    net.run()
    far.read()
    far.go()
    former, node = far.node, other.node
    session = former.broker.sessions[far.name]
    records = session_records(session)
    let_go(former.broker, session)
    former.end_turn()
    install_session(node.broker, records, node.now)
    node.end_turn()
    net.run()
    far.come(node)
    drain(net, [far])
    assert done_by([far]) == list(range(6))
    near.come(near.node)
    other.come(other.node)
    near.node.publish("t/1", b"6", 1)
    drain(net, [near, far, other])
    assert done_by([near, far, other]) == list(range(7)), "nobody else gets what moved"
    net.check()


def test_what_moved_and_was_never_answered_goes_to_another_member_if_qos_1() -> None:
    net = Net(3)
    near, (far, other) = near_and_far(net, crew(net))
    near.go()
    other.go()
    net.run()
    for index in range(4):
        near.node.publish("t/1", b"%d" % index, 1 + index % 2)
    net.run()
    far.read()
    far.go()
    former, node = far.node, other.node
    session = former.broker.sessions[far.name]
    records = session_records(session)
    let_go(former.broker, session)
    former.end_turn()
    moved = install_session(node.broker, records, node.now)
    net.run()
    node.broker.end_session(moved, "deleted")
    node.end_turn()
    near.come(near.node)
    drain(net, [near])
    assert done_by([near]) == [0, 2]
    assert node.dropped("session_ended") == 2
    net.check()


class Walk:
    """A group under everything that can happen to it, by seed; what becomes of messages is seen outside."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        policy = self.rng.choice(sorted(POLICIES))
        self.net = Net(3, seed, config=GroupsConfig(policy=policy), is_durable=bool(seed % 2))
        self.workers = [Worker(f"worker-{index}").come(self.any_node(), 2) for index in range(4)]
        self.net.run()  # all nodes know of the group
        self.published: dict[int, int] = {}  # number -> QoS
        # Who keeps an order takes back at once what a member has that goes; it may have come back meanwhile.
        self.may_repeat = policy in ("sticky", "hash_topic", "hash_client")

    def any_node(self):  # type: ignore[no-untyped-def]
        return self.rng.choice(list(self.net.nodes.values()))

    def go(self, steps: int) -> None:
        actions = (
            [self.publish] * 8 + [self.arrive] * 12 + [self.answer] * 6 + [self.link, self.come_back] * 2
            + [self.vanish, self.cut, self.die, self.toggle]
            + [self.restart] * self.net.is_durable
        )  # fmt: skip
        for _ in range(steps):
            self.rng.choice(actions)()
        self.finish()

    def publish(self) -> None:
        number = len(self.published)
        node = self.any_node()
        if not len(node.part):
            return  # it was restarted, and has yet to hear of the group
        self.published[number] = qos = self.rng.choice((1, 2))
        node.publish(f"t/{number % 5}", b"%d" % number, qos, f"publisher-{number % 5}")

    def arrive(self) -> None:
        for _ in range(self.rng.randrange(6)):
            self.net.step()

    def answer(self) -> None:
        worker = self.rng.choice(self.workers)
        if worker.client is not None:
            worker.answer(self.rng.randrange(1, 4))

    def vanish(self) -> None:
        self.rng.choice(self.workers).go()

    def come_back(self) -> None:
        for worker in self.workers:
            if worker.client is None:
                assert worker.node is not None
                worker.come(worker.node)

    def toggle(self) -> None:
        """It leaves the group, or joins it again; but never is nobody in it."""
        worker = self.rng.choice(self.workers[1:])
        if worker.client is None:
            return
        if "$share/crew/t/#" in worker.client.connection.session.subscriptions:
            worker.leave()
        else:
            worker.subscribe(2)

    def cut(self) -> None:
        self.net.cut(*self.rng.sample(sorted(self.net.nodes), 2))

    def link(self) -> None:
        self.net.link(*self.rng.sample(sorted(self.net.nodes), 2))

    def die(self) -> None:
        one, other = self.rng.sample(sorted(self.net.nodes), 2)
        self.net.cut(one, other)
        self.net.count_dead(one, other)
        if self.rng.random() < 0.7:
            self.net.count_dead(other, one)
        self.may_repeat = True

    def restart(self) -> None:
        """A node is killed. Its sessions last, and it comes back."""
        me = self.rng.choice(sorted(self.net.nodes))
        if self.net.nodes[me].groups.held:
            return  # of groups that nobody knows, the one thing that is not on record
        node = self.net.restart(me)
        for worker in self.workers:
            if worker.node is not None and worker.node.me == me:
                worker.lost_its_node(node)
        self.may_repeat = True

    def finish(self) -> None:
        for one, other in ((1, 2), (1, 3), (2, 3)):
            self.net.link(one, other)
        for _ in range(5):
            self.come_back()
            drain(self.net, self.workers)
            self.net.pass_to(self.net.now + 1.0)
        drain(self.net, self.workers)
        self.net.check()
        self.judge()

    def judge(self) -> None:
        taken = Counter(int(payload) for worker in self.workers for payload in worker.done)
        lost = [number for number in self.published if not taken[number]]
        assert not lost, f"lost: {[(number, self.published[number]) for number in lost]}"
        twice = [number for number, count in taken.items() if count > 1]
        assert not [number for number in twice if self.published[number] == 2], "QoS 2 twice"
        assert self.may_repeat or not twice, f"QoS 1 twice, and no node was dead: {twice}"


@pytest.mark.parametrize("seed", range(120))
def test_no_walk_loses_a_message_or_doubles_one_that_it_must_not(seed: int) -> None:
    Walk(seed).go(150)
