"""What a node does with its part of a range: takes what is for itself, and passes the rest on.

A part that was asked for by token is remembered, so that a repeated question is answered and not worked on
again.
"""

from math import inf

from braidmq.overlay import rendezvous
from braidmq.overlay.delegating import hand_out, pass_on, spread
from braidmq.overlay.keys import KeyRange, Kind, after, range_of
from braidmq.overlay.messages import Ack, New, Pres, Pub, Ranged, Status, Unsub
from braidmq.overlay.ranges import Part
from braidmq.overlay.sequence import Sequence
from braidmq.overlay.table import Side
from braidmq.overlay.turn import Deliver, Relay, Turn, VirtualNode


def publish(turn: Turn, node: VirtualNode, payload: bytes, qos: int) -> int:
    """Send a publication on its way; its number, or 0 if nobody wants it."""
    if not rendezvous.may_publish(turn, node):
        turn.shared.counters["no subscriber"] += 1
        return 0
    node.published += 1
    node.idle_since_s = turn.now
    want = node.table.free_slots()
    spread(turn, node, Pub(node.peer, node.peer, node.range, 0, 0, False, node.published, payload, qos, want))
    return node.published


def unsubscribed(turn: Turn, node: VirtualNode) -> None:
    keys = range_of(node.topic, Kind.PUBLISHER)
    spread(turn, node, Unsub(node.peer, node.peer, keys, 0, 0, False))


def on_ranged(turn: Turn, node: VirtualNode, message: Ranged) -> None:
    fwd = message.fwd
    if isinstance(message, Unsub):
        turn.lose(message.src, is_certain=True)
    else:
        turn.learn(node, message.src)
    if fwd.key != message.src.key or not isinstance(message, Unsub):
        turn.learn(node, fwd, is_direct=True)
    place = (fwd.key, fwd.boot, message.token)
    relay = turn.shared.relays.get(place)
    if relay is None:
        relay = _new_relay(turn, message)
        turn.shared.relays[place] = relay
        if message.hop > turn.shared.settings.hop_max:
            turn.shared.counters["too many hops"] += 1
        else:
            _serve(turn, node, message, relay)
    qos = message.qos if isinstance(message, Pub) else 1
    turn.send(fwd, Ack(message.token, relay.fan, qos == 0 or not relay.open, relay.is_blind))


def _new_relay(turn: Turn, message: Ranged) -> Relay:
    relays, settings = turn.shared.relays, turn.shared.settings
    while relays:
        oldest = next(iter(relays))
        is_old = turn.now - relays[oldest].started_s > settings.relay_s and not relays[oldest].open
        if not is_old and len(relays) < settings.relays_max:
            break
        del relays[oldest]
    return Relay(message.fwd, message.token, turn.now)


def _serve(turn: Turn, node: VirtualNode, message: Ranged, relay: Relay) -> None:
    if node.peer.key in message.keys:
        message = _handle(turn, node, message)
        if message.adjacent:
            _serve_skipped(turn, node, message, relay)
    pass_on(turn, node, message, relay)


def _serve_skipped(turn: Turn, node: VirtualNode, message: Ranged, relay: Relay) -> None:
    """The sender takes us for its neighbour. If somebody stands between, tell it, and serve who was
    skipped.
    """
    left = node.table.neighbour(Side.LEFT)
    first = max(after(message.fwd.key), range_of(node.topic, node.kind).low)
    if left is not None and left.key >= first:
        turn.send(message.fwd, New(left))
        hand_out(turn, node, message, [Part(left, KeyRange(first, node.peer.key))], relay)


def _handle(turn: Turn, node: VirtualNode, message: Ranged) -> Ranged:
    """Take what is for us; what remains to be passed on."""
    if isinstance(message, Pres):
        rendezvous.told(turn, node, message.present, message.seq)
    if not isinstance(message, Pub) or node.status is Status.LEAVING:
        return message
    sequences = turn.shared.sequences
    sequence = sequences.setdefault((message.src.key, message.src.boot), Sequence())
    if len(sequences) > turn.shared.settings.origins_max:
        del sequences[next(iter(sequences))]
    if not sequence.is_new(message.seq):
        turn.shared.counters["repeated"] += 1
        return message
    delivery = Deliver(node.topic, message.payload, message.src.key, message.seq, message.hop)
    hold_s = turn.shared.settings.order_hold_s
    before_s = sequence.release_at_s
    turn.effects += sequence.take(message.seq, delivery, turn.now, hold_s)
    if sequence.release_at_s != before_s and sequence.release_at_s < inf:
        turn.wake("release", node.peer.key, sequence.release_at_s)
    if message.want > 0 and message.hop > 1:
        turn.send(message.src, New(node.peer))
        return _with_want(message, message.want - 1)
    return message


def release(turn: Turn, node: VirtualNode) -> None:
    """Messages that have waited long enough for an earlier one."""
    for sequence in turn.shared.sequences.values():
        if sequence.release_at_s <= turn.now:
            turn.shared.counters["gap"] += 1
            held = sequence.release(turn.now)
            if node.status is not Status.LEAVING:
                turn.effects += held
            if sequence.release_at_s < inf:
                turn.wake("release", node.peer.key, sequence.release_at_s)


def _with_want(message: Pub, want: int) -> Pub:
    return Pub(
        message.src,
        message.fwd,
        message.keys,
        message.token,
        message.hop,
        message.adjacent,
        message.seq,
        message.payload,
        message.qos,
        want,
    )
