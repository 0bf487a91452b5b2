"""Who a node is, and whom it remembers, over starts and accidents."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from braidmq.errors import StoreError
from braidmq.net.identity import Memory, start_as


def at_once(action: Callable[[], None]) -> None:
    action()


def test_a_directory_keeps_the_id_and_counts_the_starts(tmp_path: Path) -> None:
    first, second = start_as(tmp_path), start_as(tmp_path)
    assert (first.boot, second.boot) == (1, 2)
    assert first.node == second.node
    assert 0 < first.node < 2**64


def test_the_start_is_written_down_before_it_is_used(tmp_path: Path) -> None:
    started = start_as(tmp_path)
    assert f'{{"node":"{started.node:016x}","boot":1}}' == (tmp_path / "node.json").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["node.json"]


def test_in_memory_every_start_is_a_new_node() -> None:
    first, second = start_as(None), start_as(None)
    assert first.node != second.node


@pytest.mark.parametrize(
    "text", ["", "{", '{"node":"12","boot":1}', '{"node":"zzzzzzzzzzzzzzzz","boot":1}', '{"node":7,"boot":1}']
)
def test_a_damaged_identity_is_told_and_not_replaced(tmp_path: Path, text: str) -> None:
    (tmp_path / "node.json").write_text(text)
    with pytest.raises(StoreError, match=r"node\.json: can't be read .* remove it to be a new node"):
        start_as(tmp_path)
    assert (tmp_path / "node.json").read_text() == text


def test_who_was_remembered_is_known_at_the_next_start(tmp_path: Path) -> None:
    memory: Memory[list[int]] = Memory(tmp_path, list[int], at_once)
    assert memory.load([]) == []
    memory.remember([2**64 - 1, 7])
    assert Memory[list[int]](tmp_path, list[int], at_once).load([]) == [2**64 - 1, 7]


def test_only_the_latest_is_written(tmp_path: Path) -> None:
    waiting: list[Callable[[], None]] = []
    memory: Memory[list[int]] = Memory(tmp_path, list[int], waiting.append)
    memory.remember([1])
    memory.remember([2])
    assert len(waiting) == 1
    waiting.pop()()
    assert memory.load([]) == [2]
    memory.remember([3])
    memory.write()  # the node stops
    assert memory.load([]) == [3]


def test_what_changes_while_it_is_written_is_written_too(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        written: list[Future[None]] = []
        memory: Memory[list[int]] = Memory(
            tmp_path, list[int], lambda write: written.append(threads.submit(write))
        )
        for number in range(200):
            memory.remember([number])
    assert [future.exception() for future in written if future.exception()] == []
    assert memory.load([]) == [199]


def test_damaged_members_are_told(tmp_path: Path) -> None:
    (tmp_path / "members.json").write_text("[[")
    with pytest.raises(StoreError, match=r"members\.json: can't be read"):
        Memory[list[int]](tmp_path, list[int], at_once).load([])


def test_a_node_in_memory_writes_nothing() -> None:
    memory: Memory[list[int]] = Memory(None, list[int], at_once)
    memory.remember([1])
    assert memory.load([]) == []


def test_a_directory_that_cant_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"node\.json: can't be written"):
        start_as(tmp_path / "absent")
