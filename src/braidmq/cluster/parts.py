"""What a cluster does beyond links and members is a part: it takes events and answers with effects.

A part may raise `FrameError` in `received`, `framed` and `welcomed`: the link to that peer ends, and its text
is told.
"""

from collections.abc import Iterable
from math import inf
from typing import Any, ClassVar

from braidmq.cluster.effects import Effect
from braidmq.cluster.frames import Control


class Part:
    """The base of all parts: it takes nothing and does nothing."""

    events: ClassVar[tuple[type, ...]] = ()  # local events that it takes
    controls: ClassVar[tuple[type[Control], ...]] = ()  # CONTROL structs that it takes
    frames: ClassVar[tuple[int, ...]] = ()  # first bytes that it takes

    next_at_s: float = inf  # when `time_came` should be called

    def handle(self, event: Any, now: float) -> Iterable[Effect]:
        """One of `events` has happened."""
        return ()

    def received(self, peer: int, control: Any, now: float) -> Iterable[Effect]:
        """A linked peer has sent one of `controls`."""
        return ()

    def framed(self, peer: int, first: int, body: bytes, now: float) -> Iterable[Effect]:
        """A linked peer has sent one of `frames`."""
        return ()

    def welcome(self, peer: int) -> dict[str, Any]:
        """What a Welcome to this peer should say: plain data. Keys are shared by all parts."""
        return {}

    def welcomed(self, peer: int, said: dict[str, Any], now: float) -> Iterable[Effect]:
        """What the peer's Welcome says, just before `linked`. Its types are not checked yet."""
        return ()

    def linked(self, peer: int, now: float) -> Iterable[Effect]:
        return ()

    def unlinked(self, peer: int, now: float) -> Iterable[Effect]:
        return ()

    def died(self, peer: int, now: float) -> Iterable[Effect]:
        return ()

    def forgotten(self, peer: int, now: float) -> Iterable[Effect]:
        return ()

    def turn_ended(self, now: float) -> Iterable[Effect]:
        return ()

    def time_came(self, now: float) -> Iterable[Effect]:
        """`next_at_s` has come."""
        return ()
