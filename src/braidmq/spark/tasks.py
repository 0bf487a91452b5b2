"""What driver and receivers tell each other, as lines of JSON: the task goes in, reports come out."""

import msgspec

from braidmq.spark.options import BrokerAddress, Connection


class ReceiverTask(msgspec.Struct, frozen=True, kw_only=True):
    """All that a receiver process needs to know."""

    subscriber: str
    broker: BrokerAddress
    connection: Connection
    subscriptions: tuple[str, ...]
    stale_subscriptions: tuple[str, ...] = ()  # of an earlier run; the session still has them
    qos: int
    session_expiry_s: int
    receive_maximum: int
    wal_location: str
    wal_bytes_max: int
    segment_delay_s: float
    dedup: str
    drain_quiet_s: float | None = None  # set: leave the group, store what is left, end the session

    @property
    def is_draining(self) -> bool:
        return self.drain_quiet_s is not None


class Report(msgspec.Struct, kw_only=True):
    """The state of a receiver; counters count from the start of its process."""

    subscriber: str
    # Then connecting, receiving, full; at the end drained, stopped, failed, or taken by another client.
    state: str = "starting"
    error: str = ""  # why it does not receive
    draining: bool = False  # it is no longer wanted, and only fetches what is left
    refused: bool = False  # the broker doesn't let it in, and will not by itself
    connected_since: float = 0.0  # seconds since 1970; 0: it isn't
    connections: int = 0
    rows: int = 0
    received_bytes: int = 0
    segments: int = 0
    redelivered: int = 0  # marked DUP
    repeats: int = 0  # of these not stored again
    dropped: int = 0  # QoS 0 that found the inbox full
    waiting: int = 0  # received and not yet taken
    wal_bytes: int = 0
    next_offset: int = 0
    repeats_by: str = ""  # how they are known: numbers, guess or none; empty: not connected yet
    last_message_at: float = 0.0  # seconds since 1970
