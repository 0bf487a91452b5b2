"""Whatever goes to every node of a range: delegated, acknowledged, and delegated again.

A child acknowledges a part when it has it (the hop), and again when all of it is served (done). A part
without an answer is repeated, then split among others; a child that was alive after all only hears of it
twice, and knows. With QoS 0 the hop is enough.

Done may be said only of a range in which every two live neighbours agree that nobody stands between them.
A newcomer is known to its neighbours alone, so when those on its left die, only those on its right can tell
of it: a hole is looked into from both sides. Who stands at a hole asks the nearest node beyond it. Who knows
nobody beyond says so (it is blind), and whoever gave it the range asks from the far side. At a real end of
the list nobody is found there by anybody, and it costs nothing.
"""

from collections.abc import Sequence as Many

from braidmq.overlay.exploring import shares
from braidmq.overlay.keys import KeyRange
from braidmq.overlay.messages import Ack, Pres, Pub, Ranged, Unsub
from braidmq.overlay.ranges import Part, delegate, far_side, is_blind
from braidmq.overlay.table import Side
from braidmq.overlay.turn import Completed, Relay, Request, Turn, VirtualNode


def spread(turn: Turn, node: VirtualNode, message: Ranged) -> None:
    """Begin to serve a range."""
    relay = Relay(None, 0, turn.now, topic=node.topic)
    if isinstance(message, Pub):
        relay.seq = message.seq
    pass_on(turn, node, message, relay)
    if not relay.open:
        _finished(turn, relay)


def pass_on(turn: Turn, node: VirtualNode, message: Ranged, relay: Relay) -> None:
    parts = delegate(node.table, message.keys, turn.shared.settings.fan_out_max, node.holes)
    # Who gave us a hole has looked into it from its own side.
    parts = [part for part in parts if part.child != relay.upstream]
    relay.fan += len(parts)
    relay.is_blind |= is_blind(node.table, message.keys)
    hand_out(turn, node, message, parts, relay)


def hand_out(turn: Turn, node: VirtualNode, message: Ranged, parts: Many[Part], relay: Relay) -> None:
    right = node.table.neighbour(Side.RIGHT)
    wants = _wants(node, message, parts)
    for (child, keys), want in zip(parts, wants, strict=True):
        token = turn.new_token()
        relay.open.add(token)
        hop = message.hop + (child.address != turn.shared.address)
        is_adjacent = right is not None and child.key == right.key
        turn.request(node, child, _copied(message, node, keys, token, hop, is_adjacent, want), token, relay)


def _copied(
    message: Ranged, node: VirtualNode, keys: KeyRange, token: int, hop: int, is_adjacent: bool, want: int
) -> Ranged:
    src, fwd = message.src, node.peer
    if isinstance(message, Pub):
        return Pub(src, fwd, keys, token, hop, is_adjacent, message.seq, message.payload, message.qos, want)
    if isinstance(message, Pres):
        return Pres(src, fwd, keys, token, hop, is_adjacent, message.present, message.seq)
    return Unsub(src, fwd, keys, token, hop, is_adjacent)


def _wants(node: VirtualNode, message: Ranged, parts: Many[Part]) -> list[int]:
    """How many of each child's nodes may introduce themselves to the publisher."""
    if not isinstance(message, Pub) or not message.want:
        return [0] * len(parts)
    if message.src.key != node.peer.key:
        return shares(message.want, len(parts))
    # A child that passed nothing on last time has nobody behind it whom the publisher doesn't know.
    branching = [part.child.key in node.branching for part in parts]
    given = iter(shares(message.want, sum(branching)))
    return [next(given) if is_branching else 0 for is_branching in branching]


# -- answers -------------------------------------------------------------------------------------------------


def on_ack(turn: Turn, request: Request, message: Ack) -> None:
    """A child has its part, or has served it."""
    node = turn.shared.nodes.get(request.key)
    if node is not None:
        (node.branching.add if message.fan else node.branching.discard)(request.to.key)
    if message.done:
        del turn.shared.requests[message.token]
        if request.relay is not None:
            if message.is_blind and node is not None:
                _ask_from_far_side(turn, node, request, request.relay)
            _close(turn, request.relay, message.token)
    else:
        request.attempts = 1
        request.deadline_s = turn.now + turn.shared.settings.done_check_s


def _ask_from_far_side(turn: Turn, node: VirtualNode, request: Request, relay: Relay) -> None:
    """A child can't tell where its part ends: somebody beyond may know nodes that it doesn't."""
    message = request.message
    assert isinstance(message, Ranged)
    far = far_side(node.table, message.keys)
    if far is None:
        relay.is_blind = True
    elif far not in (request.to, relay.upstream):  # else both sides have been asked
        turn.shared.counters["asked from the far side"] += 1
        hand_out(turn, node, message, [Part(far, message.keys)], relay)


def on_failure(turn: Turn, request: Request, token: int) -> None:
    """A child didn't answer: others take its part."""
    node, message, relay = turn.shared.nodes.get(request.key), request.message, request.relay
    assert isinstance(message, Ranged)
    assert relay is not None
    turn.shared.counters["delegated again"] += 1
    if node is not None:
        pass_on(turn, node, message, relay)
        _close(turn, relay, token)


def _close(turn: Turn, relay: Relay, token: int) -> None:
    relay.open.discard(token)
    if not relay.open:
        _finished(turn, relay)


def _finished(turn: Turn, relay: Relay) -> None:
    if relay.upstream is not None:
        turn.send(relay.upstream, Ack(relay.token, relay.fan, True, relay.is_blind))
    elif relay.seq:
        turn.effects.append(Completed(relay.topic, relay.seq))
