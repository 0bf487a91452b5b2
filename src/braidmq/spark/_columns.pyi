from typing import final

from typing_extensions import Buffer as BufferProtocol

from braidmq.client._batch import MessageBatch

@final
class Buffer(BufferProtocol):
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

Identity = tuple[Buffer, Buffer, Buffer, Buffer]

def identify(batch: MessageBatch) -> Identity: ...

@final
class ColumnBuilder:
    @property
    def rows(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    def add(
        self,
        batch: MessageBatch,
        received_at_us: int,
        identity: Identity,
        repeats: BufferProtocol | None = None,
    ) -> None: ...
    def buffers(self) -> dict[str, tuple[Buffer | None, ...]]: ...
