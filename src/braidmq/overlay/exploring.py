"""How a virtual node fills its table: regular exploration, extra exploration, and answers to those of others.

Two of the paper's rules are changed, because as printed tables don't converge. Extra exploration starts
while a subscriber of the own topic could still find room, not only while slots are empty. Its number of
missing entries is a budget that is shared out among the children, not a number of hops: else every join
floods the topic.
"""

from random import Random

from braidmq.overlay.keys import common_level
from braidmq.overlay.messages import Eexp, EexpWalk, New, Rexp
from braidmq.overlay.ranges import delegate
from braidmq.overlay.table import Peer, RoutingTable, Shape, Side
from braidmq.overlay.turn import Turn, VirtualNode

WALK_BUDGET = 8  # hops of a random walk; searches in large networks take no more
_TARGET_BYTES = 8


def explore_regularly(turn: Turn, node: VirtualNode) -> None:
    known = node.table.known_vectors()
    for side in Side:
        neighbour = node.table.neighbour(side)
        if neighbour is not None:
            turn.send(neighbour, Rexp(node.peer, node.peer, known, 0, side is Side.RIGHT))


def explore_topic(turn: Turn, node: VirtualNode, budget_least: int = 0) -> None:
    """Ask the topic's subscribers for as many as could still find room."""
    if node.table.shape is Shape.FLEXIBLE:
        budget = max(node.table.free_slots(), budget_least)
        if budget > 0:
            _pass_on(turn, node, Eexp(node.peer, node.peer, node.table.known_vectors(), budget, node.range))


def explore_at_random(turn: Turn, node: VirtualNode) -> None:
    table = node.table
    target = random_target(table, turn.shared.rng)
    nearer = table.closest(target)
    if nearer is not None:
        turn.send(nearer, EexpWalk(node.peer, node.peer, table.known_vectors(), WALK_BUDGET, target))


def random_target(table: RoutingTable, rng: Random) -> bytes:
    """A key between two known ones, since nobody knows how keys are spread."""
    if not len(table):
        return b""
    ends = [rng.choice(table.keys)[:_TARGET_BYTES].ljust(_TARGET_BYTES, b"\0") for _ in range(2)]
    low, high = sorted(int.from_bytes(end, "big") for end in ends)
    return rng.randint(low, high).to_bytes(_TARGET_BYTES, "big")


# -- questions of others -------------------------------------------------------------------------------------


def on_rexp(turn: Turn, node: VirtualNode, message: Rexp) -> None:
    src, level = message.src, message.level
    _introduce(turn, node, src, message.fwd)
    if node.peer.vector not in message.known:
        turn.send(src, New(node.peer))
    if common_level(node.peer.vector, src.vector) > level:
        level += 1
    following = node.table.neighbour(Side.RIGHT if message.to_right else Side.LEFT, level)
    if following is not None and following.key != src.key:
        turn.send(following, Rexp(src, node.peer, message.known, level, message.to_right))


def on_eexp(turn: Turn, node: VirtualNode, message: Eexp) -> None:
    _introduce(turn, node, message.src, message.fwd)
    budget = message.budget
    if node.peer.key in message.keys and node.peer.vector not in message.known:
        turn.send(message.src, New(node.peer))
        budget -= 1
    if budget >= 1:
        _pass_on(turn, node, Eexp(message.src, node.peer, message.known, budget, message.keys))


def on_walk(turn: Turn, node: VirtualNode, message: EexpWalk) -> None:
    _introduce(turn, node, message.src, message.fwd)
    if node.peer.vector not in message.known:
        turn.send(message.src, New(node.peer))
    nearer = node.table.closest(message.target)
    if message.budget > 1 and nearer is not None:
        walk = EexpWalk(message.src, node.peer, message.known, message.budget - 1, message.target)
        turn.send(nearer, walk)


def on_new(turn: Turn, node: VirtualNode, message: New) -> None:
    turn.learn(node, message.peer)


def _introduce(turn: Turn, node: VirtualNode, src: Peer, fwd: Peer) -> None:
    turn.learn(node, src)
    turn.learn(node, fwd, is_direct=True)


def _pass_on(turn: Turn, node: VirtualNode, message: Eexp) -> None:
    """Share the budget out evenly, to children that the asker doesn't know first."""
    parts = delegate(node.table, message.keys)
    turn.shared.rng.shuffle(parts)
    parts.sort(key=lambda part: part.child.vector in message.known)
    parts = parts[: message.budget]
    for part, budget in zip(parts, shares(message.budget, len(parts)), strict=True):
        turn.send(part.child, Eexp(message.src, node.peer, message.known, budget, part.keys))


def shares(total: int, count: int) -> list[int]:
    """A number in equal parts; the first ones get what is left over."""
    if not count:
        return []
    each, over = divmod(total, count)
    return [each + (number < over) for number in range(count)]
