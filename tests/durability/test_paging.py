"""Deliveries of absent clients wait on disk, and nobody can tell."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from braidmq.broker.access import BuiltInGate
from braidmq.broker.broker import Broker
from braidmq.broker.restoring import living, restore
from braidmq.errors import StoreError
from braidmq.limits import Limits
from braidmq.store.pages import numbers_in, path_of
from braidmq.wire import Properties, Puback, Publish
from tests.broker.world import Client, World
from tests.durability.history import Play, histories, picture
from tests.durability.paged import PagingStore, settle, unfolded
from tests.store.test_crash_points import quick_directory

LASTING = Properties(session_expiry_s=1000)


class PagedPlay(Play):
    """Plays with a store that pages everything out that it can."""

    def __init__(self, store: PagingStore) -> None:
        super().__init__(World(store, queue_messages_max=20))
        self.store = store

    def step(self, step: object) -> None:
        super().step(step)
        settle(self.world.broker, self.store)
        for client_id in self.clients:
            self.read(client_id)
        for session in self.world.broker.sessions.values():
            session.check()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories)
def test_paging_changes_nothing(history: list[object]) -> None:
    with quick_directory() as name:
        store = PagingStore(Path(name))
        paged, plain = PagedPlay(store), Play(World(queue_messages_max=20))
        for step in history:
            paged.step(step)
            plain.step(step)
        assert paged.unanswered == plain.unanswered
        for client_id, session in plain.world.broker.sessions.items():
            twin = paged.world.broker.sessions[client_id]
            assert (session.queued, session.queue_bytes) == (twin.queued, twin.queue_bytes)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories)
def test_a_restart_finds_the_pages(history: list[object]) -> None:
    with quick_directory() as name:
        store = PagingStore(Path(name))
        played = PagedPlay(store)
        for step in history:
            played.step(step)
        again, second = restarted(store, played.world.now, queue_messages_max=20)
        played.lose_everybody()
        played.world.pass_time(0)
        unfold = partial(unfolded, store)
        assert picture(again, partial(unfolded, second)) == picture(played.world.broker, unfold)
        for session in again.sessions.values():
            session.check()


def restarted(store: PagingStore, now: float, **limits: int) -> tuple[Broker, PagingStore]:
    state = store.state()
    second = PagingStore(store.directory)
    assert list(second.pages.adopt(state, salvage=False)) == []
    broker = Broker(Limits(**limits), second, BuiltInGate(), lambda: "made")
    restore(broker, state, now)
    broker.advance(now)
    return broker, second


@pytest.fixture
def store(tmp_path: Path) -> PagingStore:
    return PagingStore(tmp_path, file_bytes=100_000)


@pytest.fixture
def world(store: PagingStore) -> World:
    return World(store)


def away(world: World, client_id: str, filter: str = "t/#") -> None:
    client = world.connect(client_id, properties=LASTING)
    client.subscribe(filter, qos=1)
    client.vanish()


def publish(
    world: World, count: int, *, topic: str = "t/x", payload_bytes: int = 100, expiry_s: int | None = None
) -> None:
    publisher = world.connect(f"publisher-{world.now}", clean_start=True)
    properties = Properties(message_expiry_s=expiry_s)
    for number in range(count):
        payload = b"%08d" % number + bytes(payload_bytes)
        publisher.send(Publish(topic, payload, 1, packet_id=number % 60_000 + 1, properties=properties))
    publisher.vanish()


def drained(world: World, store: PagingStore, client_id: str) -> list[int]:
    """Everything that a client gets when it comes back."""
    client, packets = world.resume(client_id, properties=LASTING)
    got: list[int] = []
    while True:
        got += take(client, packets)
        settle(world.broker, store)
        packets = client.read()
        if not packets and not world.broker.sessions[client_id].queued:
            return got


def take(client: Client, packets: list[object]) -> Iterator[int]:
    for packet in packets:
        assert isinstance(packet, Publish)
        client.send(Puback(packet.packet_id))
        yield int(packet.payload[:8])


def test_only_a_stub_stays_in_memory_and_all_comes_back_in_order(world: World, store: PagingStore) -> None:
    away(world, "s")
    publish(world, 3000)
    session = world.broker.sessions["s"]
    assert session.queued == 3000
    assert world.broker.hub.queue_memory_bytes == 0
    assert numbers_in(store.directory)
    assert drained(world, store, "s") == list(range(3000))
    assert session.queue_bytes == world.broker.hub.queue_memory_bytes == 0
    session.check()


def test_what_comes_while_pages_are_read_comes_after_them(world: World, store: PagingStore) -> None:
    away(world, "s")
    publish(world, 200)
    client, packets = world.resume("s", properties=Properties(session_expiry_s=1000, receive_maximum=10))
    settle(world.broker, store)
    packets += client.read()
    publish(world, 250)
    got: list[int] = []
    while packets:
        got += take(client, packets)
        settle(world.broker, store)
        packets = client.read()
        world.broker.sessions["s"].check()
    assert got == [*range(200), *range(250)]


def test_a_body_is_on_disk_once_for_all_who_wait_for_it(world: World, store: PagingStore) -> None:
    for number in range(20):
        away(world, f"s{number}")
    publish(world, 10, payload_bytes=5000)
    on_disk = sum(path_of(store.directory, number).stat().st_size for number in numbers_in(store.directory))
    assert 10 * 5000 < on_disk < 2 * 10 * 5000
    for number in range(20):
        assert drained(world, store, f"s{number}") == list(range(10))


def test_files_go_when_nothing_in_them_is_needed(world: World, store: PagingStore) -> None:
    for client_id in ("s", "ends"):
        away(world, client_id)
        publish(world, 2000)
    files = numbers_in(store.directory)
    assert len(files) > 4
    world.broker.end_session(world.broker.sessions["ends"], "expired")
    world.broker.hub.end_turn()
    assert world.broker.hub.counters.by_name()["dropped_session_ended"] == 2000
    drained(world, store, "s")
    world.pass_time(0)
    assert len(numbers_in(store.directory)) <= 1


def test_those_who_never_come_back_do_not_keep_what_others_have_fetched(tmp_path: Path) -> None:
    store = PagingStore(tmp_path, file_bytes=100_000)
    world = World(store)
    away(world, "never", "t/never")
    away(world, "s")
    for _ in range(20):  # a little for one and much for the other in every file
        publish(world, 2, topic="t/never")
        publish(world, 500)
    before = len(numbers_in(tmp_path))
    assert drained(world, store, "s")
    world.pass_time(0)
    assert len(numbers_in(tmp_path)) > before // 2
    for part in living(world.broker):  # as a checkpoint does
        world.store.commit(store.journal.encode(part), lambda: None)
    settle(world.broker, store)
    assert len(numbers_in(tmp_path)) <= 2
    world.broker.sessions["never"].check()
    again, second = restarted(store, world.now)
    world.broker, world.store = again, second
    assert drained(world, second, "never") == [0, 1] * 20


def test_expired_messages_are_not_sent_when_they_come_back(world: World, store: PagingStore) -> None:
    away(world, "s")
    publish(world, 10, expiry_s=5)
    world.pass_time(1)
    publish(world, 10, expiry_s=500)
    world.pass_time(10)
    assert drained(world, store, "s") == list(range(10))
    assert world.broker.hub.counters.by_name()["dropped_expired"] == 10


def test_the_limit_counts_what_is_on_disk(store: PagingStore) -> None:
    world = World(store, queue_messages_max=50)
    away(world, "s")
    publish(world, 60)
    assert world.broker.sessions["s"].queued == 50
    assert world.broker.hub.counters.by_name()["dropped_queue_full"] == 10


def test_the_oldest_make_room_on_disk_too(store: PagingStore) -> None:
    """They go by the page; memory, disk and what a restart finds agree about which are left."""
    world = World(store, queue_messages_max=50, overflow="drop_oldest")
    away(world, "s")
    publish(world, 45)
    settle(world.broker, store)
    assert world.broker.sessions["s"].queue.paged()  # type: ignore[union-attr]
    publish(world, 15)
    settle(world.broker, store)
    session = world.broker.sessions["s"]
    session.check()
    dropped = world.broker.hub.counters.by_name()["dropped_queue_full"]
    assert session.queued == 60 - dropped
    assert 10 <= dropped <= 60
    again, second = restarted(store, world.now)
    world.broker, world.store = again, second
    expected = [*range(45), *range(15)][dropped:]
    assert drained(world, second, "s") == expected


def test_a_page_that_is_being_read_may_be_given_up(store: PagingStore) -> None:
    world = World(store, queue_messages_max=20, inflight_max=1, overflow="drop_oldest")
    away(world, "s")
    for _ in range(4):
        publish(world, 5)
        settle(world.broker, store)
    subscriber = world.connect("s", clean_start=False, properties=LASTING)
    publish(world, 30)  # while the first page is on its way
    world.broker.sessions["s"].check()
    settle(world.broker, store)
    world.broker.sessions["s"].check()
    del subscriber
    got = drained(world, store, "s")
    assert got[-20:] == list(range(10, 30))


def test_a_right_that_is_gone_takes_what_is_on_disk_with_it(world: World, store: PagingStore) -> None:
    away(world, "s")
    publish(world, 10)
    world.broker.router.restrict(lambda session, topic: session.client_id != "s")
    assert drained(world, store, "s") == []
    assert world.broker.hub.counters.by_name()["dropped_not_authorized"] == 10
    assert world.broker.sessions["s"].queued == 0


def test_a_page_that_can_not_be_read_is_told_and_counted(world: World, store: PagingStore) -> None:
    away(world, "s")
    publish(world, 20)
    path = path_of(store.directory, numbers_in(store.directory)[0])
    damaged = bytearray(path.read_bytes())
    damaged[100] ^= 1
    path.write_bytes(damaged)
    pages = world.broker.sessions["s"].queue.paged()  # type: ignore[union-attr]
    lost = pages[0][6]
    assert drained(world, store, "s") == list(range(lost, 20))
    assert world.broker.hub.counters.by_name()["dropped_damaged"] == lost
    assert str(path) in store.told[0]


def test_a_missing_file_stops_the_start_unless_it_is_to_be_salvaged(world: World, store: PagingStore) -> None:
    away(world, "s")
    publish(world, 20)
    path = path_of(store.directory, numbers_in(store.directory)[0])
    path.unlink()
    second = PagingStore(store.directory)
    with pytest.raises(StoreError, match=str(path)):
        list(second.pages.adopt(store.state(), salvage=False))
    state = store.state()
    notes = list(second.pages.adopt(state, salvage=True))
    assert all(str(path) in note for note in notes)
    assert state.sessions["s"].pages == []


def test_files_that_nobody_speaks_of_are_removed(world: World, store: PagingStore) -> None:
    away(world, "s")
    publish(world, 20)
    stray = path_of(store.directory, 77)
    stray.write_bytes(b"what a crash left")
    restarted(store, world.now)
    assert not stray.exists()
    assert numbers_in(store.directory)
