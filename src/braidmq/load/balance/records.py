"""What a member notes of each message: its number, and when the work on it began and ended.

Records have one size and are appended one by one, so that a file is whole whenever its member is killed: a
record that was cut off is not there.
"""

import struct
from typing import Final, NamedTuple

_RECORD: Final = struct.Struct("<Qdd")
_STAMP: Final = struct.Struct("<Q")  # a message's payload
RECORD_BYTES: Final = _RECORD.size
PAYLOAD_BYTES: Final = 100


class Record(NamedTuple):
    number: int
    began_s: float  # monotonic
    ended_s: float


def pack(record: Record) -> bytes:
    return _RECORD.pack(*record)


def unpack(data: bytes) -> list[Record]:
    whole = len(data) - len(data) % RECORD_BYTES
    return [Record(*fields) for fields in _RECORD.iter_unpack(data[:whole])]


def payload(number: int) -> bytes:
    return _STAMP.pack(number).ljust(PAYLOAD_BYTES, b"\0")


def number_of(data: bytes) -> int:
    (number,) = _STAMP.unpack_from(data)
    return int(number)
