"""Interest as text: the filters of a node themselves, for the routing mode `full`.

    message   epoch u32 | sequence u32 | kind u8 | body | crc32 u32           the frame of the Bloom messages
    snapshot  every filter, each followed by a NUL
    delta     `+filter` or `-filter`, each followed by a NUL

A filter has no NUL [MQTT-1.5.4-2], so nothing is escaped. Positions are those of `topics.bloom.stream`.
"""

import struct
from collections.abc import Iterator
from typing import Final

from braidmq.errors import ProtocolError
from braidmq.topics import validate_filter
from braidmq.topics.bloom.messages import Envelope, InterestError, Kind, seal
from braidmq.topics.bloom.stream import Position

_HEADER = struct.Struct("<IIB")
_APPEARED: Final = b"+"
_VANISHED: Final = b"-"


class TextInterest:
    """The owner: the filters that are wanted here, and what of them has not been told yet."""

    def __init__(self) -> None:
        self.filters: set[bytes] = set()
        self._told: dict[bytes, bool] = {}  # filter -> whether it was there at the last flush
        self._sequence = 0

    @property
    def position(self) -> Position:
        return 1, self._sequence

    @property
    def dirty(self) -> bool:
        return bool(self._told)

    def subscribe(self, filter: bytes) -> None:
        self._note(filter, was_there=False)
        self.filters.add(filter)

    def unsubscribe(self, filter: bytes) -> None:
        """KeyError if the filter isn't held; nothing has changed then."""
        self.filters.remove(filter)
        self._note(filter, was_there=True)

    def _note(self, filter: bytes, *, was_there: bool) -> None:
        if self._told.get(filter, was_there) != was_there:
            del self._told[filter]  # back to what was told last
        else:
            self._told[filter] = was_there

    def flush(self) -> bytes | None:
        """All changes since the last flush as one delta; None if there are none."""
        if not self._told:
            return None
        told, self._told = self._told, {}
        self._sequence += 1
        body = b"".join(
            (_VANISHED if was_there else _APPEARED) + filter + b"\0" for filter, was_there in told.items()
        )
        return seal(_HEADER.pack(*self.position, Kind.DELTA) + body)

    def snapshot(self) -> bytes:
        """The state as of the last flush."""
        told = self.filters.difference(filter for filter, was_there in self._told.items() if not was_there)
        told.update(filter for filter, was_there in self._told.items() if was_there)
        body = b"".join(filter + b"\0" for filter in sorted(told))
        return seal(_HEADER.pack(*self.position, Kind.SNAPSHOT) + body)


def read_snapshot(envelope: Envelope) -> list[bytes]:
    """The filters; InterestError if one is none."""
    return [_checked(filter) for filter in _split(envelope)]


def read_delta(envelope: Envelope) -> Iterator[tuple[bytes, bool]]:
    """(filter, whether it appeared) for each change; InterestError if one is none."""
    for change in _split(envelope):
        if change[:1] not in (_APPEARED, _VANISHED):
            raise InterestError("a change of interest is neither + nor -")
        yield _checked(change[1:]), change[:1] == _APPEARED


def _split(envelope: Envelope) -> list[bytes]:
    *texts, rest = bytes(envelope.body).split(b"\0")
    if rest:
        raise InterestError("the last filter has no end")
    return texts


def _checked(filter: bytes) -> bytes:
    try:
        validate_filter(filter)
    except ProtocolError as error:
        raise InterestError(f"a peer wants what is no filter: {error}") from None
    return filter
