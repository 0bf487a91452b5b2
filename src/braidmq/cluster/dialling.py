"""Whom to dial and when: again after 50 ms, then each time twice as long up to 2 s, and never in step.

A target is a member, by its number, or an address at which nobody is known yet. A member with several
addresses is tried at one after the other. Cost: linear in the targets a look, some hundreds at most.
"""

from collections.abc import Iterable
from math import inf
from random import Random
from typing import Final, TypeAlias

DELAY_MIN_S: Final = 0.05
DELAY_MAX_S: Final = 2.0
_JITTER: Final = 0.2

Target: TypeAlias = int | str


class _Attempts:
    __slots__ = ("addresses", "at_s", "delay_s", "pending")

    def __init__(self, addresses: tuple[str, ...], at_s: float) -> None:
        self.addresses = addresses  # the next one first
        self.at_s = at_s
        self.delay_s = DELAY_MIN_S
        self.pending: str | None = None  # the address that is being dialled, or stands and isn't a link yet


class Dialling:
    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._attempts: dict[Target, _Attempts] = {}

    def want(self, target: Target, addresses: Iterable[str], at_s: float) -> None:
        """Dial it from then on, until `stop`."""
        found = tuple(dict.fromkeys(addresses))
        attempts = self._attempts.get(target)
        if attempts is None:
            self._attempts[target] = _Attempts(found, at_s)
        elif set(attempts.addresses) != set(found):
            attempts.addresses = found

    def stop(self, target: Target) -> None:
        self._attempts.pop(target, None)

    def targets(self) -> list[Target]:
        return list(self._attempts)

    def due(self, now: float) -> list[str]:
        """The addresses to dial now."""
        under_way = {attempts.pending for attempts in self._attempts.values()}
        found = []
        for attempts in self._attempts.values():
            if attempts.pending is None and attempts.at_s <= now and attempts.addresses:
                address, *others = attempts.addresses
                attempts.addresses = (*others, address)
                if address in under_way:  # somebody else's attempt says who is there
                    attempts.at_s = now + self._grown(attempts)
                    continue
                attempts.pending = address
                under_way.add(address)
                found.append(address)
        return found

    def ended(self, address: str, now: float, rest_s: float = 0.0) -> None:
        """A dialled address was not reached, or its link is gone before it was one."""
        for attempts in self._attempts.values():
            if attempts.pending == address:
                attempts.pending = None
                attempts.at_s = now + max(rest_s, self._grown(attempts))

    @property
    def next_at_s(self) -> float:
        waiting = (one.at_s for one in self._attempts.values() if one.pending is None and one.addresses)
        return min(waiting, default=inf)

    def _grown(self, attempts: _Attempts) -> float:
        delay_s = attempts.delay_s
        attempts.delay_s = min(2 * delay_s, DELAY_MAX_S)
        return delay_s * self._rng.uniform(1 - _JITTER, 1 + _JITTER)
