"""What sessions tell groups, and what that may cost."""

from braidmq.broker.sharing.member import Member
from braidmq.broker.sharing.policies import Policy
from braidmq.wire import Puback, Publish
from tests.broker.world import World

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
