"""Who a message or a batch turns to when the application acknowledges it: a shell, or the session itself."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from braidmq.client._batch import Message, MessageBatch


class Acker(Protocol):
    def acknowledge(self, delivery: "Message | MessageBatch", reason: int = 0) -> None: ...
