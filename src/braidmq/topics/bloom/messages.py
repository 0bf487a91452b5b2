"""Snapshots and deltas of an interest filter as bytes.

    message   epoch u32 | sequence u32 | kind u8 | body | crc32 u32           all numbers little-endian
    snapshot  seed u64 | log2(blocks) u8 | hashes u8 | depth masks 3 x u64 | known-false keys | bits
    delta     parts u8 | the parts named there, in the order of `Part`
      MASKS                        3 x u64, the depth masks as they are now
      FALSE_ADDED, FALSE_REMOVED   count varint | keys u64..: changes of the known-false list
      ADD_KEYS                     count varint | keys u64..: keys whose bits are set
      SET, CLEAR                   count varint | width u8 | size varint | Rice-coded positions

A delta is one atomic step. New bits travel as keys or as positions, whichever is shorter; cleared bits as
positions, since only the owner knows how many keys share a bit.

Decoding trusts nothing: the checksum comes first, every count is held against the bytes that are there before
anything is allocated, positions against the size of the filter. Whatever is wrong becomes an InterestError.
"""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag

from braidmq.errors import BraidError
from braidmq.topics.bloom.prefix import PrefixFilter
from braidmq.topics.bloom.rice import decode_positions, encode_positions, rice_width
from braidmq.topics.bloom.sizing import BLOCK_BITS, BLOCK_BYTES, BLOCKED_HASHES_MAX

# 64 MiB of bits, some 20 million subscriptions: beyond it the interest of a node should be split.
BLOCKS_MAX = 1 << 20
KNOWN_FALSE_MAX = 4096

_HEADER = struct.Struct("<IIB")
_SHAPE = struct.Struct("<QBB")
_MASKS = struct.Struct("<QQQ")
_CRC = struct.Struct("<I")
_VARINT_BYTES_MAX = 5


class InterestError(BraidError):
    """A snapshot or a delta is damaged, forged or doesn't fit; the state it was meant for is unchanged."""


class Kind(IntEnum):
    SNAPSHOT = 1
    DELTA = 2


class Part(IntFlag):
    MASKS = 1
    FALSE_ADDED = 2
    FALSE_REMOVED = 4
    ADD_KEYS = 8
    SET = 16
    CLEAR = 32


_PARTS = sum(Part)


@dataclass(frozen=True, slots=True)
class DepthMasks:
    """At which depths any filter has `+`, has `#`, ends."""

    plus: int
    hash: int
    end: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    epoch: int
    sequence: int
    filter: PrefixFilter


@dataclass(frozen=True, slots=True)
class Delta:
    """Changes since the message before. `masks` is None where they stay as they were."""

    epoch: int
    sequence: int
    added_keys: Sequence[int] = ()
    set_positions: Sequence[int] = ()
    cleared_positions: Sequence[int] = ()
    masks: DepthMasks | None = None
    false_added: Sequence[int] = ()
    false_removed: Sequence[int] = ()

    def known_false_after(self, before: Sequence[int]) -> list[int]:
        """The known-false list with the changes. InterestError if it becomes too long."""
        after = {*before, *self.false_added}.difference(self.false_removed)
        if len(after) > KNOWN_FALSE_MAX:
            raise InterestError(f"{len(after)} known-false keys are more than {KNOWN_FALSE_MAX}")
        return sorted(after)


def masks_of(filter: PrefixFilter) -> DepthMasks:
    return DepthMasks(filter.plus_depths, filter.hash_depths, filter.end_depths)


def set_masks(filter: PrefixFilter, masks: DepthMasks) -> None:
    filter.plus_depths, filter.hash_depths, filter.end_depths = masks.plus, masks.hash, masks.end


def apply_delta(delta: Delta, filter: PrefixFilter) -> None:
    """The receiver's side of one atomic step: all of it, or an InterestError and nothing."""
    if delta.false_added or delta.false_removed:
        filter.known_false = delta.known_false_after(filter.known_false)
    filter.add_keys(delta.added_keys)
    filter.set_positions(delta.set_positions)
    filter.clear_positions(delta.cleared_positions)
    if delta.masks is not None:
        set_masks(filter, delta.masks)


def encode_snapshot(epoch: int, sequence: int, filter: PrefixFilter) -> bytes:
    masks = masks_of(filter)
    return seal(
        _HEADER.pack(epoch, sequence, Kind.SNAPSHOT)
        + _SHAPE.pack(filter.seed, filter.blocks.bit_length() - 1, filter.hashes)
        + _MASKS.pack(masks.plus, masks.hash, masks.end)
        + _encode_keys(filter.known_false)
        + filter.bits
    )


def encode_delta(delta: Delta, blocks: int) -> bytes:
    """The shortest form of a delta whose `added_keys` and `set_positions` say the same thing twice."""
    parts, body = Part(0), b""
    if delta.masks is not None:
        parts |= Part.MASKS
        body += _MASKS.pack(delta.masks.plus, delta.masks.hash, delta.masks.end)
    for part, keys in ((Part.FALSE_ADDED, delta.false_added), (Part.FALSE_REMOVED, delta.false_removed)):
        if keys:
            parts |= part
            body += _encode_keys(keys)
    if delta.set_positions:
        by_key, by_position = _encode_keys(delta.added_keys), _encode_positions(delta.set_positions, blocks)
        parts |= Part.ADD_KEYS if len(by_key) <= len(by_position) else Part.SET
        body += min(by_key, by_position, key=len)
    if delta.cleared_positions:
        parts |= Part.CLEAR
        body += _encode_positions(delta.cleared_positions, blocks)
    return seal(_HEADER.pack(delta.epoch, delta.sequence, Kind.DELTA) + bytes((parts,)) + body)


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message whose checksum is right; its body isn't read yet."""

    epoch: int
    sequence: int
    kind: Kind
    body: memoryview


def open_message(message: bytes) -> Envelope:
    """Check a message's length, checksum and kind."""
    if len(message) < _HEADER.size + _CRC.size:
        raise InterestError(f"an interest message has at least 13 bytes, this one has {len(message)}")
    sealed = memoryview(message)[: -_CRC.size]
    (promised,) = _CRC.unpack(message[-_CRC.size:])
    found = zlib.crc32(sealed)
    if found != promised:
        raise InterestError(f"the checksum is wrong: 0x{promised:08x} was promised, 0x{found:08x} found")
    epoch, sequence, kind = _HEADER.unpack_from(sealed)
    if kind not in (Kind.SNAPSHOT, Kind.DELTA):
        raise InterestError(f"messages of kind {kind} are unknown")
    return Envelope(epoch, sequence, Kind(kind), sealed[_HEADER.size:])


def may_widen(envelope: Envelope) -> bool:
    """Whether more topics may match after this message than before: not if it only takes away."""
    if envelope.kind is Kind.SNAPSHOT or not envelope.body:
        return True
    return bool(envelope.body[0] & (Part.MASKS | Part.FALSE_REMOVED | Part.ADD_KEYS | Part.SET))


def read_snapshot(envelope: Envelope) -> Snapshot:
    reader = _Reader(envelope.body)
    seed, log2_blocks, hashes = _SHAPE.unpack(reader.take(_SHAPE.size))
    if log2_blocks >= BLOCKS_MAX.bit_length() or not 1 <= hashes <= BLOCKED_HASHES_MAX:
        raise InterestError(f"no filter has 2^{log2_blocks} blocks and {hashes} bits a key")
    masks = DepthMasks(*_MASKS.unpack(reader.take(_MASKS.size)))
    known_false = reader.keys()
    if len(known_false) > KNOWN_FALSE_MAX:
        raise InterestError(f"{len(known_false)} known-false keys are more than {KNOWN_FALSE_MAX}")
    blocks = 1 << log2_blocks
    if reader.left != blocks * BLOCK_BYTES:
        raise InterestError(f"{blocks} blocks take {blocks * BLOCK_BYTES} bytes, {reader.left} are there")
    filter = PrefixFilter(blocks, hashes, seed)
    filter.bits = reader.take(reader.left)
    filter.known_false = list(known_false)
    set_masks(filter, masks)
    return Snapshot(envelope.epoch, envelope.sequence, filter)


def read_delta(envelope: Envelope, blocks: int) -> Delta:
    """The delta for a filter of `blocks` blocks."""
    reader = _Reader(envelope.body)
    parts = reader.take(1)[0]
    if parts > _PARTS:
        raise InterestError(f"a delta has unknown parts 0x{parts:02x}")
    masks = DepthMasks(*_MASKS.unpack(reader.take(_MASKS.size))) if parts & Part.MASKS else None
    false_added = reader.keys() if parts & Part.FALSE_ADDED else ()
    false_removed = reader.keys() if parts & Part.FALSE_REMOVED else ()
    added = reader.keys() if parts & Part.ADD_KEYS else ()
    raised = reader.positions(blocks) if parts & Part.SET else ()
    cleared = reader.positions(blocks) if parts & Part.CLEAR else ()
    if reader.left:
        raise InterestError(f"{reader.left} bytes follow the delta")
    position = envelope.epoch, envelope.sequence
    return Delta(*position, added, raised, cleared, masks, false_added, false_removed)


def seal(message: bytes) -> bytes:
    return message + _CRC.pack(zlib.crc32(message))


def _encode_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _encode_keys(keys: Sequence[int]) -> bytes:
    return _encode_varint(len(keys)) + struct.pack(f"<{len(keys)}Q", *keys)


def _encode_positions(positions: Sequence[int], blocks: int) -> bytes:
    width = rice_width(len(positions), blocks * BLOCK_BITS)
    coded = encode_positions(positions, width)
    return _encode_varint(len(positions)) + bytes((width,)) + _encode_varint(len(coded)) + coded


class _Reader:
    """Takes a body apart, never further than it goes."""

    def __init__(self, body: memoryview) -> None:
        self._body = body
        self._offset = 0

    @property
    def left(self) -> int:
        return len(self._body) - self._offset

    def take(self, size_bytes: int) -> bytes:
        if size_bytes > self.left:
            raise InterestError(f"the message is cut short: {size_bytes} bytes wanted, {self.left} left")
        taken = bytes(self._body[self._offset:self._offset + size_bytes])
        self._offset += size_bytes
        return taken

    def varint(self) -> int:
        value = 0
        for index in range(_VARINT_BYTES_MAX):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                return value
        raise InterestError("a count has more than 5 bytes")

    def keys(self) -> tuple[int, ...]:
        count = self.varint()
        return struct.unpack(f"<{count}Q", self.take(8 * count))

    def positions(self, blocks: int) -> list[int]:
        count, width = self.varint(), self.take(1)[0]
        coded = self.take(self.varint())
        try:
            return decode_positions(coded, count, width, blocks * BLOCK_BITS)
        except ValueError as error:
            raise InterestError(f"the positions can't be read: {error}") from None
