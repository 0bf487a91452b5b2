DELIVERY_PROPERTY: str

class Message:
    stamp: tuple[int, int] | None
    origin: int
    retained_as: int
    def __init__(
        self,
        topic: bytes,
        payload: bytes,
        qos: int = 0,
        retain: bool = False,
        properties: bytes = b"",
        expires_at_s: float = 0.0,
        publisher: str | None = None,
    ) -> None: ...
    @property
    def topic(self) -> bytes: ...
    @property
    def payload(self) -> bytes: ...
    @property
    def properties(self) -> bytes: ...
    @property
    def qos(self) -> int: ...
    @property
    def retain(self) -> bool: ...
    @property
    def expires_at_s(self) -> float: ...
    @property
    def publisher(self) -> str | None: ...
    def is_expired(self, now: float) -> bool: ...
