"""Parts: they take what they declare, and are told what becomes of peers."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Any

from braidmq.cluster import frames
from braidmq.cluster.effects import Effect, SendControl, SendFrame
from braidmq.cluster.frames import Control, FrameError
from braidmq.cluster.parts import Part
from tests.cluster.world import World


class Whisper(Control, frozen=True):
    text: str


@dataclass(frozen=True)
class Whispered:
    to: int
    text: str


class Whispers(Part):
    events = (Whispered,)
    controls = (Whisper,)
    frames = (frames.SEEN,)

    def __init__(self, name: str) -> None:
        self.name = name
        self.log: list[Any] = []

    def handle(self, event: Whispered, now: float) -> Iterable[Effect]:
        yield SendControl(event.to, Whisper(event.text))
        yield SendFrame(event.to, frames.seen(7))
        self.next_at_s = now + 1.0

    def received(self, peer: int, control: Whisper, now: float) -> Iterable[Effect]:
        if control.text == "nonsense":
            raise FrameError("a whisper that nobody understands")
        self.log.append(control.text)
        return ()

    def framed(self, peer: int, first: int, body: bytes, now: float) -> Iterable[Effect]:
        self.log.append(frames.read_seen(body))
        return ()

    def welcome(self, peer: int) -> dict[str, Any]:
        return {"from": self.name}

    def welcomed(self, peer: int, said: dict[str, Any], now: float) -> Iterable[Effect]:
        self.log.append(("welcomed", said["from"]))
        return ()

    def linked(self, peer: int, now: float) -> Iterable[Effect]:
        self.log.append("linked")
        return ()

    def unlinked(self, peer: int, now: float) -> Iterable[Effect]:
        self.log.append("unlinked")
        return ()

    def died(self, peer: int, now: float) -> Iterable[Effect]:
        self.log.append("died")
        return ()

    def forgotten(self, peer: int, now: float) -> Iterable[Effect]:
        self.log.append("forgotten")
        return ()

    def time_came(self, now: float) -> Iterable[Effect]:
        self.next_at_s = inf
        self.log.append("time came")
        return ()


def whispering() -> tuple[World, list[Whispers]]:
    world, parts = World(), [Whispers("n0"), Whispers("n1")]
    world.seeds = ("n0:7000",)
    for part in parts:
        node = world.add(part.name, keeps=False)
        node.make_parts = lambda cluster, part=part: [part]  # type: ignore[misc]
        node.start()
    world.run(1.0)
    return world, parts


def test_a_part_hears_of_a_peers_life() -> None:
    world, (part, _) = whispering()
    world.nodes["n1"].stop(is_sudden=False)
    world.run(5.0)
    assert part.log == [("welcomed", "n1"), "linked", "unlinked", "died", "forgotten"]


def test_what_a_part_sends_reaches_the_same_part_elsewhere() -> None:
    world, (one, other) = whispering()
    first, second = world.nodes.values()
    first.tell(Whispered(second.id, "hello"))
    world.run(2.0)
    assert other.log[2:] == ["hello", 7]
    assert one.log[2:] == ["time came"]


def test_what_is_for_nobody_is_not_sent() -> None:
    world, _ = whispering()
    first = world.nodes["n0"]
    before = len(first.effects)
    first.tell(Whispered(12345, "hello"))
    assert first.effects[before:] == []


def test_a_part_that_finds_a_fault_ends_the_link() -> None:
    world, (_, other) = whispering()
    first, second = world.nodes.values()
    first.tell(Whispered(second.id, "nonsense"))
    world.run(0.1)
    assert other.log[2:] == ["unlinked"]
    assert "a whisper that nobody understands" in second.told[-1].sentence
    world.run(2.0)
    assert second.states() == {"n0": "live"}
