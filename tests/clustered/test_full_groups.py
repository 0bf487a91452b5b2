"""A shared group that can take no more: who publishes at another node is told."""

from braidmq.config.groups import GroupsConfig
from braidmq.wire import Connect, Properties, Puback, Publish, ReasonCode, Subscribe, Subscription
from tests.broker.world import Client
from tests.clustered.net import Net

MESSAGES_MAX = 20


def publish(net: Net, publisher: Client, packet_id: int) -> int:
    publisher.send(Publish("t/1", b"work", qos=1, packet_id=packet_id))
    net.settle()
    [answer] = [packet for packet in publisher.read() if isinstance(packet, Puback)]
    return answer.reason


def test_a_publisher_elsewhere_is_told_when_nine_tenths_are_full_and_when_there_is_room_again() -> None:
    net = Net("ab")
    for member in net.members:
        config = GroupsConfig(overflow="refuse", messages_max=MESSAGES_MAX)
        member.world.broker.groups.configure(config)
    lasting = Properties(session_expiry_s=3600)
    worker = net["a"].world.connect("worker", properties=lasting)
    net.settle()
    worker.send(Subscribe(1, (Subscription("$share/crew/t/#", 1),)))
    net.settle()
    worker.vanish()
    net.pass_time(1.0)
    publisher = net["b"].world.connect("publisher")
    net.settle()
    reasons = []
    for index in range(1, MESSAGES_MAX + 5):
        reasons.append(publish(net, publisher, index))
        net.pass_time(0.1)
    assert reasons[:17] == [ReasonCode.SUCCESS] * 17
    assert reasons[-5:] == [ReasonCode.QUOTA_EXCEEDED] * 5
    [group] = net["a"].world.broker.groups
    assert len(group.core.queue) == reasons.count(ReasonCode.SUCCESS) <= MESSAGES_MAX
    worker = net["a"].world.open()
    worker.send(Connect("worker", clean_start=False, properties=lasting))
    net.settle()
    for packet in worker.read():
        if isinstance(packet, Publish):
            worker.send(Puback(packet.packet_id))
    net.pass_time(1.0)
    assert publish(net, publisher, 100) == ReasonCode.SUCCESS
