"""CAN-MC: the members of a topic share a small torus among them, and a publication floods it in order of
dimensions.

A member that receives along some dimension passes on along lower dimensions both ways, along its own in the
same direction, and nowhere past half the torus. Zones of unequal size can leave a corner out; who was left
out gets the publication from the neighbour that had it first, as plain flooding would do it.
"""

from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Final

DIMENSIONS: Final = (2, 3, 4, 5)
_SCALE: Final = 1 << 30  # coordinates are integers, so that zones meet exactly


@dataclass(slots=True)
class Zone:
    """A member's box of the torus, and its neighbours with the dimension and direction they lie in."""

    low: list[int]
    size: list[int]
    splits: int = 0
    neighbours: dict[int, tuple[int, int]] = field(default_factory=dict)


def draw_torus(members: int, dimensions: int, rng: Random) -> list[Zone]:
    """Members come one by one; each takes half of the zone in which a random point lies."""
    zones = [Zone([0] * dimensions, [_SCALE] * dimensions)]
    halves: dict[int, list[tuple[int, int, int]]] = {0: []}  # dimension, border, who took the upper half
    for number in range(1, members):
        point = [rng.randrange(_SCALE) for _ in range(dimensions)]
        halves[number] = []
        _split(zones, halves, _owner(halves, point), number)
    return zones


def _owner(halves: dict[int, list[tuple[int, int, int]]], point: list[int]) -> int:
    """Whoever's zone has the point: follow the splits from the first member on."""
    owner, turn = 0, 0
    while turn < len(halves[owner]):
        dimension, border, other = halves[owner][turn]
        if point[dimension] >= border:
            owner, turn = other, 0
        else:
            turn += 1
    return owner


def _split(zones: list[Zone], halves: dict[int, list[tuple[int, int, int]]], owner: int, number: int) -> None:
    lower = zones[owner]
    dimension = lower.splits % len(lower.low)
    lower.splits += 1
    lower.size[dimension] //= 2
    upper = Zone(lower.low.copy(), lower.size.copy(), lower.splits)
    upper.low[dimension] += lower.size[dimension]
    zones.append(upper)
    halves[owner].append((dimension, upper.low[dimension], number))
    around, lower.neighbours = list(lower.neighbours), {}
    for other in around:
        zones[other].neighbours.pop(owner, None)
    for one in (owner, number):
        for other in (*around, owner + number - one):
            _connect(zones, one, other)


def _connect(zones: list[Zone], one: int, other: int) -> None:
    where = _side(zones[one], zones[other])
    if where is not None:
        dimension, direction = where
        zones[one].neighbours[other] = where
        zones[other].neighbours[one] = (dimension, -direction)


def _side(one: Zone, other: Zone) -> tuple[int, int] | None:
    """The dimension and direction in which zones touch: along one dimension, overlapping in all others."""
    found = None
    for dimension, (low, size, its_low, its_size) in enumerate(
        zip(one.low, one.size, other.low, other.size, strict=True)
    ):
        if low < its_low + its_size and its_low < low + size:
            continue
        if found is not None:
            return None
        if (low + size) % _SCALE == its_low:
            found = (dimension, 1)
        elif (its_low + its_size) % _SCALE == low:
            found = (dimension, -1)
        else:
            return None
    return found


def flood(zones: list[Zone], source: int = 0) -> tuple[list[int], int]:
    """Hops to every member, and how many the directed flood left out."""
    hops = {source: 0}
    queue = deque([(source, len(zones[0].low), 0)])
    while queue:
        number, dimension, direction = queue.popleft()
        for other, (along, way) in zones[number].neighbours.items():
            is_allowed = along < dimension or (along == dimension and way == direction)
            if (
                other not in hops
                and is_allowed
                and not _is_past_half(zones[source], zones[other], along, way)
            ):
                hops[other] = hops[number] + 1
                queue.append((other, along, way))
    left_out = len(zones) - len(hops)
    plain = deque(sorted(hops, key=lambda number: hops[number]))
    while len(hops) < len(zones):
        number = plain.popleft()
        for other in zones[number].neighbours:
            if other not in hops:
                hops[other] = hops[number] + 1
                plain.append(other)
    return [hops[number] for number in range(len(zones))], left_out


def _is_past_half(source: Zone, zone: Zone, dimension: int, direction: int) -> bool:
    middle = 2 * zone.low[dimension] + zone.size[dimension]
    start = 2 * source.low[dimension] + source.size[dimension]
    return (direction * (middle - start)) % (2 * _SCALE) > _SCALE
