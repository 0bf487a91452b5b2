"""The nodes, the network and the clients of one story, and what can be done to them."""

from random import Random
from typing import Final

from braidmq.limits import Limits
from braidmq.sim.cluster import trace as seen
from braidmq.sim.cluster.clients import Client, Manners
from braidmq.sim.cluster.joining import Plans
from braidmq.sim.cluster.machine import Habits, Machine
from braidmq.sim.cluster.network import Delays, End, Network
from braidmq.sim.runner import derive_seed
from braidmq.sim.world.clock import Clock

LOOK_S: Final = 0.5  # how often a broken connection is looked at


class World:
    """Each part draws from a generator of its own, so that one more draw here changes nothing there."""

    def __init__(self, seed: int, limits: Limits, delays: Delays) -> None:
        self.clock = Clock()
        self.trace = seen.Trace()
        self.network = Network(self.clock, self._rng(seed, "network"), delays)
        self.machines: dict[str, Machine] = {}
        self.clients: dict[str, Client] = {}
        self._seed = seed
        self._cuts = 0
        self._limits = limits

    @staticmethod
    def _rng(seed: int, of: str) -> Random:
        return Random(derive_seed(seed, of))

    def run_until(self, at_s: float) -> None:
        self.clock.run_until(at_s)

    # ---- nodes ---------------------------------------------------------------------------------------

    def add_nodes(self, habits: dict[str, Habits]) -> None:
        """One is alone, several are a cluster."""
        plans = Plans(tuple(f"{name}:link" for name in habits)) if len(habits) > 1 else None
        for name, of_node in habits.items():
            rng = self._rng(self._seed, name)
            self.machines[name] = Machine(
                name, self.network, rng, of_node, self._limits, plans, self._links_changed
            )

    def _links_changed(self, node: str, linked: tuple[str, ...]) -> None:
        self.trace.add(seen.LinksChanged(self.clock.now, node, linked))

    def running(self) -> list[Machine]:
        return [machine for machine in self.machines.values() if machine.life is not None]

    def start(self, name: str) -> None:
        machine = self.machines[name]
        if machine.life is None:
            machine.start()
            self.trace.add(seen.NodeStarted(self.clock.now, name))

    def crash(self, name: str, *, loses_disk: bool = False) -> None:
        machine = self.machines[name]
        if machine.life is not None:
            self._count_drops(machine)
            ends = self.network.of(name)
            machine.crash(loses_disk=loses_disk)
            self._links_changed(name, ())
            self.trace.add(seen.NodeCrashed(self.clock.now, name, loses_disk))
            for end in ends:
                self._await_end(end)

    def _count_drops(self, machine: Machine) -> None:
        assert machine.life is not None
        self.trace.add(seen.Dropped(self.clock.now, machine.name, machine.life.drops()))

    def end(self) -> None:
        for machine in self.running():
            self._count_drops(machine)
            machine.crash()

    # ---- the network ---------------------------------------------------------------------------------

    def cut(self, one: str, other: str) -> None:
        """End the connections between two hosts, at any byte."""
        for end in self.network.between(one, other):
            end.cut()
            self._await_end(end)

    def _await_end(self, end: End) -> None:
        """A broken connection does harm until both ends know of it."""
        self._cuts += 1
        what = f"connection {self._cuts} of {end.host} and {end.other.host}"
        self.trace.add(seen.Broken(self.clock.now, what))
        self._look_at(end, what)

    def _look_at(self, end: End, what: str) -> None:
        if end.is_closed and end.other.is_closed:
            self.trace.add(seen.Mended(self.clock.now, what))
        else:
            self.clock.at(self.clock.now + LOOK_S, self._look_at, end, what)

    def part(self, ways: list[tuple[str, str]]) -> None:
        """Let nothing pass from one host to the other, for each of these."""
        for source, target in ways:
            self.network.block(source, target)
            self.trace.add(seen.Broken(self.clock.now, f"way {source} {target}"))

    def mend(self, ways: list[tuple[str, str]]) -> None:
        self.network.unblock(ways)
        for source, target in ways:
            self.trace.add(seen.Mended(self.clock.now, f"way {source} {target}"))

    # ---- clients -------------------------------------------------------------------------------------

    def add_client(self, name: str, home: str, manners: Manners) -> Client:
        rng = self._rng(self._seed, name)
        client = Client(name, home, list(self.machines), manners, self.network, rng, self.trace)
        self.clients[name] = client
        return client
