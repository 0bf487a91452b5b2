from typing import Any, Final

from braidmq.broker.sharing.member import Delivery
from braidmq.broker.sharing.queue import Entry, GroupPage

DROP_EXPIRED: Final[str]
DROP_QUEUE_FULL: Final[str]
DROP_NOBODY_ONLINE: Final[str]
DROP_REJECTED: Final[str]
DROP_NOT_SENDABLE: Final[str]
DROP_SESSION_ENDED: Final[str]
DROP_GROUP_GONE: Final[str]
DROP_NO_READER: Final[str]
DROP_ANSWERED: Final[str]
DROP_REASONS: Final[tuple[str, ...]]

class KeepMessage:
    @property
    def message(self) -> Any: ...
    @property
    def entry(self) -> Entry: ...

class DropMessage:
    @property
    def message(self) -> Any: ...
    @property
    def entry(self) -> Entry: ...
    @property
    def reason(self) -> str: ...

class DropPage:
    @property
    def page(self) -> GroupPage: ...
    @property
    def reason(self) -> str: ...

class WithdrawMessage:
    @property
    def delivery(self) -> Delivery: ...

Effect = Delivery | KeepMessage | DropMessage | DropPage | WithdrawMessage
