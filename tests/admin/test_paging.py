"""Pages of long lists: right for any keys, and others have their turn between the slices."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braidmq.admin import paging
from braidmq.admin.paging import cursor_of, parts_of, smallest
from braidmq.broker import census
from tests.admin.operator import make_desk
from tests.broker.world import World

KEYS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(st.lists(KEYS, min_size=1, max_size=3))
def test_a_cursor_is_read_back_and_can_stand_in_an_address(parts: list[str]) -> None:
    cursor = cursor_of(*parts)
    assert parts_of(cursor, len(parts)) == parts
    assert all(letter.isascii() and (letter.isalnum() or letter in "-_") for letter in cursor)


@given(st.text(max_size=12), st.integers(1, 2))
def test_what_is_no_cursor_is_refused_as_a_value(cursor: str, count: int) -> None:
    try:
        parts = parts_of(cursor, count)
    except ValueError:
        return
    assert len(parts) == count


@given(st.sets(KEYS, max_size=40), st.integers(0, 50), KEYS)
def test_the_smallest_are_those_of_the_sorted_list(keys: set[str], count: int, after: str) -> None:
    found = asyncio.run(smallest(keys, count, after.__lt__))
    assert found == sorted(key for key in keys if key > after)[:count]


async def turns_during(work: object) -> int:
    """How many turns others have while `work` is awaited."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await work  # type: ignore[misc]
    counting.cancel()
    return turns


async def test_others_have_a_turn_after_every_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "SLICE_KEYS", 10)
    monkeypatch.setattr(census, "SLICE_SESSIONS", 10)
    keys = [str(number) for number in range(100)]
    assert await turns_during(smallest(keys, 5, lambda key: True)) >= 10
    world = World()
    for key in keys:
        world.connect(key)
    assert await turns_during(make_desk(world).census()) >= 10


async def test_a_session_that_ends_while_it_is_counted_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "SLICE_SESSIONS", 1)
    world = World()
    clients = [world.connect(name) for name in "abc"]

    async def leave() -> None:
        for client in clients:
            client.vanish()
            await asyncio.sleep(0)

    counted, _ = await asyncio.gather(make_desk(world).census(), leave())
    assert counted.sessions == 3
    assert (await make_desk(world).census()).sessions == 0
