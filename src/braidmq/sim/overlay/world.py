"""Overlay nodes on a simulated network: the same objects that brokers run, and everything they do on
record.
"""

from collections import Counter
from dataclasses import dataclass, field
from math import inf
from random import Random

from braidmq.overlay.keys import Kind
from braidmq.overlay.node import Overlay
from braidmq.overlay.settings import OverlaySettings
from braidmq.overlay.turn import Deliver, Effect, Joined, Send
from braidmq.sim.world.clock import Clock
from braidmq.sim.world.network import Conditions, Network

UNDER_WAY_S = 12.0  # a publication has arrived everywhere by then: it may have to go around several dead


@dataclass(slots=True)
class Publication:
    topic: str
    publisher: str
    at_s: float
    payload: bytes
    expected: set[tuple[str, int]]  # lives of brokers that had joined by then and stayed until it arrived
    hops: dict[tuple[str, int], list[int]] = field(default_factory=dict)  # of every delivery
    delays_s: list[float] = field(default_factory=list)


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
        self._joined: set[tuple[str, str]] = set()  # (topic, broker)
        self._wanted: set[tuple[str, str]] = set()
        self._recent: list[Publication] = []
        self._parted: frozenset[str] = frozenset()
        self._settled_from_s = 0.0
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
            self._life(broker)
            for wanted, broker in self._joined
            if wanted == topic and self._is_promised(name, broker)
        }
        publication = Publication(topic, name, self.clock.now, payload, expected)
        self.publications[payload] = publication
        self._recent.append(publication)
        self._carry_out(name, self.overlays[name].publish(topic, payload, qos, self.clock.now))
        return publication

    def part(self, names: list[str], settled_after_s: float) -> None:
        """Separate these from all others. Until each side has settled, nobody is promised a publication."""
        self._parted = frozenset(names)
        self.network.part(names)
        self._unsettle(settled_after_s)

    def heal(self, settled_after_s: float) -> None:
        self._parted = frozenset()
        self.network.heal()
        self._unsettle(settled_after_s)

    def _unsettle(self, seconds: float) -> None:
        self._settled_from_s = self.clock.now + seconds
        for publication in self._under_way():
            publication.expected.clear()

    def _under_way(self) -> list[Publication]:
        self._recent = [one for one in self._recent if self.clock.now - one.at_s < UNDER_WAY_S]
        return self._recent

    def _is_promised(self, publisher: str, subscriber: str) -> bool:
        is_settled = self.clock.now >= self._settled_from_s
        return is_settled and (publisher in self._parted) == (subscriber in self._parted)

    def _life(self, name: str) -> tuple[str, int]:
        return (name, self._boots[name])

    def _forget(self, place: tuple[str, str]) -> None:
        """Whoever leaves or crashes is not promised what is under way; what was published before it must
        have had.
        """
        self._wanted.discard(place)
        self._joined.discard(place)
        for publication in self._under_way():
            publication.expected.discard(self._life(place[1]))

    # -- questions ---------------------------------------------------------------------------------------

    def has_joined(self, name: str, topic: str) -> bool:
        return (topic, name) in self._joined

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
            self._joined.add((effect.topic, name))

    def _delivered(self, name: str, effect: Deliver) -> None:
        publication = self.publications[effect.payload]
        if (effect.topic, name) not in self._wanted:
            self.violations.append(f"{name} got {effect.payload!r} of {effect.topic} after it had left")
        publication.hops.setdefault(self._life(name), []).append(effect.hops)
        publication.delays_s.append(self.clock.now - publication.at_s)
