"""Delegation of a key range over a routing table (SFB, from the farthest entry on).

`delegate` answers who is asked to cover which part. Parts are disjoint and together they are the range
without the owner. An owner in the range or next to it always has its level-0 neighbour among the children,
and so every live node is reached exactly once; a target's path is that of greedy search. A plain Skip
Graph's SFB is the same with a table of level neighbours.
"""

from collections.abc import Container
from typing import Final, NamedTuple

from braidmq.overlay.keys import KeyRange, after
from braidmq.overlay.table import Peer, RoutingTable, Side

_END: Final = b"\xff" * 9  # after all keys


class Part(NamedTuple):
    child: Peer
    keys: KeyRange


def delegate(
    table: RoutingTable, keys: KeyRange, fan_out_max: int = 0, holes: Container[Side] = ()
) -> list[Part]:
    """Children with their parts of a range, the largest remaining part first.

    `fan_out_max` bounds the children a side (0: no bound); who is left out is inside the part of a child.
    `holes`: sides on which the owner's neighbour is gone, so nodes that the owner doesn't know may stand
    before the first one it knows. The child next to the hole then gets the hole too, or the nearest node
    beyond it.
    """
    right, left = _sides(table, keys)
    parts = _delegate_right(table, right, fan_out_max, Side.RIGHT in holes) if right else []
    return parts + _delegate_left(table, left, fan_out_max, Side.LEFT in holes) if left else parts


def is_blind(table: RoutingTable, keys: KeyRange) -> bool:
    """Whether a range reaches to a side on which the owner knows nobody, and so can't tell who is there."""
    right, left = _sides(table, keys)
    return (bool(right) and table.neighbour(Side.RIGHT) is None) or (
        bool(left) and table.neighbour(Side.LEFT) is None
    )


def far_side(table: RoutingTable, keys: KeyRange) -> Peer | None:
    """The nearest known node beyond a range that lies on one side of the owner."""
    if keys.low > table.owner.key:
        return next(iter(table.between(KeyRange(keys.high, _END))), None)
    return next(reversed(table.between(KeyRange(b"", keys.low))), None)


def _sides(table: RoutingTable, keys: KeyRange) -> tuple[KeyRange, KeyRange]:
    own = table.owner.key
    return KeyRange(max(keys.low, after(own)), keys.high), KeyRange(keys.low, min(keys.high, own))


def _delegate_right(table: RoutingTable, keys: KeyRange, fan_out_max: int, has_hole: bool) -> list[Part]:
    children = _thinned(table.between(keys), fan_out_max)
    parts, end = [], keys.high
    for child in reversed(children):
        parts.append(Part(child, KeyRange(child.key, end)))
        end = child.key
    if not keys.low < end:
        return parts
    router = table.closest(keys.low)
    if router is not None:  # the range doesn't begin at the owner: somebody nearer knows what comes first
        parts.append(Part(router, KeyRange(keys.low, end)))
    elif has_hole:
        _fill_hole(table, keys, parts, Side.RIGHT)
    return parts


def _delegate_left(table: RoutingTable, keys: KeyRange, fan_out_max: int, has_hole: bool) -> list[Part]:
    children = _thinned(table.between(keys)[::-1], fan_out_max)
    parts, start = [], keys.low
    for child in reversed(children):
        parts.append(Part(child, KeyRange(start, after(child.key))))
        start = after(child.key)
    if not start < keys.high:
        return parts
    router = table.neighbour(Side.LEFT)
    if router is not None and router.key >= keys.high:
        nearer = table.between(KeyRange(keys.high, table.owner.key))[0]
        parts.append(Part(nearer, KeyRange(start, keys.high)))
    elif has_hole:
        _fill_hole(table, keys, parts, Side.LEFT)
    return parts


def _fill_hole(table: RoutingTable, keys: KeyRange, parts: list[Part], side: Side) -> None:
    if parts:
        child, part = parts.pop()
        wider = KeyRange(keys.low, part.high) if side is Side.RIGHT else KeyRange(part.low, keys.high)
        parts.append(Part(child, wider))
        return
    beyond = far_side(table, keys)
    if beyond is not None:
        parts.append(Part(beyond, keys))


def _thinned(nearest_first: list[Peer], most: int) -> list[Peer]:
    """Evenly spaced ones, the nearest always among them."""
    count = len(nearest_first)
    if not most or count <= most:
        return nearest_first
    return [nearest_first[number * count // most] for number in range(most)]
