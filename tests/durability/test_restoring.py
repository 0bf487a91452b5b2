"""Replaying the records rebuilds the broker: whatever clients did, the restored one is as the live one."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings

from braidmq.broker.access import BuiltInGate
from braidmq.broker.broker import Broker
from braidmq.broker.restoring import living, restore
from braidmq.limits import Limits
from braidmq.messages.message import Message
from braidmq.store.decoding import Decoder
from braidmq.store.encoding import Encoder
from braidmq.store.records import GROUP_QUEUED, QUEUED, Record
from braidmq.store.state import State
from braidmq.wire import Connect, Properties, Puback, Publish, Pubrec, Pubrel, Will
from tests.broker.world import World
from tests.durability.history import Play, histories, picture

WALL_OFFSET_S = 1_700_000_000.0
REBOOTED_OFFSET_S = WALL_OFFSET_S + 700.25  # another boot: the same moment is another time on its clock


class KeepingStore:
    """Keeps every turn at once, as bytes."""

    is_failing = False
    pages = None

    def __init__(self) -> None:
        self.journal = Encoder(WALL_OFFSET_S)
        self.turns: list[bytes] = []

    def load(self) -> State:
        return State()

    def checkpoint_from(self, living: Callable[[], Iterator[list[Record]]]) -> None:
        pass

    def commit(self, turn: bytes, kept: Callable[[], None]) -> None:
        self.turns.append(turn)
        kept()

    def close(self) -> None:
        pass


class NoStore(KeepingStore):
    """For the restored broker: it notes what it does, and nobody reads that."""

    def commit(self, turn: bytes, kept: Callable[[], None]) -> None:
        kept()


def restored(
    turns: list[bytes], now: float, wall_offset_s: float, *, wills_from_s: float = 0.0, **limits: int
) -> Broker:
    decoder = Decoder(wall_offset_s)
    state = State()
    for turn in turns:
        state.apply(decoder.decode(turn))
    broker = Broker(Limits(**limits), NoStore(), BuiltInGate(), lambda: "made")
    broker.wills_from_s = wills_from_s
    restore(broker, state, now)
    broker.advance(now)
    return broker


def play(history: list[object]) -> tuple[Play, KeepingStore]:
    store = KeepingStore()
    played = Play(World(store, queue_messages_max=20))
    for step in history:
        played.step(step)
    return played, store


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories)
def test_replaying_the_records_gives_the_live_broker(history: list[object]) -> None:
    played, store = play(history)
    world = played.world
    again = restored(store.turns, world.now, WALL_OFFSET_S, queue_messages_max=20)
    played.lose_everybody()
    world.pass_time(0)
    assert picture(again) == picture(world.broker)
    for session in again.sessions.values():
        session.check()


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories)
def test_a_checkpoint_says_the_same_as_all_the_records(history: list[object]) -> None:
    played, _ = play(history)
    played.lose_everybody()
    world = played.world
    world.pass_time(0)
    encoder = Encoder(WALL_OFFSET_S)
    checkpoint = [encoder.encode(part) for part in living(world.broker)]
    again = restored(checkpoint, world.now, WALL_OFFSET_S, queue_messages_max=20)
    assert picture(again) == picture(world.broker)


def test_times_go_on_over_a_reboot() -> None:
    store = KeepingStore()
    world = World(store)
    subscriber = world.connect("s", properties=Properties(session_expiry_s=100))
    subscriber.subscribe("t", qos=1)
    subscriber.vanish()
    publisher = world.connect("p")
    publisher.send(Publish("t", b"old", 1, packet_id=1, properties=Properties(message_expiry_s=30)))
    rebooted_now = world.now + WALL_OFFSET_S + 20 - REBOOTED_OFFSET_S  # twenty seconds later
    broker = restored(store.turns, rebooted_now, REBOOTED_OFFSET_S)
    [waiting] = broker.sessions["s"].queue or ()
    assert round(waiting.message.expires_at_s - rebooted_now, 3) == 10
    broker.advance(rebooted_now + 79)
    assert "s" in broker.sessions
    broker.advance(rebooted_now + 81)
    assert "s" not in broker.sessions


def test_what_was_under_way_is_sent_again_under_its_packet_id() -> None:
    store = KeepingStore()
    world = World(store)
    subscriber = world.connect("s", properties=Properties(session_expiry_s=100))
    subscriber.subscribe("t", qos=2)
    publisher = world.connect("p")
    publisher.send(Publish("t", b"1", 1, packet_id=1), Publish("t", b"2", 2, packet_id=2))
    subscriber.send(Pubrec(subscriber.read()[1].packet_id))
    broker = restored(store.turns, world.now, WALL_OFFSET_S)
    world.broker, world.store = broker, broker.hub.promises.store
    again, (first, release) = world.resume("s", properties=Properties(session_expiry_s=100))
    assert (first.payload, first.dup, first.packet_id) == (b"1", True, 1)
    assert release.packet_id == 2
    again.send(Puback(1))
    assert broker.sessions["s"].inflight.count == 1


def test_a_released_packet_id_is_free_after_a_restart() -> None:
    """Otherwise the next message under it would be taken for a repetition, and lost."""
    store = KeepingStore()
    world = World(store)
    publisher = world.connect("p", properties=Properties(session_expiry_s=100))
    publisher.send(Publish("t", b"1", 2, packet_id=1), Publish("t", b"2", 2, packet_id=2))
    publisher.send(Pubrel(1))
    assert restored(store.turns, world.now, WALL_OFFSET_S).sessions["p"].inbound == {2}


@pytest.mark.parametrize("expiry_s", [0, 100])
def test_a_node_of_a_cluster_sends_no_will_before_it_has_found_the_others(expiry_s: int) -> None:
    """Those who want it are elsewhere, and nothing would be forwarded to them yet."""
    store = KeepingStore()
    world = World(store)
    properties = Properties(session_expiry_s=expiry_s)
    world.open().send(Connect("mortal", will=Will("w", b"gone", 1, retain=True), properties=properties))
    broker = restored(store.turns, world.now, WALL_OFFSET_S, wills_from_s=world.now + 3)
    assert broker.retained.get(b"w") is None
    broker.advance(world.now + 3)
    assert broker.retained.get(b"w") is not None


@pytest.mark.parametrize("is_member_here", [False, True])
def test_a_will_to_a_shared_group_is_there_once_after_a_crash(is_member_here: bool) -> None:
    """Who gets it may differ, since whose turn it is isn't kept; that one member does may not."""
    store = KeepingStore()
    world = World(store)
    members = [world.connect(name, properties=Properties(session_expiry_s=100)) for name in ("m", "n")]
    for member in members:
        member.subscribe("$share/g/w", qos=1)
    if not is_member_here:
        for member in members:
            member.vanish()
    mortal = world.open()
    mortal.send(Connect("mortal", will=Will("w", b"gone", 1)))
    broker = restored(store.turns, world.now, WALL_OFFSET_S)
    waiting = [record for part in living(broker) for record in part if record[0] in (QUEUED, GROUP_QUEUED)]
    assert [message.payload for record in waiting for message in record if isinstance(message, Message)] == [
        b"gone"
    ]


def test_a_lower_limit_of_the_expiry_holds_for_the_sessions_that_were_kept() -> None:
    store = KeepingStore()
    world = World(store)
    for name, expiry_s in (("old", 5_000), ("young", 5_000), ("short", 10)):
        world.connect(name, clean_start=False, properties=Properties(session_expiry_s=expiry_s))
    world.broker.sessions["old"].outlet.lost("gone")
    world.pass_time(500)
    world.broker.hub.end_turn()
    broker = restored(store.turns, world.now, WALL_OFFSET_S, session_expiry_s_max=100)
    # "old" has been away for longer than that, and has ended.
    assert {name: session.expiry_s for name, session in broker.sessions.items()} == {
        "young": 100.0,
        "short": 10.0,
    }
    broker.advance(world.now + 101)
    assert not broker.sessions
