from collections.abc import Callable
from typing import Any

from braidmq.broker.audience import Audience
from braidmq.broker.paging import Pager
from braidmq.broker.sharing.agenda import Agenda
from braidmq.limits import Limits
from braidmq.messages.message import Message
from braidmq.store import Store
from braidmq.store.encoding import Encoder
from braidmq.timing.stopwatch import Stopwatch

DROP_NAMES: tuple[str, ...]

class Hub:
    now: float
    agenda: Agenda | None
    audience: Audience | None
    message_audience: Audience | None
    watched: int
    resting: int
    def __init__(self, limits: Limits, store: Store, stopwatch: Stopwatch | None = None) -> None: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def dirty(self) -> list[Any]: ...
    @property
    def journal(self) -> Encoder: ...
    @property
    def holding(self) -> bool: ...
    @property
    def store(self) -> Store: ...
    pager: Pager | None
    queue_memory_bytes_max: int
    @property
    def queue_memory_bytes(self) -> int: ...
    def end_turn(self) -> None: ...
    def hand_over(self) -> None: ...
    def when_kept(self, waiter: Callable[[], object]) -> None: ...
    def count_drop(self, reason: str, message: Message, client_id: str | None = None) -> None: ...
    def counters(self) -> dict[str, int]: ...
