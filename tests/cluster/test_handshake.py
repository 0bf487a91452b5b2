"""The handshake: who has the secret gets in, everybody else gets a goodbye, and nothing is told before."""

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from braidmq.cluster import effects as do
from braidmq.cluster import events as ev
from braidmq.cluster import frames
from braidmq.cluster.goodbyes import GOODBYES
from braidmq.cluster.handshake import Goodbye, Handshake, Hello, Proof, RefusalError, Welcome
from braidmq.cluster.links import UNPROVEN_MAX
from braidmq.cluster.settings import Identity, Settings, key_of
from tests.cluster.pair import SETTINGS, Core, Peer
from tests.cluster.world import WALL_S


def test_who_dials_and_who_is_dialled_are_linked() -> None:
    core = Core()
    core.broker.positions[200] = 55
    accepted = Peer(core, 1).join(position=44)
    assert accepted.is_linked
    linked = next(effect for effect in core.effects if isinstance(effect, do.Linked))
    assert (linked.peer, linked.link, linked.position, linked.is_new_boot) == (200, 1, 44, True)
    welcome = next(control for control in core.said(1) if isinstance(control, Welcome))
    assert (welcome.name, welcome.position) == ("me", 55)
    dialled = Peer(core, 2, dialled="x:1", node=300).join()
    assert dialled.is_linked


def test_a_hello_has_no_more_than_the_proofs_need() -> None:
    core = Core()
    Peer(core, 1, dialled="x:1")
    (hello,) = core.said(1)
    assert b"me" not in msgspec.msgpack.encode(hello)
    fields = ("protocols", "cluster", "node", "boot", "life", "wall_ms", "nonce", "proof")
    assert Hello.__struct_fields__ == fields


def test_an_unproven_peer_gets_a_hello_and_nothing_else() -> None:
    core = Core()
    peer = Peer(core, 1)
    peer.send(peer.handshake.hello())
    core.now += 1.0
    core.tell(ev.TimeCame())
    assert [type(control) for control in core.said(1)] == [Hello]
    assert core.cluster.members.remembered() == []


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("cluster", {"settings": Settings(name="c", key=key_of(b"another secret of ours"))}),
    ("cluster", {"settings": Settings(name="other", key=SETTINGS.key)}),
    ("clock", {"wall_ms": int((WALL_S + 63) * 1000)}),
    ("clock", {"wall_ms": int((WALL_S - 61) * 1000)}),
    ("duplicate", {"node": 100}),
]


@pytest.mark.parametrize(("reason", "other"), REFUSED)
@pytest.mark.parametrize("dialled", [None, "x:1"])
def test_the_wrong_one_is_refused_with_a_reason_that_says_what_to_do(
    reason: str, other: dict[str, Any], dialled: str | None
) -> None:
    core = Core()
    peer = Peer(core, 1, dialled, **other)
    if reason == "cluster":  # the peer would end it by itself
        peer.send(peer.handshake.hello())
    else:
        peer.prove()
    assert core.goodbye(1) == reason
    assert core.closed() == [1]
    assert core.cluster.members.remembered() == []
    assert len(core.told()) == 1


def test_another_protocol_is_refused() -> None:
    core = Core()
    peer = Peer(core, 1)
    peer.send(msgspec.structs.replace(peer.handshake.hello(), protocols=(2, 3)))
    assert core.goodbye(1) == "protocol"


def test_the_range_of_protocols_may_reach_further() -> None:
    core = Core()
    peer = Peer(core, 1)
    peer.send(msgspec.structs.replace(peer.handshake.hello(), protocols=(0, 3)))
    assert core.goodbye(1) is None


def test_every_goodbye_that_an_operator_must_act_on_has_a_sentence() -> None:
    core = Core()
    for number, reason in enumerate(GOODBYES, 1):
        peer = Peer(core, number)
        peer.send(Goodbye(reason))
        assert number in core.closed()
    silent = {reason for reason, why in GOODBYES.items() if not why.refused}
    assert silent == {"twice", "newer", "silent"}
    assert len(core.told()) == len(GOODBYES) - len(silent)
    assert all("{" not in sentence for sentence in core.told())


def test_a_goodbye_of_an_unproven_peer_changes_nothing() -> None:
    core = Core()
    Peer(core, 1).join()
    stranger = Peer(core, 2, dialled="x:1")
    stranger.send(Goodbye("left"))
    assert core.cluster.members.linked() == [200]


def test_a_recorded_proof_is_worth_nothing_on_another_link() -> None:
    core = Core()
    honest = Peer(core, 1)
    honest.send(honest.handshake.hello())
    proof = honest.handshake.take(core.said(1)[0])
    assert isinstance(proof, Proof)
    thief = Peer(core, 2)
    thief.send(honest.handshake.hello())
    thief.send(proof)
    assert core.goodbye(2) == "proof"
    honest.send(proof)
    assert core.goodbye(1) is None


def test_a_proof_of_the_other_role_is_worth_nothing() -> None:
    core = Core()
    peer = Peer(core, 1)
    peer.send(peer.handshake.hello())
    reflected = core.said(1)[0].proof
    peer.send(Proof(reflected))
    assert core.goodbye(1) == "proof"


def test_an_acceptor_without_the_secret_learns_nothing_from_a_dialler() -> None:
    core = Core()
    peer = Peer(core, 1, dialled="x:1")
    peer.send(msgspec.structs.replace(peer.handshake.hello(), proof=b"x" * 32))
    assert core.goodbye(1) == "proof"
    assert [type(control) for control in core.said(1)] == [Hello, Goodbye]


def test_what_comes_out_of_order_ends_the_link() -> None:
    for control in (Proof(b"x"), Peer(Core(), 9).welcome()):
        core = Core()
        Peer(core, 1).send(control)
        assert core.goodbye(1) == "order"
    core = Core()
    peer = Peer(core, 1)
    peer.send(peer.handshake.hello())
    peer.send(peer.handshake.hello())
    assert core.goodbye(1) == "order"


def test_before_the_proof_a_frame_is_small() -> None:
    core = Core()
    Peer(core, 1)
    core.tell(ev.FrameReceived(1, frames.CONTROL, bytes(frames.UNPROVEN_BYTES_MAX + 1)))
    assert core.goodbye(1) == "order"


def test_who_does_not_finish_in_time_is_closed() -> None:
    core = Core()
    Peer(core, 1)
    core.now += 2.9
    core.tell(ev.TimeCame())
    assert core.closed() == []
    core.now += 0.3
    core.tell(ev.TimeCame())
    assert core.goodbye(1) == "late"


def test_a_flood_of_connections_pushes_out_its_own() -> None:
    core = Core()
    peer = Peer(core, 1).join()
    for number in range(2, UNPROVEN_MAX + 12):
        core.tell(ev.LinkOpened(number, None))
    assert core.closed() == list(range(2, 12))
    assert peer.is_linked
    assert len(core.told()) == 1  # not a line each


def test_the_rng_decides_nonces() -> None:
    me = Identity(node=1, boot=1, name="")
    nonces = {Handshake(me, 1, SETTINGS, 0, Random(seed), True).hello().nonce for seed in range(20)}
    assert len(nonces) == 20


# -- fuzz --------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=300)), max_size=5), st.booleans())
def test_random_frames_end_a_link_with_a_reason(script: list[tuple[int, bytes]], dials: bool) -> None:
    core = Core()
    Peer(core, 1, "x:1" if dials else None)
    for first, body in script:
        core.tell(ev.FrameReceived(1, first, body))
    if script:
        assert core.closed() == [1]
    assert core.cluster.members.remembered() == []


@given(st.data())
def test_a_handshake_with_one_byte_changed_or_cut_links_nobody(data: st.DataObject) -> None:
    core = Core()
    peer = Peer(core, 1)
    bodies: list[bytes] = [msgspec.msgpack.encode(peer.handshake.hello())]
    which = data.draw(st.integers(0, 1))
    if which:
        core.tell(ev.FrameReceived(1, frames.CONTROL, bodies[0]))
        bodies.append(msgspec.msgpack.encode(peer.handshake.take(core.said(1)[0])))
    spoilt = _spoil(data, bodies[which])
    core.tell(ev.FrameReceived(1, frames.CONTROL, spoilt))
    if not core.closed():  # what was changed is in what the peer says of itself: the proofs differ
        answer = core.said(1)[0]
        try:
            proof = peer.handshake.take(answer)
        except RefusalError:
            return
        assert isinstance(proof, Proof)
        peer.send(proof)
    assert not core.cluster.members.linked()
    assert core.closed() == [1]


def _spoil(data: st.DataObject, body: bytes) -> bytes:
    at = data.draw(st.integers(0, len(body) - 1))
    if data.draw(st.booleans()):
        return body[:at]
    return body[:at] + bytes((body[at] ^ data.draw(st.integers(1, 255)),)) + body[at + 1 :]


STEPS = ("hello", "proof", "old proof", "welcome", "goodbye", "beat", "rubbish")


@given(st.lists(st.sampled_from(STEPS), min_size=1, max_size=8))
def test_only_the_right_order_links(steps: list[str]) -> None:
    core = Core()
    peer = Peer(core, 1)
    for step in steps:
        _do(core, peer, step)
    is_right = steps[:3] == ["hello", "proof", "welcome"]
    assert bool([effect for effect in core.effects if isinstance(effect, do.Linked)]) == is_right
    assert core.closed() in ([], [1])
    assert len(list(core.cluster._links)) == 1 - len(core.closed())


def _do(core: Core, peer: Peer, step: str) -> None:
    said = [control for control in core.said(1) if isinstance(control, Hello)]
    if step == "proof" and said and peer.handshake.peer is None:
        peer.send(peer.handshake.take(said[0]))  # type: ignore[arg-type]
    elif step == "hello":
        peer.send(peer.handshake.hello())
    elif step == "welcome":
        peer.send(peer.welcome())
    elif step == "goodbye":
        peer.send(Goodbye("whatever"))
    elif step == "beat":
        core.tell(ev.FrameReceived(1, frames.BEAT, bytes(21)))
    elif step == "rubbish":
        core.tell(ev.FrameReceived(1, frames.CONTROL, b"\xc1"))
    else:
        peer.send(Proof(b"x" * 32))


@given(st.binary(max_size=300))
def test_random_welcomes_of_a_proven_peer_are_no_more_than_a_fault(body: bytes) -> None:
    core = Core()
    peer = Peer(core, 1)
    peer.prove()
    encoded = msgspec.msgpack.encode(peer.welcome())
    core.tell(ev.FrameReceived(1, frames.CONTROL, encoded[:9] + body))
    assert peer.is_linked or core.goodbye(1) == "fault"
