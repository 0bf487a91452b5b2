"""Whether a topic has subscribers at all: known to its last publisher, told to the others.

The last publisher in key order, the rendezvous point, sees it by its right neighbour. While there is no
subscriber, publications stay where they are. Not knowing counts as "yes", and a "no" that isn't renewed is
forgotten, so that a lost message costs traffic and never a publication.
"""

from braidmq.overlay import delegating
from braidmq.overlay.keys import KeyRange, Kind, range_of
from braidmq.overlay.messages import Pres
from braidmq.overlay.table import Side
from braidmq.overlay.turn import SetPresence, Turn, VirtualNode

_PERIODS_OF_A_NO = 2.5


def look(turn: Turn, node: VirtualNode) -> None:
    """After any change at the right of a publisher: tell the others if subscribers came or went."""
    if node.kind is Kind.PUBLISHER and node.is_rendezvous:
        right = node.table.neighbour(Side.RIGHT)
        present = right is not None and right.key in node.range
        if present != node.present:
            _set(turn, node, present, node.presence_seq + 1)
            announce(turn, node)


def announce(turn: Turn, node: VirtualNode) -> None:
    """Tell the topic's other publishers, if there are any: all are on the left of the last one.

    Nobody on the right may be asked, not even about a hole there: who joins there waits for this to end.
    """
    left = node.table.neighbour(Side.LEFT)
    keys = KeyRange(range_of(node.topic, Kind.PUBLISHER).low, node.peer.key)
    if left is not None and left.key in keys and node.present is not None:
        template = Pres(node.peer, node.peer, keys, 0, 0, False, node.present, node.presence_seq)
        delegating.spread(turn, node, template)


def is_announcing(turn: Turn, node: VirtualNode) -> bool:
    """Other publishers don't know yet that there are subscribers now."""
    return node.kind is Kind.PUBLISHER and any(
        request.key == node.peer.key
        and isinstance(request.message, Pres)
        and request.message.src == node.peer
        for request in turn.shared.requests.values()
    )


def told(turn: Turn, node: VirtualNode, present: bool, seq: int) -> None:
    if node.kind is Kind.PUBLISHER and not node.is_rendezvous and seq >= node.presence_seq:
        _set(turn, node, present, seq)


def may_publish(turn: Turn, node: VirtualNode) -> bool:
    if node.is_rendezvous:
        look(turn, node)
        return bool(node.present)
    fresh_s = _PERIODS_OF_A_NO * turn.shared.settings.period_s
    return node.present is not False or turn.now - node.presence_at_s > fresh_s


def _set(turn: Turn, node: VirtualNode, present: bool, seq: int) -> None:
    if present != node.present:
        turn.effects.append(SetPresence(node.topic, present))
    node.present, node.presence_seq, node.presence_at_s = present, seq, turn.now
