"""Whom this node links with, and what it tells those."""

from random import Random
from typing import Any

from braidmq.cluster.clock import HybridClock
from braidmq.cluster.handshake import Handshake, Hello, RefusalError, Welcome, are_apart
from braidmq.cluster.local import Local
from braidmq.cluster.members import Members
from braidmq.cluster.settings import Identity, Settings
from braidmq.cluster.telling import Faults


class Greeting:
    def __init__(
        self,
        me: Identity,
        settings: Settings,
        clock: HybridClock,
        rng: Random,
        local: Local,
        members: Members,
        faults: Faults,
    ) -> None:
        self._me = me
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._local = local
        self._members = members
        self._faults = faults
        self._life = rng.getrandbits(64)
        self._alive_s = settings.failure_s / 6  # two beats: who was heard since is there
        self.digest = settings.digest  # of the rules as they are now
        self.is_draining = False
        self.has_left = False

    def handshake(self, dials: bool, now: float) -> Handshake:
        wall_ms = self._clock.wall_ms(now)
        return Handshake(self._me, self._life, self._settings, wall_ms, self._rng, dials)

    def judge(self, hello: Hello, now: float) -> None:
        """Whether a proven peer may be linked with; raises RefusalError if not."""
        if hello.node == self._me.node:
            raise RefusalError("myself" if hello.life == self._life else "duplicate")
        if self.has_left:
            raise RefusalError("left")
        if self._members.is_banned(hello.node):
            raise RefusalError("forgotten")
        if are_apart(hello.wall_ms, self._clock.wall_ms(now)):
            raise RefusalError("clock")
        if now < self._faults.rests_until_s(hello.node):
            raise RefusalError("resting")
        member = self._members.info(hello.node)
        if member is None:
            if self._members.is_full:
                raise RefusalError("full")
        elif hello.boot < member.boot or (hello.boot == member.boot and member.life not in (0, hello.life)):
            raise RefusalError("duplicate")
        elif member.is_linked and hello.boot > member.boot and now - member.heard_at_s < self._alive_s:
            # A copy of its data directory would be the later start. A node that has ended is silent soon.
            raise RefusalError("alive")

    def welcome(self, peer: int, said: dict[str, Any], now: float) -> Welcome:
        """`said` is what the parts have to say."""
        me = self._me
        return Welcome(
            name=me.name,
            addresses=me.addresses[:16],
            client_address=me.client_address,
            keeps=me.keeps,
            version=me.version,
            host=me.host,
            worker=me.worker,
            position=self._local.kept_position(peer),
            hlc=self._clock.tick(now),
            absent=self._members.was_counted_dead(peer),
            draining=self.is_draining,
            digest=self.digest,
            members=self._members.introductions(),
            forgotten=self._members.banned(),
            parts=said,
        )
