"""Sends what is too large for one message in pieces, a bounded amount at a time, and puts pieces together
again.

A transfer is announced by a message that names its number; pieces of any other are ignored. Bounds are for
all transfers together: a peer that has the secret is trusted, so they guard against faults.
"""

from collections import deque
from math import inf
from typing import Final

from braidmq.cluster.effects import Effect, SendFrame
from braidmq.cluster.frames import PIECE_BYTES_MAX, FrameError, Piece, part
from braidmq.limits import MIB

AT_ONCE_BYTES: Final = MIB  # for one peer, before others have their turn
PAUSE_S: Final = 0.005
OPEN_BYTES_MAX: Final = 512 * MIB  # of what is being received


class Transfers:
    def __init__(self) -> None:
        self.next_at_s = inf
        self._last = 0
        self._out: dict[int, deque[Piece]] = {}  # by peer
        self._in: dict[tuple[int, int], bytearray] = {}  # by peer and number
        self._in_bytes = 0

    def number(self) -> int:
        """The number of the next transfer."""
        self._last = (self._last + 1) & 0xFFF_FFFF
        return self._last

    def send(self, peer: int, number: int, data: bytes, now: float) -> list[Effect]:
        waiting = self._out.setdefault(peer, deque())
        for start in range(0, max(1, len(data)), PIECE_BYTES_MAX):
            end = start + PIECE_BYTES_MAX
            waiting.append(Piece(number, end >= len(data), data[start:end]))
        return self.go_on(now) if self.next_at_s == inf else []

    def go_on(self, now: float) -> list[Effect]:
        """The pieces whose turn it is."""
        effects: list[Effect] = []
        for peer, waiting in list(self._out.items()):
            size = 0
            while waiting and size < AT_ONCE_BYTES:
                piece = waiting.popleft()
                size += len(piece.piece)
                effects.append(SendFrame(peer, part(piece)))
            if not waiting:
                del self._out[peer]
        self.next_at_s = now + PAUSE_S if self._out else inf
        return effects

    def expect(self, peer: int, number: int) -> None:
        self._in[peer, number] = bytearray()

    def receive(self, peer: int, piece: Piece) -> bytes | None:
        """All of it, if this was the last piece."""
        gathered = self._in.get((peer, piece.transfer))
        if gathered is None:
            return None
        gathered += piece.piece
        self._in_bytes += len(piece.piece)
        if self._in_bytes > OPEN_BYTES_MAX:
            raise FrameError("too much is on its way at a time")
        if not piece.is_last:
            return None
        self.forget(peer, piece.transfer)
        return bytes(gathered)

    def forget(self, peer: int, number: int) -> None:
        self._in_bytes -= len(self._in.pop((peer, number), b""))

    def unlinked(self, peer: int) -> None:
        """What was on its way won't arrive."""
        self._out.pop(peer, None)
        for key in [key for key in self._in if key[0] == peer]:
            self.forget(*key)
