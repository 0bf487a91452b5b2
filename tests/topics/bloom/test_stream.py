"""Owner and receiver: bits equal to a rebuild after every batch, whatever the link loses or turns around."""

import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braidmq.topics import matches
from braidmq.topics.bloom import (
    InterestError,
    InterestIndex,
    LocalInterest,
    Outcome,
    PrefixFilter,
    RemoteInterest,
    local,
)
from braidmq.topics.bloom.local import BITS_PER_KEY
from braidmq.topics.bloom.sizing import blocks_for
from tests.topics.bloom.strategies import random_filter, random_topic

SEED = 42
FAULTS = ["fine", "lost", "late", "twice", "damaged"]


def rebuilt(held: list[bytes], like: PrefixFilter) -> PrefixFilter:
    filter = PrefixFilter(like.blocks, like.hashes, like.seed)
    for each in held:
        filter.add(each)
    return filter


def flushed(owner: LocalInterest) -> bytes:
    message = owner.flush()
    assert message is not None
    return message


class Link:
    """An owner, two kinds of receivers, and a link between them that may lose, repeat, damage and reorder."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.owner = LocalInterest(seed=SEED)
        self.held: list[bytes] = []
        self.remote = RemoteInterest()
        self.index = InterestIndex(seed=SEED)
        self.index.join("elsewhere")
        self.delayed: bytes | None = None
        self.snapshots = 0

    def change(self, count: int, growing: float) -> None:
        for _ in range(count):
            if self.held and self.rng.random() > growing:
                position = self.rng.randrange(len(self.held))
                self.held[position], self.held[-1] = self.held[-1], self.held[position]
                self.owner.unsubscribe(self.held.pop())
            else:
                self.held.append(self.fresh_filter())
                self.owner.subscribe(self.held[-1])

    def fresh_filter(self) -> bytes:
        if self.rng.random() < 0.5:
            return random_filter(self.rng)
        return b"dev/%d/+" % self.rng.randrange(2_000)

    def send(self, fault: str) -> bool:
        """Whether the receivers have seen this message, or a sign that they missed one."""
        message = self.owner.flush()
        if message is None or fault == "lost":
            return False
        if fault == "late" and self.delayed is None:
            self.delayed = message
            return False
        if fault == "damaged":
            self.delayed = None  # what is sent before damaged bytes can't arrive after them
            message = message[:-6] + bytes([message[-6] ^ 1]) + message[-5:]
        self.deliver(message)
        if fault == "twice":
            self.deliver(message)
        if self.delayed is not None:
            late, self.delayed = self.delayed, None
            self.deliver(late)
        return True

    def deliver(self, message: bytes) -> None:
        for receive in (self.remote.receive, lambda message: self.index.receive("owner", message)):
            with suppress(InterestError):
                receive(message)

    def heal(self) -> None:
        """Compare positions, as peers do now and then, and fetch snapshots where they are needed."""
        position = self.owner.position
        for compare, receive in (
            (self.remote.compare, self.remote.receive),
            (lambda p: self.index.compare("owner", p), lambda m: self.index.receive("owner", m)),
        ):
            if compare(position) is Outcome.SNAPSHOT_NEEDED:
                self.snapshots += 1
                assert receive(self.owner.snapshot()) is Outcome.APPLIED
        assert self.remote.in_step
        assert self.index.in_step("owner")

    def check(self) -> None:
        self.owner.check()
        expected = rebuilt(self.held, self.owner.filter)
        assert self.remote.filter is not None
        for bits in (self.owner.filter.bits, self.remote.filter.bits, self.index.bits("owner")):
            assert bits == expected.bits
        assert self.remote.filter.known_false == self.owner.filter.known_false
        for mask in ("plus_depths", "hash_depths", "end_depths"):
            assert getattr(self.remote.filter, mask) == getattr(expected, mask)

    def check_no_message_is_lost(self) -> None:
        """Also out of step: whatever matches here must be found there."""
        for _ in range(5):
            topic = random_topic(self.rng)
            if any(matches(filter, topic) for filter in self.held[-300:]):
                assert self.remote.may_match(topic)
                assert "owner" in self.index.interested(topic)


def test_bits_equal_a_rebuild_after_every_batch() -> None:
    link, sizes = Link(1), set()
    for step in range(150):
        link.change(link.rng.choice([1, 3, 10, 60]), 0.8 if step % 75 < 45 else 0.15)
        link.send("fine")
        link.index.advance(64)
        sizes.add(link.owner.filter.blocks)
        assert link.remote.in_step
        link.check()
    assert len(sizes) >= 4
    assert link.snapshots == 0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.sampled_from(FAULTS), max_size=25))
def test_a_bad_link_is_healed_by_snapshots(seed: int, faults: list[str]) -> None:
    link = Link(seed)
    link.index.join("owner")
    for fault in faults:
        link.change(link.rng.choice([1, 4, 40]), link.rng.choice([0.9, 0.3]))
        if link.send(fault):
            link.check_no_message_is_lost()
        if link.rng.random() < 0.5:
            link.index.advance(64)
    link.delayed = None
    link.owner.flush()
    link.heal()
    link.check()


def test_a_gap_is_noticed_at_once_and_answered_with_maybe() -> None:
    owner, remote = LocalInterest(seed=SEED), RemoteInterest()
    assert remote.may_match(b"anything")
    for index in range(100):
        owner.subscribe(b"a/%d" % index)
    remote.receive(flushed(owner))
    assert not remote.may_match(b"b/1")
    owner.subscribe(b"b/1")
    owner.flush()
    owner.subscribe(b"b/2")
    assert remote.receive(flushed(owner)) is Outcome.SNAPSHOT_NEEDED
    assert remote.may_match(b"b/1")
    assert remote.may_match(b"c")
    assert remote.receive(owner.snapshot()) is Outcome.APPLIED
    assert remote.may_match(b"b/1")
    assert not remote.may_match(b"c")


def test_the_loss_of_the_last_message_is_noticed_by_its_position() -> None:
    owner, remote = LocalInterest(seed=SEED), RemoteInterest()
    remote.receive(flushed(owner))
    owner.subscribe(b"x")
    owner.flush()
    assert remote.in_step
    assert remote.compare(owner.position) is Outcome.SNAPSHOT_NEEDED
    assert remote.may_match(b"y")


def test_old_and_repeated_messages_change_nothing() -> None:
    owner, remote = LocalInterest(seed=SEED, expected_keys=1000), RemoteInterest()
    first = flushed(owner)
    owner.subscribe(b"a")
    second = flushed(owner)
    for message in (first, second):
        assert remote.receive(message) is Outcome.APPLIED
    for message in (first, second, first):
        assert remote.receive(message) is Outcome.STALE
    assert remote.in_step
    assert remote.may_match(b"a")


def test_a_turned_around_delta_still_waits_for_a_snapshot() -> None:
    owner, remote = LocalInterest(seed=SEED, expected_keys=1000), RemoteInterest()
    remote.receive(flushed(owner))
    messages = []
    for filter in (b"a", b"b", b"c"):
        owner.subscribe(filter)
        messages.append(flushed(owner))
    assert remote.receive(messages[1]) is Outcome.SNAPSHOT_NEEDED
    assert remote.receive(messages[0]) is Outcome.APPLIED
    assert not remote.in_step
    assert remote.receive(messages[1]) is Outcome.APPLIED
    assert remote.in_step
    assert remote.receive(messages[2]) is Outcome.APPLIED


def test_adding_and_removing_restores_the_identical_bits() -> None:
    owner = LocalInterest(seed=SEED, expected_keys=2000)
    for index in range(200):
        owner.subscribe(b"a/%d/x" % index)
    owner.flush()
    before = owner.filter.bits
    for index in range(200):
        owner.subscribe(b"b/%d/+" % index)
    owner.flush()
    assert owner.filter.bits != before
    for index in range(200):
        owner.unsubscribe(b"b/%d/+" % index)
    owner.flush()
    assert owner.filter.bits == before


def test_what_comes_and_goes_within_a_batch_is_never_told() -> None:
    owner = LocalInterest(seed=SEED)
    owner.flush()
    owner.subscribe(b"a/b")
    owner.unsubscribe(b"a/b")
    assert not owner.dirty
    assert owner.flush() is None


def test_one_more_subscriber_of_a_filter_is_not_told() -> None:
    owner = LocalInterest(seed=SEED)
    owner.subscribe(b"a/b")
    owner.flush()
    owner.subscribe(b"a/b")
    assert owner.flush() is None
    owner.unsubscribe(b"a/b")
    assert owner.flush() is None
    assert owner.filter.may_match(b"a/b")
    with pytest.raises(KeyError):
        owner.unsubscribe(b"a/c")


def test_resizing_goes_on_while_subscriptions_come() -> None:
    owner, remote = LocalInterest(seed=SEED), RemoteInterest()
    for index in range(40_000):
        owner.subscribe(b"%d" % index)
    remote.receive(flushed(owner))
    epoch, blocks = owner.position[0], owner.filter.blocks
    index = 40_000
    while not owner.resizing:
        owner.subscribe(b"%d" % index)
        index += 1
        remote.receive(flushed(owner))
    steps = 0
    while owner.resizing:
        owner.subscribe(b"during/%d" % steps)
        owner.unsubscribe(b"%d" % steps)
        steps += 1
        remote.receive(flushed(owner))
        assert remote.in_step
        assert remote.may_match(b"during/%d" % (steps - 1))
    assert steps > 3
    assert owner.position[0] == epoch + 1
    assert owner.filter.blocks == 2 * blocks
    owner.check()
    assert remote.filter is not None
    assert remote.filter.bits == owner.filter.bits


def test_resizing_in_idle_moments() -> None:
    owner = LocalInterest(seed=SEED)
    for index in range(30):
        owner.subscribe(b"%d" % index)
        owner.flush()
    while owner.advance(5):
        pass
    assert not owner.resizing
    assert owner.filter.blocks >= blocks_for(30, BITS_PER_KEY)
    if owner.dirty:
        owner.flush()
    owner.check()


def test_shrinking_leaves_room_to_grow() -> None:
    owner = LocalInterest(seed=SEED)
    filters = [b"%d" % index for index in range(5_000)]
    for filter in filters:
        owner.subscribe(filter)
    owner.flush()
    large = owner.filter.blocks
    while owner.filter.blocks == large:
        for filter in filters[-50:]:
            owner.unsubscribe(filter)
        del filters[-50:]
        owner.flush()
    assert owner.filter.blocks == large // 2
    assert owner.keys * BITS_PER_KEY < owner.filter.blocks * 512 * 0.55
    owner.check()


def test_a_known_false_key_that_becomes_true_is_taken_off_the_list() -> None:
    """Few bits a key make accidents common; each of them that is subscribed to must be found afterwards."""
    owner = LocalInterest(seed=SEED, bits_per_key=5, hashes=3)
    remote = RemoteInterest()
    for index in range(600):
        owner.subscribe(b"site%d/room/%d" % (index % 40, index))
    remote.receive(flushed(owner))
    named = 0
    for site in range(40):
        for filter in (b"site%d/#" % site, b"site%d/+" % site, b"site%d" % site, b"site%d/room/#" % site):
            listed = set(owner.filter.known_false)
            owner.subscribe(filter)
            message = owner.flush()
            if message is not None:
                remote.receive(message)
            named += bool(listed - set(owner.filter.known_false))
            assert remote.may_match(filter.replace(b"#", b"any/thing").replace(b"+", b"any"))
            owner.check()
    assert named > 0


def test_a_full_known_false_list_forgets_what_is_no_longer_false(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "KNOWN_FALSE_MAX", 6)
    owner, remote = LocalInterest(seed=SEED, bits_per_key=5, hashes=3, expected_keys=900), RemoteInterest()
    seen: set[int] = set()
    for number in range(1_500):
        owner.subscribe(b"a%d/b/c" % number)
        if number >= 200:
            owner.unsubscribe(b"a%d/b/c" % (number - 200))
        remote.receive(flushed(owner))
        assert len(owner.filter.known_false) <= 6
        seen.update(owner.filter.known_false)
    owner.check()
    assert len(seen) > 30
    assert remote.filter is not None
    assert remote.filter.known_false == owner.filter.known_false


def test_sequence_numbers_run_over_into_a_new_epoch() -> None:
    owner, remote = LocalInterest(seed=SEED, epoch=7), RemoteInterest()
    remote.receive(flushed(owner))
    owner._sequence = 0xFFFF_FFFF
    owner.subscribe(b"a")
    assert remote.receive(flushed(owner)) is Outcome.APPLIED
    assert owner.position == (8, 0)
    assert remote.in_step
