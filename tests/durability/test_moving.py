"""A session that moves to another broker goes on there as it would have gone on at home."""

import os
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from braidmq.broker.access import BuiltInGate
from braidmq.broker.broker import Broker
from braidmq.broker.restoring import export_session, install_session, living, restore, session_records
from braidmq.errors import ProtocolError
from braidmq.limits import Limits
from braidmq.messages.message import Message
from braidmq.store.decoding import Decoder
from braidmq.store.encoding import Encoder
from braidmq.store.records import (
    AWAY,
    GROUP_ENDED,
    NUMBERED,
    PAGED,
    QUEUED,
    SESSION,
    SESSION_ENDED,
    SUBSCRIBED,
    Record,
)
from braidmq.store.state import State
from braidmq.wire import Connack, Connect, Properties, Puback, Publish, Pubrec, Will
from tests.broker.world import World
from tests.durability.history import CLIENT_IDS, Play, histories, picture, steps
from tests.durability.paged import PagingStore, settle
from tests.durability.test_restoring import WALL_OFFSET_S, KeepingStore, play, restored
from tests.store.keeper import Keeper

LASTING = Properties(session_expiry_s=100)


def carried(records: list[Record]) -> list[Record]:
    """As they arrive elsewhere: one turn that can be read by itself."""
    return Decoder(WALL_OFFSET_S).decode(Encoder(WALL_OFFSET_S).encode(records))


class Recorded(Play):
    """A play in which everything is noted that clients get."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.got: list[tuple[str, object]] = []

    def read(self, client_id: str) -> None:
        client = self.clients.get(client_id)
        if client is not None:
            packets = client.read()
            self.got += [(client_id, packet) for packet in packets]
            self.note(client_id, packets)


def living_apart(broker: Broker, client_id: str) -> tuple[list[Record], list[list[Record]]]:
    """The records of one session, and all else, without the shared groups that only it has."""
    parts = list(living(broker))
    [own] = [part for part in parts if part[0] == (SESSION_ENDED, client_id)]
    rest = [part for part in parts if part is not own]
    filters = {record[2] for part in rest for record in part if record[0] == SUBSCRIBED}
    groups = [part for part in rest if part[0][0] == GROUP_ENDED]
    gone = [part for part in groups if f"$share/{part[0][1]}/{part[0][2].decode()}" not in filters]
    return own, [part for part in rest if part not in gone]


def world_of(parts: list[list[Record]], now: float) -> World:
    store = KeepingStore()
    store.turns = [Encoder(WALL_OFFSET_S).encode([record for part in parts for record in part])]
    world = World(store, queue_messages_max=20)
    world.now = now
    world.broker = Broker(Limits(queue_messages_max=20), store, BuiltInGate(), lambda: "made")
    state = State()
    for turn in store.turns:
        state.apply(Decoder(WALL_OFFSET_S).decode(turn))
    restore(world.broker, state, now)
    world.broker.advance(now)
    return world


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories, st.sampled_from(("a", "b", "c")), st.lists(steps, max_size=30))
def test_it_goes_on_as_at_home(history: list[object], client_id: str, afterwards: list[object]) -> None:
    played, _ = play(history)
    played.lose_everybody()
    world = played.world
    world.pass_time(0)
    if client_id not in world.broker.sessions:
        return
    own, rest = living_apart(world.broker, client_id)
    home = world_of([*rest, own], world.now)
    elsewhere = world_of(rest, world.now)
    session = install_session(elsewhere.broker, carried(own), world.now)
    elsewhere.broker.hub.end_turn()
    session.check()
    assert picture(elsewhere.broker) == picture(home.broker)
    again = restored(elsewhere.store.turns, world.now, WALL_OFFSET_S, queue_messages_max=20)
    assert picture(again) == picture(elsewhere.broker)
    plays = Recorded(home), Recorded(elsewhere)
    for step in afterwards:
        for each in plays:
            each.step(step)
    assert plays[0].got == plays[1].got
    assert picture(elsewhere.broker) == picture(home.broker)


def test_a_living_broker_takes_it_with_everything_under_way() -> None:
    home = World(KeepingStore())
    mover = home.open()
    will = Will("will", b"gone", 1, properties=Properties(will_delay_s=50))
    mover.send(Connect("m", will=will, properties=Properties(session_expiry_s=100, receive_maximum=4)))
    mover.read()
    mover.subscribe("t", "$share/g/s", qos=2)
    publisher = home.connect("p")
    publisher.send(Publish("s", b"shared", 2, packet_id=9))  # QoS 2 stays with its member [MQTT-4.8.2-5]
    for number in range(6):
        publisher.send(Publish("t", b"%d" % number, 1 + number % 2, packet_id=number + 1))
    first = mover.read()
    mover.send(Pubrec(first[2].packet_id), Publish("up", b"", 2, packet_id=77))
    mover.vanish()
    exported: list[list[Record]] = []
    export_session(home.broker.sessions["m"], exported.append)

    away = World(KeepingStore())
    member = away.connect("other", properties=LASTING)
    member.subscribe("$share/g/s", "t", qos=1)
    away.connect("p").send(Publish("t", b"before", 1, packet_id=1))
    [before] = member.read()
    session = install_session(away.broker, carried(exported[0]), away.now)
    away.broker.hub.end_turn()
    assert away.broker.sessions["m"] is session
    assert picture_of(away, "m") == picture_of(home, "m")
    assert (session.inbound, session.will.payload, session.will_timer is not None) == ({77}, b"gone", True)

    away.connect("p").send(Publish("t", b"after", 1, packet_id=1), Publish("s", b"other's", 1, packet_id=2))
    assert [packet.payload for packet in member.read()] == [b"after", b"other's"]
    assert before.payload == b"before"
    there = Recorded(away), Recorded(home)
    home.connect("p").send(Publish("t", b"after", 1, packet_id=1))
    for each in there:
        client = each.world.open()
        client.send(Connect("m", False, 0, properties=Properties(session_expiry_s=100, receive_maximum=4)))
        each.clients["m"], each.unanswered["m"] = client, []
        for _ in range(20):
            each.read("m")
            waiting, each.unanswered["m"] = each.unanswered["m"], []
            if not waiting:
                break
            client.send(*waiting)
    assert there[0].got == there[1].got
    assert isinstance(there[0].got[0][1], Connack)
    payloads = [packet.payload for _, packet in there[0].got if isinstance(packet, Publish)]
    assert payloads == [b"shared", b"0", b"2", b"3", b"4", b"5", b"after"]
    for world in (away, home):
        world.broker.sessions["m"].check()
        for group in world.broker.groups:
            group.check()


def picture_of(world: World, client_id: str) -> list[str]:
    found = session_records(world.broker.sessions[client_id])
    return [repr(record) for record in found if record[0] not in (QUEUED, NUMBERED)]


def test_an_exported_session_is_read_with_its_pages(tmp_path: Path) -> None:
    store = PagingStore(tmp_path, file_bytes=100_000)
    world = World(store)
    client = world.connect("s", properties=LASTING)
    client.subscribe("t", qos=1)
    client.vanish()
    publisher = world.connect("p")
    for number in range(1500):
        publisher.send(Publish("t", b"%d" % number, 1, packet_id=number + 1))
    session = world.broker.sessions["s"]
    assert any(record[0] == PAGED for record in session_records(session))
    exported: list[list[Record]] = []
    export_session(session, exported.append)
    assert not exported
    settle(world.broker, store)
    away = World(KeepingStore())
    install_session(away.broker, carried(exported[0]), away.now)
    resumed, packets = away.resume("s", properties=LASTING)
    got: list[bytes] = []
    while packets:
        got += [packet.payload for packet in packets]
        resumed.send(*(Puback(packet.packet_id) for packet in packets))
        packets = resumed.read()
    assert got == [b"%d" % number for number in range(1500)]


def test_what_can_not_be_installed_is_refused_and_changes_nothing() -> None:
    home = World(KeepingStore())
    home.connect("s", properties=LASTING).vanish()
    records = carried(session_records(home.broker.sessions["s"]))
    for wrong in ([], [*records, (PAGED, "s", 1, 1, 1, 1, 1, 1, 1)], [*records, (SESSION, "t", None, 9.0)]):
        with pytest.raises(ValueError):  # noqa: PT011
            install_session(World().broker, wrong, 1000.0)
    with pytest.raises(ValueError, match="there is a session s"):
        install_session(home.broker, records, home.now)
    full = World(KeepingStore(), sessions_max=1)
    full.connect("other", properties=LASTING)
    with pytest.raises(ProtocolError, match="too many sessions"):
        install_session(full.broker, records, full.now)
    assert [*full.broker.sessions] == ["other"]


def test_a_users_sessions_and_all_wills_are_bounded_for_those_who_arrive_too() -> None:
    home = World(KeepingStore())
    will = Will("will", b"x" * 1000, 1, properties=Properties(will_delay_s=50))
    home.connect("s", will=will, properties=LASTING).vanish()
    session = home.broker.sessions["s"]
    small = World(KeepingStore(), wills_bytes_max=1000)
    with pytest.raises(ProtocolError, match="no room for another will"):
        install_session(small.broker, carried(session_records(session)), small.now)
    session.owner = "somebody"
    full = World(KeepingStore(), sessions_per_user_max=1)
    full.broker.add_session("other", "somebody")
    with pytest.raises(ProtocolError, match="too many sessions of this user"):
        install_session(full.broker, carried(session_records(session)), full.now)
    assert [*full.broker.sessions] == ["other"]


def test_the_bound_of_memory_holds_while_a_broker_is_restored(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    store = PagingStore(tmp_path / "one", memory_bytes_max=10_000_000)
    world = World(store)
    for client_id in CLIENT_IDS[:3]:
        client = world.connect(client_id, properties=LASTING)
        client.subscribe("t", qos=1)
        client.vanish()
    publisher = world.connect("p")
    for number in range(200):
        publisher.send(Publish("t", bytes(1000), 1, packet_id=number + 1))
    assert world.broker.hub.queue_memory_bytes > 200_000
    (tmp_path / "two").mkdir()
    smaller = PagingStore(tmp_path / "two", memory_bytes_max=50_000)
    broker = Broker(Limits(), smaller, BuiltInGate(), lambda: "made")
    restore(broker, store.state(), world.now)
    assert broker.hub.queue_memory_bytes <= 50_000
    for session in broker.sessions.values():
        session.check()


def test_pages_made_while_restoring_are_written_before_the_log_speaks_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Keeper(tmp_path)
    message = Message(b"t", bytes(1000), 1)
    keeper.keep([
        (SESSION, "s", None, 60.0), (AWAY, "s", 1.0), (QUEUED, "s", 1, message, 1, False, b"", None)
    ])
    keeper.close()
    (tmp_path / "manifest.braid").unlink()
    keeper = Keeper(tmp_path, salvage=True, queue_memory_bytes_max=10)
    keeper.store.flush()
    written: list[str] = []
    write = os.pwrite

    def noting(descriptor: int, data: bytes, offset: int) -> int:
        written.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        return write(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", noting)
    broker = Broker(Limits(), keeper.store, BuiltInGate(), lambda: "made")
    restore(broker, keeper.state, 2.0)
    keeper.store.checkpoint_from(partial(living, broker))
    keeper.store.flush()
    assert (written[0], written[1][:3]) == ("page-0000000001.braid", "log")
    keeper.close()
