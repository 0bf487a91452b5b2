"""Parts of long lists, in the order of their keys, without holding up the event loop.

The broker keeps no sorted index of its clients; every page looks at all keys, in slices between which the
loop goes on. A key says where the next page begins, so that clients who come and go move no other entry.
Cost: O(n) a page, at most SLICE_KEYS keys at a stretch.
"""

import asyncio
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Collection
from typing import Any, Final, TypeVar

SLICE_KEYS: Final = 2_000
LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 1_000

T = TypeVar("T")


def cursor_of(*parts: str) -> str:
    """Where a page ends, as a word that can stand in an address. Client ids and filters have no U+0000."""
    return urlsafe_b64encode("\0".join(parts).encode()).decode().rstrip("=")


def parts_of(cursor: str, count: int) -> list[str]:
    """What `cursor_of` was given; ValueError for what it never made."""
    padded = cursor + "=" * (-len(cursor) % 4)
    parts = b64decode(padded.encode("ascii"), b"-_", validate=True).decode().split("\0")
    if len(parts) != count:
        raise ValueError("no cursor of this list")
    return parts


async def smallest(
    entries: Collection[T], count: int, wanted: Callable[[T], bool], key: Callable[[T], Any] | None = None
) -> list[T]:
    """The `count` smallest of the wanted entries, in order. `entries` may change while this waits."""
    pending = list(entries)
    best: list[T] = []
    for start in range(0, len(pending), SLICE_KEYS):
        best += filter(wanted, pending[start : start + SLICE_KEYS])
        best.sort(key=key)
        del best[count:]
        await asyncio.sleep(0)
    return best
