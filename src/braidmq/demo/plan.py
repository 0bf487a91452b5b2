"""What the demo's devices say, and when: all of it follows from a seed. Pure.

A message is named by its device and its number, and the plan can write it again at any time, byte for byte.
Therefore a publisher keeps only names in its ledger, and the check at the end knows what must be in the
tables without asking Spark. No two messages are the same, because each says its number.

Event times are those of the plan, which the publishers follow as well as the machine lets them.
"""

import json
import math
import random
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

SITES: Final = ("harbour", "mill", "depot", "quarry")
TOPIC_PATTERN: Final = "plant/{site}/{device}/reading"
METRICS: Final = ("temperature", "pressure")
BROKEN_SHARE: Final = 0.01
SILENT_FROM_SHARE: Final = 0.3  # of the time; from then on one device says nothing
HOT_FROM_SHARE: Final = 0.5  # one device overheats for a while
HOT_UNTIL_SHARE: Final = 0.7
HOT_TEMPERATURE: Final = 95.0
DAY_S: Final = 60.0  # temperatures go up and down once in this time, for the eye


class Name(NamedTuple):
    """Names a message."""

    device: int
    number: int


class Message(NamedTuple):
    topic: str
    payload: bytes


class Reading(NamedTuple):
    """What a message says that isn't broken."""

    at_ms: int
    values: dict[str, float]


class FleetPlan(msgspec.Struct, frozen=True, kw_only=True):
    seed: int
    start_ms: int  # since 1970
    seconds: float
    devices: int = 40
    rate: float = 2_000.0  # messages a second, of all devices together

    # -- devices ------------------------------------------------------------------------------------------

    @property
    def silent_device(self) -> int:
        return self.devices - 1

    @property
    def hot_device(self) -> int:
        return 0

    def site(self, device: int) -> str:
        return SITES[device % len(SITES)]

    def device_name(self, device: int) -> str:
        return f"{self.site(device)}-{device // len(SITES) + 1:02d}"

    def topic(self, device: int) -> str:
        return TOPIC_PATTERN.format(site=self.site(device), device=self.device_name(device))

    def devices_of(self, broker: int, brokers: int) -> list[int]:
        """The devices that talk to a broker: those of every so-manieth site."""
        return [device for device in range(self.devices) if device % len(SITES) % brokers == broker]

    # -- when ---------------------------------------------------------------------------------------------

    @property
    def interval_s(self) -> float:
        """Between two messages of one device."""
        return self.devices / self.rate

    def due_s(self, name: Name) -> float:
        """When a message is to be sent, after the start. Devices are spread over the interval."""
        return (name.number + name.device / self.devices) * self.interval_s

    def count(self, device: int) -> int:
        """How many messages a device has to say."""
        share = SILENT_FROM_SHARE if device == self.silent_device else 1.0
        first_s = self.due_s(Name(device, 0))
        return max(0, math.ceil((self.seconds * share - first_s) / self.interval_s))

    def due_between(self, devices: list[int], after_s: float, until_s: float) -> Iterator[Name]:
        """What is to be sent from `after_s` on and before `until_s`."""
        for device in devices:
            first_s = self.due_s(Name(device, 0))
            begin = max(0, math.ceil((after_s - first_s) / self.interval_s))
            end = min(self.count(device), math.ceil((until_s - first_s) / self.interval_s))
            for number in range(begin, end):
                yield Name(device, number)

    def names(self) -> Iterator[Name]:
        """Every message there is."""
        for device in range(self.devices):
            for number in range(self.count(device)):
                yield Name(device, number)

    # -- what ---------------------------------------------------------------------------------------------

    def message(self, name: Name) -> Message:
        return self.written(name)[0]

    def written(self, name: Name) -> tuple[Message, Reading | None]:
        """A message, and what it says; None if it is broken."""
        chance = random.Random(self.seed << 48 | name.device << 32 | name.number)
        fields = self._fields(name, chance)
        payload = json.dumps(fields).encode()
        topic = self.topic(name.device)
        if chance.random() < BROKEN_SHARE:
            return Message(topic, chance.choice(FAULTS)(fields, payload)), None
        reading = Reading(fields["at_ms"], {metric: fields[metric] for metric in METRICS})
        return Message(topic, payload), reading

    def _fields(self, name: Name, chance: random.Random) -> dict[str, Any]:
        due_s = self.due_s(name)
        swing = math.sin(2 * math.pi * (due_s / DAY_S + name.device / self.devices))
        is_hot = HOT_FROM_SHARE <= due_s / self.seconds < HOT_UNTIL_SHARE and name.device == self.hot_device
        base = HOT_TEMPERATURE if is_hot else 20.0
        return {
            "n": name.number,
            "at_ms": self.start_ms + round(due_s * 1_000),
            "temperature": round(base + 5 * swing + chance.gauss(0, 0.3), 2),
            "pressure": round(3 + chance.gauss(0, 0.1), 3),
        }


class Script:
    """All of a plan, written out once, so that it can be looked up by name and by message."""

    def __init__(self, plan: FleetPlan) -> None:
        self.plan = plan
        self.names: dict[Message, Name] = {}
        self.readings: dict[Name, Reading | None] = {}
        for name in plan.names():
            message, reading = plan.written(name)
            self.names[message] = name
            self.readings[name] = reading


Fault = Callable[[dict[str, Any], bytes], bytes]
# The ways in which a payload is broken; each leaves the number in it, which keeps messages apart.
FAULTS: Final[tuple[Fault, ...]] = (
    lambda _, payload: payload[: len(payload) // 2],
    lambda fields, _: b"\xff\xfe%d" % fields["n"],
    lambda fields, _: json.dumps(fields | {"temperature": "hot"}).encode(),
    lambda fields, _: json.dumps({key: fields[key] for key in ("n", "at_ms", "temperature")}).encode(),
    lambda fields, _: json.dumps([fields["n"]]).encode(),
)
