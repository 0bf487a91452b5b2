"""Whenever the crash comes: what was kept is there, in order, and nothing else is."""

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from braidmq.messages.message import Message
from braidmq.store import records
from braidmq.store.decoding import Decoder
from braidmq.store.loading import Loader
from braidmq.store.log import HEADER, numbers_in, path_of
from braidmq.store.manifest import Manifest
from braidmq.store.records import Record
from braidmq.store.state import State
from tests.store.keeper import Keeper, image, plain_state

SHARED_MEMORY = Path("/dev/shm")


def quick_directory() -> tempfile.TemporaryDirectory[str]:
    """Where syncing costs nothing, if there is such a place: a thousand stores are opened here."""
    return tempfile.TemporaryDirectory(dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None)


client_ids = st.sampled_from(("a", "b", "c"))
sequences = st.integers(1, 5)
messages = st.builds(
    lambda topic, payload: Message(topic, payload, 1), st.sampled_from((b"t", b"u")),
    st.binary(max_size=40) | st.just(b"TURN\x04\0\0\0" * 3),  # payloads that look like frames too
)
some_records = st.one_of(
    st.tuples(st.just(records.SESSION), client_ids, st.none(), st.just(60.0)),
    st.tuples(st.just(records.SESSION_ENDED), client_ids),
    st.tuples(st.just(records.SUBSCRIBED), client_ids, st.sampled_from(("t", "#")), st.just(1), st.just(0)),
    *[
        st.tuples(
            st.just(records.QUEUED), client_ids, sequences, messages, st.just(1), st.just(False),
            st.just(b""), st.none(),
        )
    ] * 2,
    st.tuples(st.just(records.SENT), client_ids, sequences, st.integers(1, 9)),
    st.tuples(st.just(records.SETTLED), client_ids, sequences),
    st.tuples(st.just(records.RETAINED), st.sampled_from((b"t", b"u")), st.none() | messages),
)
turns = st.lists(st.lists(some_records, min_size=1, max_size=6), min_size=1, max_size=12)


def replayed(played: list[list[Record]]) -> State:
    state = State()
    for turn in played:
        state.apply(turn)
    return state


def living_of(state: State) -> Iterator[list[Record]]:
    """A state as the records of a checkpoint."""
    for client_id, saved in list(state.sessions.items()):
        part: list[Record] = [
            (records.SESSION_ENDED, client_id), (records.SESSION, client_id, saved.owner, saved.expiry_s)
        ]
        part += [(records.SUBSCRIBED, client_id, name, *rest) for name, rest in saved.subscriptions.items()]
        part += [
            (records.QUEUED, client_id, sequence, message, *saved.terms_of(sequence))
            for sequence, message in saved.deliveries.items()
        ]
        part += [(records.SENT, client_id, *pair) for pair in saved.sent.items()]
        yield part
    for topic, message in list(state.retained.items()):
        yield [(records.RETAINED, topic, message)]


def found_in(directory: Path) -> object:
    keeper = Keeper(directory)
    keeper.close()
    return plain_state(keeper.state)


def read_from(directory: Path) -> object:
    """The same, without a store that goes on from there: there are thousands of them."""
    loader = Loader(directory, Decoder(0.0), Manifest(directory), salvage=False)
    return plain_state(loader.load())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(turns, st.integers(100, 2000), st.data())
def test_a_crash_while_writing_leaves_what_was_kept(
    played: list[list[Record]], file_bytes: int, data: st.DataObject
) -> None:
    """Small files, so that new ones begin and checkpoints run in between."""
    with quick_directory() as name:
        root = Path(name)
        keeper = Keeper(root / "data", file_bytes=file_bytes)
        live = State()
        keeper.store.checkpoint_from(lambda: living_of(live))
        crash_after = data.draw(st.integers(0, len(played) - 1))
        share = data.draw(st.floats(0, 1))
        for turn in played[:crash_after]:
            live.apply(turn)
            keeper.keep(turn)
        keeper.store.flush()
        before = image(root / "data", root / "before")
        live.apply(played[crash_after])
        keeper.keep(played[crash_after])
        keeper.store.flush()
        after = image(root / "data", root / "after")
        keeper.close()
        expected = [plain_state(replayed(played[:end])) for end in (crash_after, crash_after + 1)]
        assert found_in(before) == expected[0]
        cut_newest(after, before, share)
        assert found_in(after) in expected


class Crashes:
    """Takes an image of a directory with a share of every write, with all of it, and around every removal."""

    def __init__(self, directory: Path, images: Path, share: float) -> None:
        self.share = share
        self.directory = directory
        self.images = images
        self.taken: list[tuple[Path, int]] = []  # with how many turns had been kept for sure
        self.kept = 0
        self.failures: list[Exception] = []  # of taking images: the store would take them for its disk's
        self._is_rest = False  # of a write of which a share was written
        self._lock = threading.RLock()
        self._pwrite, self._unlink = os.pwrite, Path.unlink

    def take(self) -> None:
        with self._lock:
            target = self.images / str(len(self.taken))
            self.taken.append((target, self.kept))
            try:
                image(self.directory, target)
            except Exception as error:
                self.failures.append(error)

    def pwrite(self, descriptor: int, data: memoryview, offset: int) -> int:
        with self._lock:
            size = len(data) if self._is_rest else max(1, round(len(data) * self.share))
            self._is_rest = size < len(data)
            written = self._pwrite(descriptor, data[:size], offset)
            self.take()
            return written

    def unlink(self, path: Path, missing_ok: bool = False) -> None:
        with self._lock:
            self.take()
            self._unlink(path, missing_ok)
            self.take()

    @contextmanager
    def watching(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "pwrite", self.pwrite)
            patch.setattr(Path, "unlink", lambda path, missing_ok=False: self.unlink(path, missing_ok))
            yield


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(turns, st.integers(100, 600), st.floats(0, 1))
def test_a_crash_at_any_step_of_writing_checkpointing_and_removing(
    played: list[list[Record]], file_bytes: int, share: float
) -> None:
    with quick_directory() as name:
        root = Path(name)
        keeper = Keeper(root / "data", file_bytes=file_bytes)
        keeper.store.flush()
        live = State()
        keeper.store.checkpoint_from(lambda: living_of(live))
        crashes = Crashes(root / "data", root, share)
        with crashes.watching():
            for turn in played:
                live.apply(turn)
                keeper.keep(turn)
                keeper.store.flush()
                crashes.kept += 1
        keeper.close()
        assert not crashes.failures
        expected = [plain_state(replayed(played[:end])) for end in range(len(played) + 1)]
        for taken, kept in crashes.taken:
            assert read_from(taken) in expected[kept : kept + 2]
            shutil.rmtree(taken)


def cut_newest(after: Path, before: Path, share: float) -> None:
    """Take back a share of what was written last, as if the crash had come in the middle of it."""
    newest = path_of(after, numbers_in(after)[-1])
    earlier = before / newest.name
    least = earlier.stat().st_size if earlier.exists() else HEADER.size  # the manifest names it by then
    if numbers_in(after)[:1] == numbers_in(before)[:1]:  # no checkpoint has removed what this one needs
        written = newest.stat().st_size - least
        os.truncate(newest, least + round(written * share))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(turns, st.data())
def test_a_log_cut_at_any_byte_is_a_beginning_of_what_was_written(
    played: list[list[Record]], data: st.DataObject
) -> None:
    with quick_directory() as name:
        directory = Path(name)
        keeper = Keeper(directory)
        sizes = []
        for turn in played:
            keeper.keep(turn)
            sizes.append(path_of(directory, 1).stat().st_size)
        crashed = image(directory, directory / "crashed")
        keeper.close()
        cut = data.draw(st.integers(HEADER.size, sizes[-1]))
        os.truncate(path_of(crashed, 1), cut)
        whole = sum(size <= cut for size in sizes)
        assert found_in(crashed) == plain_state(replayed(played[:whole]))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(turns, turns, st.data())
def test_after_a_torn_write_the_log_goes_on(
    first: list[list[Record]], second: list[list[Record]], data: st.DataObject
) -> None:
    with quick_directory() as name:
        directory = Path(name)
        keeper = Keeper(directory)
        for turn in first:
            keeper.keep(turn)
        keeper.close()
        with path_of(directory, 1).open("ab") as newest:
            newest.write(data.draw(st.binary(min_size=1, max_size=30)))
        keeper = Keeper(directory)
        assert plain_state(keeper.state) == plain_state(replayed(first))
        for turn in second:
            keeper.keep(turn)
        keeper.close()
        assert found_in(directory) == plain_state(replayed(first + second))
