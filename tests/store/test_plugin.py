"""A store as a plug-in: examples/store_plugin under a real broker that is killed, and some that are wrong."""

import os
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from braidmq.config import load_config
from braidmq.errors import ConfigError, StoreError
from braidmq.messages.message import Message
from braidmq.net.plugins import store_maker
from braidmq.store import ENTRY_POINTS, Surroundings
from braidmq.store.records import RETAINED, SESSION, Record
from tests.durability.clients import Publisher, Subscriber, run
from tests.durability.test_kill_loop import Node, numbers
from tests.support.plugins import install

EXAMPLE = Path(__file__).parents[2] / "examples" / "store_plugin"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    [entry] = project["entry-points"][ENTRY_POINTS].items()
    where = tmp_path / "packages"
    where.mkdir()
    install(where, ENTRY_POINTS, "sqlite_store", " = ".join(entry), (EXAMPLE / "sqlite_store.py").read_text())
    return where


@pytest.mark.timeout(120)
def test_the_example_keeps_what_was_acknowledged(
    tmp_path: Path, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")]))
    config = tmp_path / "broker.toml"
    config.write_text('[store]\nengine = "sqlite"\n')
    node = Node(tmp_path / "data", "--config", str(config))
    publisher, subscriber = Publisher("publisher", 2, "load/2"), Subscriber("subscriber", "load/#")
    try:
        subscriber.connect(node.port)
        assert run([subscriber], lambda: subscriber.granted > 0)
        subscriber.close()
        publisher.connect(node.port)
        assert run([publisher], lambda: len(publisher.acknowledged) >= 200)
        node.restart()
        assert (tmp_path / "data" / "turns.db").exists()
        publisher.is_paused = True
        for wire in (publisher, subscriber):
            wire.connect(node.port)
        assert run([publisher, subscriber], lambda: not publisher.open)
        assert run([subscriber], lambda: len(subscriber.once) >= len(publisher.acknowledged))
        assert numbers(subscriber.once, "load/2") == publisher.acknowledged
    finally:
        for wire in (publisher, subscriber):
            wire.close()
        node.kill()


def surroundings(directory: Path) -> Surroundings:
    def run_at_once(report: Callable[[], None]) -> None:
        report()

    return Surroundings(directory, "process", False, 1 << 20, 0.0, run_at_once, lambda sentence: None)


def test_the_example_throws_away_what_is_no_longer_needed(
    tmp_path: Path, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(installed)
    make = store_maker("sqlite")
    monkeypatch.setattr("sqlite_store.GROWTH_BYTES_MIN", 10_000)
    store = make(surroundings(tmp_path))
    store.load()
    with pytest.raises(StoreError, match=r"turns\.db"):
        make(surroundings(tmp_path))  # while another has it
    living: list[Record] = [(SESSION, "kept", None, 60.0)]
    store.checkpoint_from(lambda: iter([living]))
    assert store.journal is not None
    for _ in range(30):
        store.commit(store.journal.encode([(RETAINED, b"t", Message(b"t", bytes(1000)))]), lambda: None)
    store.close()
    again = make(surroundings(tmp_path))
    state = again.load()
    again.close()
    assert state.sessions.keys() == {"kept"}
    assert (tmp_path / "turns.db").stat().st_size < 30_000


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("", r"\[store\] engine: 'odd' can't be loaded: AttributeError"),
        ("def make(around): raise ValueError('no')", r"\[store\] engine: 'odd' can't be made: ValueError"),
    ],
)
def test_one_that_can_not_be_had_is_named(
    code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, ENTRY_POINTS, "odd_store", "odd = odd_store:make", code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "odd_store", raising=False)
    with pytest.raises(ConfigError, match=message):
        store_maker("odd")(surroundings(tmp_path))
    with pytest.raises(ConfigError, match="0 packages offer 'absent'"):
        store_maker("absent")


def test_an_engine_in_memory_is_a_contradiction(tmp_path: Path) -> None:
    config = tmp_path / "broker.toml"
    config.write_text('[store]\nengine = "sqlite"\nin_memory = true\n')
    with pytest.raises(ConfigError, match="in_memory and engine exclude each other"):
        load_config(config, {}, {})
