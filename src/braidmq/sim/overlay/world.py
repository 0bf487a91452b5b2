"""Overlay nodes on a simulated network: the same objects that brokers run, and everything they do on record."""

from collections import Counter
from dataclasses import dataclass, field
from math import inf
from random import Random

from braidmq.overlay.keys import Kind
from braidmq.overlay.node import Overlay
from braidmq.overlay.settings import OverlaySettings
from braidmq.overlay.turn import Completed, Deliver, Effect, Joined, Send, SetPresence
from braidmq.sim.world.clock import Clock
from braidmq.sim.world.network import Conditions, Network


@dataclass(slots=True)
class Publication:
    topic: str
    publisher: str
    at_s: float
    payload: bytes
    expected: dict[tuple[str, int], int]  # lives of brokers that had joined by then, and their subscriptions
    hops: dict[tuple[str, int], list[int]] = field(default_factory=dict)  # of every delivery
    delays_s: list[float] = field(default_factory=list)
    is_completed: bool = False


class OverlayWorld:
    def __init__(self, seed: int, settings: OverlaySettings, conditions: Conditions) -> None:
        self.clock = Clock()
        self.rng = Random(seed)
        self.network = Network(self.clock, Random(seed + 1), conditions)
        self.settings = settings
        self.overlays: dict[str, Overlay] = {}
        self.publications: dict[bytes, Publication] = {}
        self.messages: Counter[str] = Counter()  # by kind
        self.violations: list[str] = []
        self._boots: Counter[str] = Counter()
        self._wakes: dict[str, float] = {}
        self._joined: dict[tuple[str, str], int] = {}  # (topic, broker): number of its subscription
        self._wanted: set[tuple[str, str]] = set()
        self._numbers = 0
        self._parted: frozenset[str] = frozenset()
        self._together_from_s = inf
        self._pids: dict[str, int] = {}

    # -- what happens to brokers -------------------------------------------------------------------------

    def start(self, name: str, contacts: list[str]) -> None:
        self._boots[name] += 1
        pid = self._pids.setdefault(name, self.rng.getrandbits(64))
        seed = self.rng.getrandbits(64)
        overlay = Overlay(pid, name, self._boots[name], self.settings, Random(seed))
        overlay.add_contacts(contacts)
        self.overlays[name] = overlay
        self._wakes[name] = inf
        self.network.start(name)

    def crash(self, name: str) -> None:
        self.network.stop(name)
        del self.overlays[name]
        for place in [place for place in self._wanted if place[1] == name]:
            self._forget(place)

    def subscribe(self, name: str, topic: str) -> None:
        self._wanted.add((topic, name))
        self._carry_out(name, self.overlays[name].subscribe(topic, self.clock.now))

    def unsubscribe(self, name: str, topic: str) -> None:
        self._forget((topic, name))
        self._carry_out(name, self.overlays[name].unsubscribe(topic, self.clock.now))

    def advertise(self, name: str, topic: str) -> None:
        self._carry_out(name, self.overlays[name].advertise(topic, self.clock.now))

    def publish(self, name: str, topic: str, qos: int = 1) -> Publication:
        payload = b"%d" % len(self.publications)
        expected = {
            self._life(broker): number
            for (wanted, broker), number in self._joined.items()
            if wanted == topic and self._are_together(name, broker)
        }
        publication = Publication(topic, name, self.clock.now, payload, expected)
        self.publications[payload] = publication
        self._carry_out(name, self.overlays[name].publish(topic, payload, qos, self.clock.now))
        return publication

    def part(self, names: list[str]) -> None:
        self._parted = frozenset(names)
        self.network.part(names)

    def heal(self, within_s: float) -> None:
        """The network is whole again; what that means for deliveries across is judged after so long."""
        self._together_from_s = self.clock.now + within_s
        self.network.heal()

    def _are_together(self, one: str, other: str) -> bool:
        is_judged = self._parted and self.clock.now < self._together_from_s
        return not is_judged or (one in self._parted) == (other in self._parted)

    def _life(self, name: str) -> tuple[str, int]:
        return (name, self._boots[name])

    def _forget(self, place: tuple[str, str]) -> None:
        self._wanted.discard(place)
        self._joined.pop(place, None)

    # -- questions ---------------------------------------------------------------------------------------

    def has_joined(self, name: str, topic: str) -> bool:
        return (topic, name) in self._joined

    def still_expected(self, publication: Publication) -> set[tuple[str, int]]:
        """Those that had joined when it was published and have neither left nor crashed since."""
        return {
            life
            for life, number in publication.expected.items()
            if self._joined.get((publication.topic, life[0])) == number
        }

    def wants(self, name: str, topic: str) -> bool:
        return (topic, name) in self._wanted

    # -- the loop ----------------------------------------------------------------------------------------

    def run_for(self, seconds: float) -> None:
        self.clock.run_until(self.clock.now + seconds)

    def _carry_out(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.messages[type(effect.message).__name__] += 1
                address = effect.to.address
                self.network.send(name, address, self._arrive, address, effect.to.key, effect.message)
            elif isinstance(effect, Deliver):
                self._delivered(name, effect)
            elif isinstance(effect, Joined):
                self._has_joined(name, effect)
            elif isinstance(effect, Completed):
                pass
            else:
                assert isinstance(effect, SetPresence)
        self._schedule(name)

    def _schedule(self, name: str) -> None:
        deadline_s = self.overlays[name].next_deadline_s
        if deadline_s < self._wakes[name]:
            self._wakes[name] = deadline_s
            self.clock.at(deadline_s, self._tick, name, deadline_s, self.network.life_of(name))

    def _tick(self, name: str, deadline_s: float, life: int) -> None:
        if self.network.life_of(name) != life or self._wakes[name] != deadline_s:
            return
        self._wakes[name] = inf
        self._carry_out(name, self.overlays[name].tick(self.clock.now))

    def _arrive(self, name: str, key: bytes, message: object) -> None:
        self._carry_out(name, self.overlays[name].receive(key, message, self.clock.now))  # type: ignore[arg-type]

    def _has_joined(self, name: str, effect: Joined) -> None:
        if effect.kind is Kind.SUBSCRIBER and (effect.topic, name) in self._wanted:
            self._numbers += 1
            self._joined[effect.topic, name] = self._numbers

    def _delivered(self, name: str, effect: Deliver) -> None:
        publication = self.publications[effect.payload]
        if (effect.topic, name) not in self._wanted:
            self.violations.append(f"{name} got {effect.payload!r} of {effect.topic} after it had left")
        publication.hops.setdefault(self._life(name), []).append(effect.hops)
        publication.delays_s.append(self.clock.now - publication.at_s)
