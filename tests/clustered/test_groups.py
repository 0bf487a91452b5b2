"""Shared groups over several nodes: one node has the group, all others have members of it."""

import pytest

from tests.clustered.group_world import Net, Worker


def owner_of(net: Net) -> int:
    owners = {node.part.owner(number) for node in net.nodes.values() for number in node.part._groups}
    assert len(owners) == 1, owners
    return owners.pop() or 0


def drain(net: Net, workers: list[Worker]) -> None:
    """Until everything has arrived and is acknowledged."""
    net.run()
    while sum(worker.answer() for worker in workers):
        net.run()
    for worker in workers:
        worker.read()
    net.run()


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_each_message_goes_to_one_member_wherever_it_was_published(qos: int) -> None:
    net = Net(3)
    workers = [Worker(f"worker-{me}").come(net.nodes[me], 2) for me in net.nodes]
    net.run()
    for index in range(30):
        net.nodes[1 + index % 3].publish("t/1", b"%d" % index, qos)
        net.run()
    drain(net, workers)
    assert sorted(int(payload) for worker in workers for payload in worker.done) == list(range(30))
    assert all(len(worker.done) == 10 for worker in workers), "they take turns, near and far"
    net.check()
