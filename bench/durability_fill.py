"""Fills a data directory as a broker would have left it, with the broker's own core and store.

    python -m bench.durability_fill DIRECTORY SESSIONS MESSAGES [PAYLOAD_BYTES [QUEUE_MEMORY_BYTES_MAX]]

Sessions are away; each gets its messages one after the other, as a fleet of devices would be sent them.
Prints by how many bytes the process has grown with the messages.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from bench.worker import process_use
from braidmq.broker.access import BuiltInGate
from braidmq.broker.broker import Broker
from braidmq.broker.restoring import living, restore
from braidmq.limits import Limits
from braidmq.messages.message import Message
from braidmq.store.durable import QUEUE_MEMORY_BYTES_MAX, DurableStore
from braidmq.store.records import AWAY, SESSION, SUBSCRIBED, Record
from braidmq.store.state import State

TURN_MESSAGES = 1000
LIMITS = Limits(queue_messages_max=10_000_000, queue_bytes_max=4_000_000_000, sessions_max=1_000_000)


def fill(
    directory: Path,
    sessions: int,
    messages: int,
    payload_bytes: int = 100,
    queue_memory_bytes_max: int = QUEUE_MEMORY_BYTES_MAX,
) -> int:
    """Queue the messages; by how many bytes this process has grown after the sessions were there."""
    reports: SimpleQueue[Callable[[], None]] = SimpleQueue()
    store = DurableStore(
        directory, post=reports.put, wall_offset_s=time.time() - time.monotonic(),
        queue_memory_bytes_max=queue_memory_bytes_max,
    )
    store.load()
    broker = Broker(LIMITS, store, BuiltInGate(), lambda: "made")
    make_sessions(broker, sessions)
    store.checkpoint_from(partial(living, broker))
    await_kept(broker, reports)  # without any messages, too
    before = process_use(os.getpid())["resident_bytes"]
    for first in range(0, messages, TURN_MESSAGES):
        for number in range(first, min(messages, first + TURN_MESSAGES)):
            topic = b"fleet/%d/data" % (number * sessions // messages)
            payload = os.urandom(payload_bytes // 2) * 2
            broker.publishing.publish(Message(topic, payload, 1))
        await_kept(broker, reports)  # as publishers do
    grown = process_use(os.getpid())["resident_bytes"] - before
    store.close()
    return int(grown)


def make_sessions(broker: Broker, count: int) -> None:
    """Sessions that have subscribed and gone."""
    now = time.monotonic()
    state = State()
    for number in range(count):
        name = f"client-{number}"
        records: list[Record] = [
            (SESSION, name, None, float("inf")),
            (SUBSCRIBED, name, f"fleet/{number}/+", 1, 0),
            (AWAY, name, now),
        ]
        state.apply(records)
        for record in records:
            broker.hub.promises.journal.append(record)
    restore(broker, state, now)


def await_kept(broker: Broker, reports: SimpleQueue[Callable[[], None]]) -> None:
    """End the turn and wait until all is kept."""
    done = threading.Event()
    broker.hub.promises.when_kept(done.set)
    while not done.is_set():
        reports.get()()


if __name__ == "__main__":
    print(fill(Path(sys.argv[1]), *map(int, sys.argv[2:])))
