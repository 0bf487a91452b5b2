"""Beats: by them a node is heard, and tells whom it hears, its time, its load and if QoS 0 has to wait."""

from collections.abc import Iterator

from braidmq.cluster.clock import HybridClock
from braidmq.cluster.effects import Effect, Hold, Send
from braidmq.cluster.frames import US_MASK, Beat, beat
from braidmq.cluster.local import Local
from braidmq.cluster.members import Member, Members, microseconds
from braidmq.cluster.telling import Telling


class Beating:
    def __init__(self, members: Members, clock: HybridClock, local: Local, telling: Telling) -> None:
        self._members = members
        self._clock = clock
        self._local = local
        self._telling = telling
        self._held: set[int] = set()  # peers that were asked to hold QoS 0

    def send(self, member: Member, now: float) -> Iterator[Effect]:
        yield from self._send(member, self._members.heard_lately(now), now)

    def send_all(self, now: float) -> Iterator[Effect]:
        heard = self._members.heard_lately(now)
        for member in self._members:
            if member.is_linked:
                yield from self._send(member, heard, now)

    def _send(self, member: Member, heard: bytes, now: float) -> Iterator[Effect]:
        if member.link is None:
            return
        echo_us = 0
        if member.echo is not None:
            sent_us, came_s = member.echo
            echo_us = (sent_us + int((now - came_s) * 1e6)) & US_MASK or 1
        what = Beat(
            hlc=self._clock.tick(now),
            sent_us=microseconds(now),
            echo_us=echo_us,
            connections=self._local.connections(),
            is_held=member.node in self._held,
            heard=heard,
        )
        yield Send(member.link, beat(what))

    def take(self, member: Member, what: Beat, now: float) -> Iterator[Effect]:
        if not self._clock.seen(what.hlc, now):
            sentence = (
                f"the clock of node {member.name} is more than 60 s ahead of this node's: set both by NTP"
            )
            yield from self._telling.tell((member.node, "clock"), "warning", sentence, now)
        if what.is_held != member.is_holding:
            yield Hold(member.node, what.is_held)
        self._members.beaten(member, what, now)

    def hold(self, peer: int, is_held: bool, now: float) -> Iterator[Effect]:
        """A slow subscriber here can't take more from this peer, or can again."""
        member = self._members.info(peer)
        if member is not None and member.is_linked:
            (self._held.add if is_held else self._held.discard)(peer)
            yield from self.send(member, now)

    def unlinked(self, peer: int) -> None:
        self._held.discard(peer)
