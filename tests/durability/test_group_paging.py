"""What waits in a shared group beyond memory waits on disk, and nobody can tell."""

from pathlib import Path
from random import Random

import pytest

from braidmq.broker.broker import Broker
from braidmq.broker.restoring import living
from braidmq.broker.sharing.policies import POLICIES
from braidmq.config.groups import GroupsConfig
from braidmq.errors import StoreError
from braidmq.messages.message import Message
from braidmq.store.decoding import Decoder
from braidmq.store.encoding import Encoder
from braidmq.store.pages import numbers_in, path_of
from braidmq.store.records import GROUP_PAGED, GroupName
from braidmq.wire import Properties, Puback, Publish
from tests.broker.crew import NAMES, Crew
from tests.broker.test_crew import walk
from tests.broker.world import Client, World
from tests.durability.paged import WALL_OFFSET_S, PagingStore, settle, unfolded
from tests.durability.test_paging import restarted

LASTING = Properties(session_expiry_s=1000)
FILTER = "$share/crew/jobs/#"
CREW = GroupName("crew", b"jobs/#")
COUNT = 2_000
BOUND_BYTES = 50_000  # of the 800,000 that this many messages take


@pytest.fixture
def store(tmp_path: Path) -> PagingStore:
    return PagingStore(tmp_path, memory_bytes_max=BOUND_BYTES, file_bytes=100_000)


@pytest.fixture
def world(store: PagingStore) -> World:
    return World(store)


def away(world: World, client_id: str = "member") -> None:
    client = world.connect(client_id, properties=LASTING)
    client.subscribe(FILTER, qos=1)
    client.vanish()


def publish(
    world: World, count: int, *, begin: int = 0, qos: int = 1, expiry_s: int | None = None
) -> list[int]:
    """The reasons of the answers."""
    publisher = world.connect("publisher")
    properties = Properties(message_expiry_s=expiry_s)
    for number in range(begin, begin + count):
        packet_id = number % 60_000 + 1 if qos else 0
        topic, payload = f"jobs/{number % 3}", b"%08d" % number + bytes(100)
        publisher.send(Publish(topic, payload, qos, packet_id=packet_id, properties=properties))
    answers = [packet.reason for packet in publisher.read() if isinstance(packet, Puback)]
    publisher.vanish()
    return answers


def waiting(broker: Broker) -> int:
    [group] = broker.groups
    group.check()
    return len(group.core.queue)


def drained(world: World, store: PagingStore, client_id: str = "member") -> list[int]:
    """Everything that the member gets when it comes back."""
    client, packets = world.resume(client_id, properties=LASTING)
    return taken(world, store, client, packets)


def taken(world: World, store: PagingStore, client: Client, packets: list[object]) -> list[int]:
    got: list[int] = []
    while True:
        for packet in packets:
            assert isinstance(packet, Publish)
            got.append(int(packet.payload[:8]))
            if packet.qos:
                client.send(Puback(packet.packet_id))
        settle(world.broker, store)
        packets = list(client.read())
        if not packets and not waiting(world.broker):
            return got


def adopt(world: World, broker: Broker, store: PagingStore) -> None:
    world.broker, world.store = broker, store


def test_memory_is_bounded_and_all_comes_back_in_order(world: World, store: PagingStore) -> None:
    away(world)
    assert set(publish(world, COUNT)) == {0}
    assert waiting(world.broker) == COUNT
    assert world.broker.hub.queue_memory_bytes < 2 * BOUND_BYTES + COUNT
    assert numbers_in(store.directory)
    assert drained(world, store) == list(range(COUNT))
    assert world.broker.hub.queue_memory_bytes == 0
    assert len(numbers_in(store.directory)) <= 1  # the one that is being written


def test_a_restart_finds_all_of_it_once_and_in_order(world: World, store: PagingStore) -> None:
    away(world)
    publish(world, COUNT)
    broker, second = restarted(store, world.now)
    assert waiting(broker) == COUNT
    assert broker.hub.queue_memory_bytes < 2 * BOUND_BYTES + COUNT
    adopt(world, broker, second)
    publish(world, 100, begin=COUNT)
    assert drained(world, second) == list(range(COUNT + 100))


def test_every_record_is_in_one_place_at_every_turn(tmp_path: Path) -> None:
    """A crash after any turn: what was acknowledged to publishers and not by members is there once."""
    for seed in range(6):
        directory = tmp_path / str(seed)
        directory.mkdir()
        store = PagingStore(directory, memory_bytes_max=2_000, file_bytes=3_000)
        rng, world = Random(seed), World(store, inflight_max=3)
        away(world)
        published, done = 0, set[int]()
        member: Client | None = None
        for _ in range(25):
            if rng.random() < 0.4:
                publish(world, 10, begin=published)
                published += 10
            elif member is None:
                member, packets = world.resume("member", properties=LASTING)
                done |= answered(member, packets)
            elif rng.random() < 0.2:
                member.vanish()
                member = None
            else:
                settle(world.broker, store)
                done |= answered(member, member.read())
            kept = [int(message.payload[:8]) for message in kept_messages(store)]
            assert sorted(kept) == [number for number in range(published) if number not in done]
            waiting(world.broker)


def answered(client: Client, packets: list[object]) -> set[int]:
    publishes = [packet for packet in packets if isinstance(packet, Publish)]
    for packet in publishes:
        client.send(Puback(packet.packet_id))
    return {int(packet.payload[:8]) for packet in publishes}


def kept_messages(store: PagingStore) -> list[Message]:
    """What a restart would find: in the log under the group and under the session, and in pages."""
    state = store.state()
    found = list(state.groups.get(CREW, {}).values())
    found += [message for message in state.sessions["member"].deliveries.values() if message is not None]
    for page in state.group_pages.get(CREW, []):
        assert path_of(store.directory, page[3]).stat().st_size >= page[4] + page[5]
        found += [record[4] for record in unfolded(store, [(GROUP_PAGED, *CREW, *page)])]
    return found


class PagedCrew(Crew):
    """A crew in a broker that puts on disk all that it can."""

    def __init__(self, policy: str, store: PagingStore) -> None:
        self.store = store
        super().__init__(policy, store)
        for publisher in self.publishers:
            publisher.read()  # the CONNACK, which was held for the store

    def read_all(self) -> None:
        super().read_all()
        while self.store.read():
            self.world.broker.hub.end_turn()
            super().read_all()


def test_whatever_members_do_each_message_goes_to_one_of_them(tmp_path: Path) -> None:
    for policy in POLICIES:
        directory = tmp_path / policy
        directory.mkdir()
        crew, rng = PagedCrew(policy, PagingStore(directory, file_bytes=2_000)), Random(f"{policy}1")
        for index in range(len(NAMES)):
            crew.come(index, rng.choice((0, 20)), True, rng.random() < 0.5)
            crew.subscribe(index, 2)
        walk(crew, rng, 250)
        crew.finish()
        decoder = Decoder(WALL_OFFSET_S)
        assert GROUP_PAGED in {record[0] for turn in crew.store.turns for record in decoder.decode(turn)}


def test_a_checkpoint_says_the_same_as_all_the_records(world: World, store: PagingStore) -> None:
    away(world)
    publish(world, COUNT)
    store.turns[:] = [Encoder(WALL_OFFSET_S).encode(part) for part in living(world.broker)]
    broker, second = restarted(store, world.now)
    adopt(world, broker, second)
    assert drained(world, second) == list(range(COUNT))


def test_new_messages_do_not_overtake_what_is_on_disk(world: World, store: PagingStore) -> None:
    away(world)
    publish(world, COUNT)
    client, packets = world.resume("member", properties=LASTING)
    publish(world, 50, begin=COUNT)
    assert taken(world, store, client, list(packets)) == list(range(COUNT + 50))


def test_the_bounds_of_a_group_count_what_is_on_disk(world: World, store: PagingStore) -> None:
    away(world)
    world.broker.groups.configure(GroupsConfig(messages_max=1_500, overflow="refuse"))
    reasons = publish(world, COUNT)
    assert reasons == [0] * 1_500 + [0x97] * 500
    assert drained(world, store) == list(range(1_500))


def test_what_is_on_disk_does_not_give_way_to_what_is_new(world: World, store: PagingStore) -> None:
    away(world)
    world.broker.groups.configure(GroupsConfig(messages_max=1_500))
    assert publish(world, COUNT) == [0] * COUNT
    assert drained(world, store) == list(range(1_500))
    assert world.broker.hub.counters.by_name()["dropped_queue_full"] == 500


def test_the_oldest_make_room_on_disk_too(world: World, store: PagingStore) -> None:
    away(world)
    world.broker.groups.configure(GroupsConfig(messages_max=1_500, overflow="drop_oldest"))
    publish(world, COUNT)
    got = drained(world, store)
    assert got == list(range(got[0], COUNT))
    assert len(got) <= 1_500
    assert len(got) + world.broker.hub.counters.by_name()["dropped_queue_full"] == COUNT


def test_what_expires_on_disk_is_not_sent(world: World, store: PagingStore) -> None:
    away(world)
    publish(world, COUNT // 2, expiry_s=10)
    publish(world, COUNT // 2, begin=COUNT // 2)
    world.pass_time(20)
    assert drained(world, store) == list(range(COUNT // 2, COUNT))
    assert world.broker.hub.counters.by_name()["dropped_expired"] == COUNT // 2


def test_when_the_last_member_has_left_its_pages_are_gone(world: World, store: PagingStore) -> None:
    away(world)
    publish(world, COUNT)
    world.connect("member", clean_start=True).subscribe("x")
    assert len(world.broker.groups) == 0
    assert world.broker.hub.queue_memory_bytes == 0
    assert world.broker.hub.counters.by_name()["dropped_group_gone"] == COUNT
    state = store.state()
    assert not state.groups
    assert not any(state.group_pages.values())
    assert len(numbers_in(store.directory)) <= 1


def test_a_group_that_begins_to_last_has_its_pages_on_record(world: World, store: PagingStore) -> None:
    """And one that lasts no longer has not, though it goes on with them."""
    passing = world.connect("passing", properties=Properties(receive_maximum=1))
    passing.subscribe(FILTER, qos=1)
    publish(world, COUNT)
    assert store.state().group_pages == {}
    away(world)
    assert store.state().group_pages[CREW]
    assert sorted(int(message.payload[:8]) for message in kept_messages(store)) == list(range(COUNT))
    world.connect("member", clean_start=True)
    assert CREW not in store.state().group_pages
    assert taken(world, store, passing, list(passing.read())) == list(range(COUNT))


def test_qos_0_does_not_come_again_after_a_restart(world: World, store: PagingStore) -> None:
    away(world)
    publish(world, COUNT, qos=0)
    publish(world, COUNT, begin=COUNT)
    broker, second = restarted(store, world.now)
    adopt(world, broker, second)
    assert drained(world, second) == list(range(COUNT, 2 * COUNT))


def test_qos_0_keeps_its_place(world: World, store: PagingStore) -> None:
    away(world)
    publish(world, COUNT, qos=0)
    publish(world, COUNT, begin=COUNT)
    assert drained(world, store) == list(range(2 * COUNT))


def test_a_missing_page_stops_the_start_unless_it_is_to_be_salvaged(world: World, store: PagingStore) -> None:
    away(world)
    publish(world, COUNT)
    missing = numbers_in(store.directory)[0]
    path_of(store.directory, missing).unlink()
    second = PagingStore(store.directory)
    with pytest.raises(StoreError, match="wait for group crew/jobs/#"):
        list(second.pages.adopt(store.state(), salvage=False))
    state = store.state()
    assert list(second.pages.adopt(state, salvage=True))
    assert 0 < sum(page[6] for page in state.group_pages[CREW]) < COUNT


def test_a_page_that_can_not_be_read_is_counted(world: World, store: PagingStore) -> None:
    away(world)
    publish(world, COUNT)
    path = path_of(store.directory, numbers_in(store.directory)[0])
    path.write_bytes(bytes(path.stat().st_size))
    got = drained(world, store)
    assert got == sorted(set(got))
    assert len(got) + world.broker.hub.counters.by_name()["dropped_damaged"] == COUNT
    assert store.told


def test_pages_in_files_of_which_little_is_needed_are_written_anew(tmp_path: Path) -> None:
    store = PagingStore(tmp_path, memory_bytes_max=0, file_bytes=200_000)
    world = World(store)
    away(world)
    other = world.connect("other", properties=LASTING)
    other.subscribe("bulk", qos=1)
    other.vanish()
    publish(world, 20)
    publisher = world.connect("p")
    for number in range(1_000):
        publisher.send(Publish("bulk", b"%08d" % number + bytes(1_000), 1, packet_id=number + 1))
    client, packets = world.resume("other", properties=LASTING)
    while packets or world.broker.sessions["other"].queued:
        answered(client, packets)
        settle(world.broker, store)
        packets = client.read()
    before = numbers_in(tmp_path)[0]
    list(living(world.broker))
    settle(world.broker, store)
    world.broker.hub.end_turn()
    assert numbers_in(tmp_path)[0] > before
    broker, second = restarted(store, world.now)
    adopt(world, broker, second)
    assert [*drained(world, second)] == list(range(20))
