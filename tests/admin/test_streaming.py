"""The stream of a trace: what is told, what is dropped when nobody reads, and how it ends."""

import asyncio
import json
from typing import Any

import pytest

from braidmq.admin import streaming
from braidmq.admin.desk import RefusedError
from braidmq.admin.streaming import TRACES_MAX, Stream
from braidmq.wire import Publish
from tests.admin.operator import make_desk, operator
from tests.broker.world import World


def data_of(chunk: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(chunk.partition(b"data: ")[2])
    return found


async def test_events_come_one_by_one_until_the_reader_goes() -> None:
    world = World()
    writer = world.connect("writer")
    events = Stream(make_desk(world), "", "a/#").events()
    assert (await anext(events)).startswith(b":")
    writer.send(Publish("a/b", b"x"), Publish("b", b"x"), Publish("a", b"x"))
    found = [data_of(await anext(events)) for _ in range(2)]
    assert [event["topic"] for event in found] == ["a/b", "a"]
    assert found[0]["kind"] == "published"
    assert found[0]["at_s"] > 0
    assert "payload" not in found[0]
    await events.aclose()  # type: ignore[attr-defined]
    assert world.broker.hub.watching.audience is None


async def test_what_a_slow_reader_misses_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "WAITING_MAX", 2)
    world = World()
    events = Stream(make_desk(world), "writer", "").events()
    await anext(events)
    world.connect("writer").send(*(Publish("a", b"x"),) * 4)
    assert data_of(await anext(events))["kind"] == "session_established"
    assert data_of(await anext(events)) == {"lost": 3}
    assert data_of(await anext(events))["kind"] == "published"
    await events.aclose()  # type: ignore[attr-defined]


async def test_a_broker_that_stops_ends_its_streams() -> None:
    desk = make_desk(World())
    events = Stream(desk, "nobody", "").events()
    await anext(events)
    waiting = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    desk.end_streams()
    assert await waiting == b": the broker stops\n\n"
    assert [event async for event in events] == []
    assert not desk.onlookers
    assert desk.broker.hub.watching.audience is None


async def test_silence_is_shown_to_be_no_death(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "QUIET_S", 0.001)
    events = Stream(make_desk(World()), "nobody", "").events()
    await anext(events)
    assert await anext(events) == b": nothing happens\n\n"
    await events.aclose()  # type: ignore[attr-defined]


@pytest.mark.parametrize("query", ["", "filter=a/%23/b"])
async def test_a_wrong_wish_is_refused(query: str) -> None:
    assert (await operator(World()).get(f"/trace?{query}")).status_code == 400


async def test_there_is_an_end_to_the_number_of_onlookers() -> None:
    desk = make_desk(World())
    streams = [Stream(desk, "x", "").events() for _ in range(TRACES_MAX)]
    for stream in streams:
        await anext(stream)
    with pytest.raises(RefusedError) as refused:
        Stream(desk, "x", "")
    assert refused.value.status == 429
    for stream in streams:
        await stream.aclose()  # type: ignore[attr-defined]
    Stream(desk, "x", "")


async def test_a_trace_looks_at_so_many_messages_a_second_and_says_how_many_passed_unseen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streaming, "REST_S", 0.0)
    world = World()
    writer = world.connect("writer")
    desk = make_desk(world, trace_messages_per_s_max=10)
    events = Stream(desk, "", "wanted").events()
    await anext(events)
    assert not writer.connection.takes_fast_lane
    writer.send(*(Publish("other", b"x"),) * 15)
    assert writer.connection.takes_fast_lane  # it rests: who isn't looked at is fast
    writer.send(*(Publish("wanted", b"x"),) * 7)
    assert await anext(events) == b": looking again\n\n"
    assert data_of(await anext(events)) == {"unseen": 11}  # the four that came while it looked at the others
    world.pass_time(1)
    writer.send(Publish("wanted", b"x"))
    assert data_of(await anext(events))["topic"] == "wanted"
    await events.aclose()  # type: ignore[attr-defined]
    assert world.broker.hub.watching.audience is None


async def test_all_traces_together_show_so_many_events_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "REST_S", 0.0)
    world = World()
    writer = world.connect("writer")
    desk = make_desk(world, trace_events_per_s_max=4)
    streams = [Stream(desk, "", "#").events() for _ in range(2)]
    for stream in streams:
        await anext(stream)
    writer.send(*(Publish("a", b"x"),) * 10)
    told = b"".join([await anext(stream) for stream in streams for _ in range(3)])
    assert told.count(b'"published"') == 4
    assert told.count(b'{"lost":1}') == 2
    for stream in streams:
        await stream.aclose()  # type: ignore[attr-defined]
