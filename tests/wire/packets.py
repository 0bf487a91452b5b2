"""One table of good and bad packets for all who need some: codec tests, fuzzers, broker tests, benchmarks.

Every packet type, property and rule about bytes is in it, in each version that knows it. The rows are written
in tests/wire/cases by hand.
"""

from tests.wire.cases import connack, connect, plain, publish, subscribe
from tests.wire.cases.building import BadPacket, GoodPacket, split

__all__ = ["BAD", "GOOD", "BadPacket", "GoodPacket", "row_id", "split"]

_FAMILIES = (connect, connack, publish, subscribe, plain)

GOOD: list[GoodPacket] = [row for family in _FAMILIES for row in family.GOOD]
BAD: list[BadPacket] = [row for family in _FAMILIES for row in family.BAD]


def row_id(row: GoodPacket | BadPacket) -> str:
    """A name for the test report."""
    version = {3: "3.1", 4: "3.1.1", 5: "5"}[row.version]
    return f"{version}: {row.name}"
