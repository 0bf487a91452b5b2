"""A store may report before the node is built: after a salvage it writes the whole state at once."""

import asyncio
import os
import signal
from collections.abc import Callable

import pytest

from braidmq import node
from braidmq.config import Config, Listener
from braidmq.store import MemoryStore
from braidmq.store.state import State

Post = Callable[[Callable[[], None]], object]


class EarlyStore(MemoryStore):
    """Reports while it is loaded."""

    def __init__(self, post: Post) -> None:
        self.post = post
        self.reports = 0

    def load(self) -> State:
        self.post(self._report)
        return super().load()

    def _report(self) -> None:
        self.reports += 1


def test_a_report_that_comes_before_the_node_is_built_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    stores: list[EarlyStore] = []

    def open_store(config: object, post: Post) -> EarlyStore:
        stores.append(EarlyStore(post))
        return stores[0]

    def stop(addresses: list[str]) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(node, "open_store", open_store)
    config = Config(listeners=(Listener(host="127.0.0.1", port=0),))
    asyncio.run(node._serve(config, stop, lambda: config, None))
    assert stores[0].reports == 1
