from typing import final

from braidmq.client._batch import Inbox
from braidmq.client._ledger import AckLedger

@final
class Scanner:
    fast: bool
    dropping_qos0: bool
    dropped: int
    def __init__(self, inbox: Inbox, ledger: AckLedger, version: int, packet_bytes_max: int) -> None: ...
    def feed(self, data: bytes | bytearray | memoryview) -> None: ...
    def reset(self) -> None: ...
    def next_frame(self) -> tuple[int, bytes] | None: ...
