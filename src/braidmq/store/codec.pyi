from collections.abc import Callable
from typing import Any

from braidmq.store.records import Record

KINDS: dict[str, int]

class Encoder:
    def __init__(self, wall_offset_s: float) -> None: ...
    def begin_file(self) -> None: ...
    def encode(self, records: list[Record], sharing: bool = False) -> bytes: ...

class Decoder:
    def __init__(
        self,
        make_message: Callable[..., Any],
        make_will: Callable[..., Any],
        wall_offset_s: float,
        lenient: bool = False,
    ) -> None: ...
    def begin_file(self) -> None: ...
    def decode(self, payload: bytes | memoryview) -> list[Record]: ...
