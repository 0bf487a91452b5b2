"""Where to look for other nodes: at the seeds, at the addresses of members that aren't linked, and where
members were that are forgotten.
"""

from collections.abc import Iterable
from math import inf
from random import Random

from braidmq.cluster.dialling import DELAY_MAX_S, DELAY_MIN_S, Dialling
from braidmq.cluster.members import Member, Members
from braidmq.cluster.settings import Identity, Settings


class Finding:
    def __init__(self, me: Identity, settings: Settings, members: Members, rng: Random) -> None:
        self._settings = settings
        self._members = members
        self._dialling = Dialling(rng)
        self._seeds: dict[str, int | None] = {}  # who was found there
        self._haunts: dict[str, float] = {}  # where members were that are forgotten, and until when to look
        self._mine = set(me.addresses)  # where this node itself answers
        self._is_over = False

    @property
    def next_at_s(self) -> float:
        return self._dialling.next_at_s

    def due(self, now: float) -> list[str]:
        """The addresses to dial now."""
        if self._is_over:
            return []
        for member in self._members:
            if not member.is_linked:
                self.look_for(member, now)
        known = {address for member in self._members for address in member.addresses}
        known |= {address for address, node in self._seeds.items() if node in self._members}
        for address in [*self._seeds, *self._haunts]:
            if address in known or address in self._mine or self._haunts.get(address, inf) <= now:
                self._dialling.stop(address)
            else:
                self._dialling.want(address, (address,), now)
        return self._dialling.due(now)

    def discovered(self, addresses: Iterable[str]) -> None:
        """These are the seeds from now on."""
        before, self._seeds = self._seeds, {address: self._seeds.get(address) for address in addresses}
        for address in before.keys() - self._seeds.keys():
            self._dialling.stop(address)

    def look_for(self, member: Member, at_s: float) -> None:
        if self._is_over:
            return
        found = [address for address, node in self._seeds.items() if node == member.node]
        addresses = (address for address in (*found, *member.addresses) if address not in self._mine)
        self._dialling.want(member.node, addresses, at_s)

    def lost(self, member: Member, now: float) -> None:
        """Its link is gone. One that didn't last is not tried again at once."""
        has_lasted = now - member.linked_at_s >= self._settings.failure_s
        self.look_for(member, now + (DELAY_MIN_S if has_lasted else DELAY_MAX_S / 4))

    def forgotten(self, member: Member, now: float) -> None:
        """After a partition, who has forgotten everybody must find somebody again: look where it was."""
        self._haunts = {address: until_s for address, until_s in self._haunts.items() if until_s > now}
        self._haunts |= dict.fromkeys(member.addresses, now + self._settings.keep_for_dead_s)
        while len(self._haunts) > self._settings.peers_max:
            del self._haunts[next(iter(self._haunts))]

    def stop(self, node: int) -> None:
        self._dialling.stop(node)

    def answered(self, address: str | None, node: int) -> None:
        """Who is at a dialled address is known now: from here on the member is dialled, not the address."""
        if address is not None and address in self._seeds:
            self._seeds[address] = node

    def is_me(self, address: str) -> None:
        self._mine.add(address)
        self._dialling.stop(address)

    def ended(self, address: str | None, now: float, rest_s: float = 0.0) -> None:
        """An address was not reached, or its link has ended."""
        if address is not None:
            self._dialling.ended(address, now, rest_s)

    def give_up(self) -> None:
        """This node looks for nobody any more."""
        self._is_over = True
        for target in self._dialling.targets():
            self._dialling.stop(target)
