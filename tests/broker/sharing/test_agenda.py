"""What sessions tell groups, and what that may cost."""

from braidmq.broker.sharing.member import Member
from braidmq.broker.sharing.policies import Policy
from braidmq.wire import Properties, Puback, Publish, Subscribe, Subscription, Unsubscribe
from tests.broker.world import Client, World

GROUPS = 20
MESSAGES = 50


class NobodyYet(Policy):
    """Counts how often it is asked, and lets every message wait."""

    asked = 0

    def choose(self, *_: object) -> Member | None:
        NobodyYet.asked += 1
        return None


def test_room_is_offered_once_for_all_acknowledgements_of_a_read() -> None:
    here = World()
    member, publisher = here.connect("member"), here.connect("publisher")
    member.subscribe("plain", *(f"$share/crew/jobs/{number}" for number in range(GROUPS)), qos=1)
    for number, group in enumerate(here.broker.groups):
        group.configure(NobodyYet(), group.core.settings)
        publisher.send(Publish(f"jobs/{number}", b"", 1, packet_id=1))
    for _ in range(MESSAGES):
        publisher.send(Publish("plain", b"", 1, packet_id=1))
    received = [packet.packet_id for packet in member.read() if isinstance(packet, Publish)]
    assert len(received) == MESSAGES
    NobodyYet.asked = 0
    member.send(*(Puback(packet_id) for packet_id in received if packet_id is not None))
    assert NobodyYet.asked == GROUPS


def test_a_member_that_is_full_again_is_offered_no_more() -> None:
    here = World(inflight_max=1)
    member, publisher = here.connect("member"), here.connect("publisher")
    member.subscribe(*(f"$share/crew/jobs/{number}" for number in range(GROUPS)), qos=1)
    for number in range(GROUPS):
        publisher.send(Publish(f"jobs/{number}", b"%d" % number, 1, packet_id=1))
    got = []
    for _ in range(GROUPS):
        [delivery] = [packet for packet in member.read() if isinstance(packet, Publish)]
        got.append(delivery.payload)
        assert delivery.packet_id is not None
        member.send(Puback(delivery.packet_id))
        here.check()
    assert sorted(got) == sorted(b"%d" % number for number in range(GROUPS))


def delivery_to(client: Client) -> int:
    (packet_id,) = [packet.packet_id for packet in client.read() if isinstance(packet, Publish)]
    assert packet_id is not None
    return packet_id


def test_a_group_that_ends_by_the_packet_before_is_made_anew() -> None:
    here = World()
    member, publisher = here.connect("member"), here.connect("publisher")
    member.subscribe("$share/crew/t", qos=1)
    publisher.send(Publish("t", b"1", 1, packet_id=1))
    last = delivery_to(member)
    member.send(Unsubscribe(2, ("$share/crew/t",)))
    member.send(Puback(last), Subscribe(3, (Subscription("$share/crew/t", 1),)))
    here.check()
    publisher.send(Publish("t", b"2", 1, packet_id=2))
    assert member.payloads() == [b"2"]


def test_who_has_room_by_the_packet_before_is_a_member_all_the_same() -> None:
    here = World(inflight_max=1)
    lasting = Properties(session_expiry_s=1000)
    away, publisher = here.connect("away", properties=lasting), here.connect("publisher")
    away.subscribe("$share/crew/t", qos=1)
    away.vanish()
    guest = here.connect("guest")
    guest.subscribe("plain", "$share/others/x", qos=1)
    publisher.send(Publish("plain", b"", 1, packet_id=1), Publish("t", b"job", 1, packet_id=2))
    guest.send(Puback(delivery_to(guest)), Subscribe(3, (Subscription("$share/crew/t", 1),)))
    here.check()
    assert guest.payloads() == [b"job"]
    guest.vanish()
    _, given_back = here.resume("away", properties=lasting)
    assert [packet.payload for packet in given_back if isinstance(packet, Publish)] == [b"job"]


def test_a_group_that_ends_while_a_run_is_forwarded_takes_no_route_along() -> None:
    """What was found for the next message must not be what has gone meanwhile."""
    here = World()
    reader, member, publisher = here.connect("reader"), here.connect("member"), here.connect("publisher")
    reader.subscribe("$share/crew/a", "b", qos=0)
    member.subscribe("$share/leaving/x/#", qos=1)
    publisher.send(Publish("x/1", b"", 1, packet_id=1))
    last = delivery_to(member)
    member.send(Unsubscribe(2, ("$share/leaving/x/#",)))
    member.send(Publish("a", b"1"), Publish("b", b"2"))  # the routes are known
    for _ in range(3):
        member.send(Puback(last), *(Publish(topic, topic.encode()) for topic in "abab"))
    here.check()
    assert reader.payloads() == [b"1", b"2", *[b"a", b"b", b"a", b"b"] * 3]
