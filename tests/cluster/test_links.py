"""One connection a pair; misbehaving peers; what is beyond a bound."""

import pytest

from braidmq.cluster import effects as do
from braidmq.cluster import events as ev
from braidmq.cluster import frames
from braidmq.cluster.controls import Rules
from braidmq.cluster.settings import Settings
from tests.cluster.pair import SETTINGS, Core, Peer
from tests.cluster.world import KEY, World


@pytest.mark.parametrize(("me", "staying"), [(100, 1), (900, 2)])
def test_if_both_dial_the_one_dialled_by_the_smaller_id_stays(me: int, staying: int) -> None:
    core = Core(node=me)
    mine, theirs = Peer(core, 1, dialled="p500:1", node=500), Peer(core, 2, node=500)
    mine.prove()
    theirs.prove()
    for peer in (mine, theirs):
        peer.send(peer.welcome())
    assert core.cluster.members.link_of(500) == staying
    assert core.closed() == [3 - staying]


def test_a_dial_is_given_up_while_a_link_is_in_use() -> None:
    core = Core(node=100)
    used = Peer(core, 1, node=500).join()
    Peer(core, 2, dialled="p500:1", node=500).prove()
    assert used.is_linked
    assert core.goodbye(2) == "twice"


def test_who_has_lost_its_link_and_dials_again_is_let_in() -> None:
    core = Core()
    Peer(core, 1).join()
    again = Peer(core, 2).join()
    assert again.is_linked
    assert core.closed() == [1]
    kinds = [type(effect) for effect in core.effects if isinstance(effect, do.Linked | do.Unlinked)]
    assert kinds == [do.Linked, do.Unlinked, do.Linked]
    assert not [effect for effect in core.effects if isinstance(effect, do.Linked)][-1].is_new_boot


def test_a_newer_boot_ends_the_old_link_and_an_older_one_is_refused() -> None:
    core = Core()
    Peer(core, 1, boot=4, life=1).join()
    core.now += SETTINGS.failure_s / 6  # the old one is silent
    newer = Peer(core, 2, boot=5, life=2).join()
    assert newer.is_linked
    assert core.goodbye(1) == "newer"
    Peer(core, 3, boot=4, life=1).prove()
    assert core.goodbye(3) == "duplicate"
    assert newer.is_linked


def test_a_newer_start_is_refused_while_the_older_one_is_heard() -> None:
    """The start of a copied data directory has the higher number, and must not push out the real node."""
    core = Core()
    real = Peer(core, 1, boot=4, life=1).join()
    Peer(core, 2, boot=5, life=2).prove()
    assert core.goodbye(2) == "alive"
    assert real.is_linked
    assert "node.json" in core.told()[-1]


def test_an_older_boot_is_refused_also_when_the_newer_one_is_away() -> None:
    core = Core()
    Peer(core, 1, boot=5).join()
    core.tell(ev.LinkLost(1, ""))
    Peer(core, 2, boot=4).prove()
    assert core.goodbye(2) == "duplicate"


def test_a_copy_of_a_node_with_the_same_boot_is_refused() -> None:
    core = Core()
    real = Peer(core, 1, boot=4, life=1).join()
    Peer(core, 2, boot=4, life=2).prove()
    assert core.goodbye(2) == "duplicate"
    assert real.is_linked
    assert "node.json" in core.told()[-1]


def test_a_node_that_dials_itself_finds_out_and_stops() -> None:
    world = World()
    world.seeds = ("alias:1", "n0:7000")
    node = world.add("n0")
    world.nodes["alias"] = node
    node.start()
    world.run(10.0)
    assert node.states() == {}
    assert node.ends == {}
    assert sum(isinstance(effect, do.Dial) for effect in node.effects) == 1
    assert not [told for told in node.told if told.level != "info"]


def test_more_than_peers_max_are_refused() -> None:
    core = Core(settings=Settings(name="c", key=KEY, peers_max=2))
    for number in (1, 2, 3):
        Peer(core, number, node=200 + number).join()
    assert core.cluster.members.linked() == [201, 202]
    assert core.goodbye(3) == "full"


def test_five_faults_in_a_minute_are_a_minutes_rest() -> None:
    core = Core()
    for number in range(1, 6):
        assert Peer(core, number).join().is_linked
        core.tell(ev.FrameReceived(number, 0xF9, b""))
        assert core.goodbye(number) == "fault"
        core.now += 1.0
    Peer(core, 6).prove()
    assert core.goodbye(6) == "resting"
    core.now += 60.0
    assert Peer(core, 7).join().is_linked


def test_a_fault_that_the_lane_has_found_counts_too() -> None:
    core = Core()
    for number in range(1, 6):
        assert Peer(core, number).join().is_linked
        core.tell(ev.LinkLost(number, "too long", is_fault=True))
    Peer(core, 6).prove()
    assert core.goodbye(6) == "resting"


@pytest.mark.parametrize(
    ("first", "body"),
    [
        (0xF9, b""),
        (0x10, b""),
        (frames.BEAT, b"x"),
        (frames.CONTROL, b"\x91\xa7Unknown"),
        (frames.INTEREST, b""),
    ],
)
def test_an_unknown_byte_or_tag_ends_the_link(first: int, body: bytes) -> None:
    core = Core()
    Peer(core, 1).join()
    core.tell(ev.FrameReceived(1, first, body))
    assert core.goodbye(1) == "fault"
    assert core.cluster.members.state(200) == "suspect"
    assert any("broke the rules" in sentence for sentence in core.told())


def test_other_rules_are_a_warning() -> None:
    core = Core()
    Peer(core, 1).join(digest=b"other")
    assert any("other access rules" in sentence for sentence in core.told())
    member = core.cluster.members.info(200)
    assert member is not None
    assert list(member.warnings) == ["digest"]
    core.tell(ev.LinkLost(1, ""))
    Peer(core, 2).join()
    assert member.warnings == {}


def test_rules_that_change_are_compared_again_on_both_sides() -> None:
    core = Core()
    peer = Peer(core, 1).join()
    member = core.cluster.members.info(200)
    assert member is not None
    core.tell(ev.RulesChanged(b"new"))
    assert Rules(b"new") in core.said(1)
    assert list(member.warnings) == ["digest"]
    peer.send(Rules(b"new"))
    assert member.warnings == {}
    peer.send(Rules(b"newer"))
    assert list(member.warnings) == ["digest"]
    Peer(core, 2, node=300).join(digest=b"new")
    other = core.cluster.members.info(300)
    assert other is not None
    assert other.warnings == {}
