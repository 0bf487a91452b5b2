from collections.abc import Callable
from typing import Any

from braidmq.broker.counters import Counters
from braidmq.broker.paging import Pager
from braidmq.broker.promises import Promises
from braidmq.broker.sharing.agenda import Agenda
from braidmq.broker.watching import Watching
from braidmq.limits import Limits
from braidmq.messages.message import Message
from braidmq.store import Store
from braidmq.timing.stopwatch import Stopwatch

class Hub:
    agenda: Agenda | None
    awaits_peers: bool
    at_turn_end: Callable[[], object] | None
    pager: Pager | None
    queue_memory_bytes_max: int
    resting: int
    replaying: int
    def __init__(self, limits: Limits, store: Store, stopwatch: Stopwatch | None = None) -> None: ...
    @property
    def now(self) -> float: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def dirty(self) -> list[Any]: ...
    @property
    def counters(self) -> Counters: ...
    @property
    def promises(self) -> Promises: ...
    @property
    def watching(self) -> Watching: ...
    @property
    def stopwatch(self) -> Stopwatch: ...
    @property
    def queue_memory_bytes(self) -> int: ...
    def begin(self, now: float) -> None: ...
    def end_turn(self) -> None: ...
    def count_drop(self, reason: str, message: Message, client_id: str | None = None) -> None: ...
