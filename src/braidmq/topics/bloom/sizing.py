"""How large a filter must be, and how often it will lie: the formulas, and nothing else.

Classic filters follow the paper: b = -n ln p / (ln 2)^2 bits and k = (b / n) ln 2 hashes, p = (1 -
e^(-kn/b))^k. A blocked filter puts all bits of a key into one 512-bit line. Lines fill unevenly, so its rate
is the classic one of a line averaged over the Poisson number of keys in a line; it wants some 15 % more bits
for the same rate.
"""

import math

BLOCK_BITS = 512
BLOCK_BYTES = BLOCK_BITS // 8
# 14 slices of 9 bits are what two 64-bit mixes of a key yield.
BLOCKED_HASHES_MAX = 14


def classic_bits(elements: int, rate: float) -> int:
    """Bits that hold `elements` at false-positive rate `rate` with the best number of hashes."""
    _require_rate(rate)
    return max(1, math.ceil(-max(1, elements) * math.log(rate) / math.log(2) ** 2))


def classic_hashes(bits: int, elements: int) -> int:
    """The number of hashes that makes the rate smallest."""
    return max(1, round(bits / max(1, elements) * math.log(2)))


def classic_rate(bits: int, hashes: int, elements: int) -> float:
    """Expected false-positive rate of a classic filter."""
    return float((1.0 - math.exp(-hashes * elements / bits)) ** hashes)


def blocked_rate(blocks: int, hashes: int, elements: int) -> float:
    """Expected false-positive rate of a blocked filter: sum over j keys in a line of Poisson(j) * rate(j)."""
    mean = elements / blocks
    if mean == 0:
        return 0.0
    spread = 12 * math.sqrt(mean) + 12
    unset = math.log1p(-1 / BLOCK_BITS)
    total = 0.0
    for keys in range(max(0, int(mean - spread)), int(mean + spread) + 1):
        weight = math.exp(keys * math.log(mean) - mean - math.lgamma(keys + 1))
        total += weight * (1.0 - math.exp(unset * hashes * keys)) ** hashes
    return total


def blocked_hashes(bits_per_key: float) -> int:
    """The number of bits a key that makes the rate of a blocked filter smallest."""
    keys = 1 << 20
    blocks = math.ceil(keys * bits_per_key / BLOCK_BITS)
    return min(range(1, BLOCKED_HASHES_MAX + 1), key=lambda hashes: blocked_rate(blocks, hashes, keys))


def blocks_for(keys: int, bits_per_key: float) -> int:
    """The smallest power of two of 512-bit lines that gives every key its bits."""
    needed = max(1, math.ceil(keys * bits_per_key / BLOCK_BITS))
    return 1 << (needed - 1).bit_length()


def keys_capacity(blocks: int, bits_per_key: float) -> int:
    """How many keys `blocks` lines hold before they are too full."""
    return int(blocks * BLOCK_BITS / bits_per_key)


def _require_rate(rate: float) -> None:
    if not 0.0 < rate < 1.0:
        raise ValueError(f"a false-positive rate lies between 0 and 1, not {rate}")
