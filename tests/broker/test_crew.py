"""Every interleaving of what members and publishers of a shared group can do, on the real broker core."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from braidmq.broker.sharing.policies import POLICIES
from tests.broker.crew import NAMES, Crew

NUMBERS = st.integers(0, 30)


class CrewMachine(RuleBasedStateMachine):
    crew: Crew

    @initialize(policy=st.sampled_from(list(POLICIES)))
    def begin(self, policy: str) -> None:
        self.crew = Crew(policy)
        self.crew.come(0, 20, True, False)
        self.crew.subscribe(0, 2)

    @rule(number=NUMBERS, expiry_s=st.sampled_from((0, 20, 99)), clean=st.booleans(), declares=st.booleans())
    def come(self, number: int, expiry_s: int, clean: bool, declares: bool) -> None:
        self.crew.come(number, expiry_s, clean, declares)

    @rule(number=NUMBERS, qos=st.integers(0, 2))
    def subscribe(self, number: int, qos: int) -> None:
        self.crew.subscribe(number, qos)

    @rule(number=NUMBERS)
    def unsubscribe(self, number: int) -> None:
        self.crew.unsubscribe(number)

    @rule(number=NUMBERS)
    def vanish(self, number: int) -> None:
        self.crew.vanish(number)

    @rule(number=NUMBERS, for_good=st.booleans())
    def say_goodbye(self, number: int, for_good: bool) -> None:
        self.crew.say_goodbye(number, for_good)

    @precondition(lambda self: len(self.crew.jobs) < 200)
    @rule(number=NUMBERS, qos=st.integers(0, 2), expiry_s=st.sampled_from((None, None, 1, 30)))
    def publish(self, number: int, qos: int, expiry_s: int | None) -> None:
        for step in range(3):
            self.crew.publish(number + step, qos, number + step, expiry_s)

    @rule(number=NUMBERS, refuses=st.sampled_from((False, False, True)))
    def acknowledge(self, number: int, refuses: bool) -> None:
        self.crew.acknowledge(number, refuses)

    @rule(number=NUMBERS)
    def complete(self, number: int) -> None:
        self.crew.complete(number)

    @rule(seconds=st.sampled_from((0.001, 0.1, 5.0, 25.0)))
    def let_time_pass(self, seconds: float) -> None:
        self.crew.let_time_pass(seconds)

    @rule(policy=st.sampled_from(list(POLICIES)))
    def change_policy(self, policy: str) -> None:
        self.crew.change_policy(policy)

    def teardown(self) -> None:
        if hasattr(self, "crew"):
            self.crew.finish()


TestCrew = CrewMachine.TestCase
TestCrew.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


def walk(crew: Crew, rng: Random, steps: int) -> None:
    def number() -> int:
        return rng.randrange(60)

    things: dict[Callable[[], None], int] = {
        lambda: crew.publish(number(), rng.choice((0, 1, 1, 2)), number(), rng.choice((None, None, 2))): 30,
        lambda: crew.acknowledge(number(), rng.random() < 0.1): 25,
        lambda: crew.complete(number()): 8,
        lambda: crew.come(number(), rng.choice((0, 20, 20)), rng.random() < 0.3, rng.random() < 0.5): 6,
        lambda: crew.subscribe(number(), rng.choice((0, 1, 2, 2))): 8,
        lambda: crew.unsubscribe(number()): 1,
        lambda: crew.vanish(number()): 3,
        lambda: crew.say_goodbye(number(), rng.random() < 0.3): 2,
        lambda: crew.let_time_pass(rng.choice((0.001, 0.05, 1.0, 25.0))): 6,
        lambda: crew.change_policy(rng.choice(list(POLICIES))): 1,
    }
    for thing in rng.choices(list(things), list(things.values()), k=steps):
        thing()


@pytest.mark.parametrize("policy", POLICIES)
def test_long_walks(policy: str) -> None:
    for seed in range(3):
        rng = Random(f"{policy} {seed}")
        crew = Crew(policy)
        for index in range(len(NAMES)):
            crew.come(index, rng.choice((0, 20)), True, rng.random() < 0.5)
            crew.subscribe(index, 2)
        walk(crew, rng, 250)
        crew.finish()
