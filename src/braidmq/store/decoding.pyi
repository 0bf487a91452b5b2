from collections.abc import Callable
from typing import Any

from braidmq.store.records import Record

class Decoder:
    def __init__(
        self,
        make_message: Callable[..., Any],
        make_will: Callable[..., Any],
        wall_offset_s: float,
        lenient: bool = False,
    ) -> None: ...
    find_elsewhere: Callable[[int, int, int], Any]
    def body_of(self, number: int) -> Any: ...
    def begin_file(self) -> None: ...
    def decode(self, payload: bytes | memoryview) -> list[Record]: ...
