"""Every message goes to exactly one member, none is lost or doubled, whatever may happen in whatever order.

Twice: hypothesis looks for short stories, and seeded walks tell long ones.
"""

from collections.abc import Callable
from math import inf
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from braidmq.broker.sharing.policies import POLICIES
from braidmq.broker.sharing.settings import GroupSettings

from .group_model import REFUSAL, World

ORDERED = ("hash_client", "hash_topic", "sticky")
KEYS = st.sampled_from(["k0", "k1", "k2"])
PICK = st.integers(0, 50)


class GroupMachine(RuleBasedStateMachine):
    policies = tuple(POLICIES)

    @initialize(
        data=st.data(),
        requeue=st.sampled_from(["auto", "session_end", "disconnect"]),
        overflow=st.sampled_from(["drop_new", "drop_oldest", "push", "refuse"]),
        keep_qos0=st.booleans(),
        messages_max=st.sampled_from([3, 1000]),
        memory_bytes_max=st.sampled_from([10, 40, 1_000_000]),
        has_disk=st.booleans(),
    )
    def start(
        self,
        data: st.DataObject,
        requeue: str,
        overflow: str,
        keep_qos0: bool,
        messages_max: int,
        memory_bytes_max: int,
        has_disk: bool,
    ) -> None:
        chosen = GroupSettings(
            requeue=requeue,  # type: ignore[arg-type]
            overflow=overflow,  # type: ignore[arg-type]
            keep_qos0=keep_qos0,
            messages_max=messages_max,
            memory_bytes_max=memory_bytes_max,
        )
        self.world = World(data.draw(st.sampled_from(self.policies)), chosen, has_disk=has_disk)
        for receive_max in (1, 3):
            self.world.join(2, receive_max, True)

    @rule(qos=st.integers(0, 2), publisher=KEYS, topic=KEYS, life_s=st.sampled_from([inf, 1.0, 0.0]))
    def publish(self, qos: int, publisher: str, topic: str, life_s: float) -> None:
        self.world.publish(qos, publisher, topic, life_s)

    @rule(qos=st.integers(0, 2), count=st.integers(2, 8), key=KEYS)
    def publish_many(self, qos: int, count: int, key: str) -> None:
        for _ in range(count):
            self.world.publish(qos, key, key)

    @rule(seconds=st.sampled_from([0.001, 0.02, 0.3, 2.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.let_time_pass(seconds)

    @rule()
    def sweep(self) -> None:
        self.world.sweep()

    @rule(count=st.integers(1, 3))
    def page_out(self, count: int) -> None:
        self.world.page_out(count)

    @rule()
    def page_in(self) -> None:
        self.world.page_in()

    @rule(number=PICK, reason=st.sampled_from([0, 0, 0, REFUSAL]))
    def acknowledge(self, number: int, reason: int) -> None:
        self.world.acknowledge(number, reason)

    @rule(number=PICK)
    def complete(self, number: int) -> None:
        self.world.complete(number)

    @rule(number=PICK)
    def refuse_to_send(self, number: int) -> None:
        self.world.refuse_to_send(number)

    @rule(number=PICK, token=st.integers(100, 400))
    def acknowledge_again(self, number: int, token: int) -> None:
        self.world.acknowledge_again(number, token)

    @rule(number=PICK, queue=st.integers(0, 50), processing_s=st.sampled_from([0.0, 0.01, 0.4]))
    def report(self, number: int, queue: int, processing_s: float) -> None:
        self.world.report(number, queue, processing_s)

    @rule(number=PICK)
    def press(self, number: int) -> None:
        self.world.press(number)

    @rule(qos=st.integers(0, 2), receive_max=st.sampled_from([1, 3, 100]), declares=st.booleans())
    def join(self, qos: int, receive_max: int, declares: bool) -> None:
        self.world.join(qos, receive_max, declares)

    @rule(number=PICK, qos=st.integers(0, 2))
    def subscribe_again(self, number: int, qos: int) -> None:
        self.world.subscribe(number, qos)

    @rule(number=PICK)
    def unsubscribe(self, number: int) -> None:
        self.world.unsubscribe(number)

    @rule(number=PICK)
    def disconnect(self, number: int) -> None:
        self.world.disconnect(number)

    @rule(number=PICK)
    def reconnect(self, number: int) -> None:
        self.world.reconnect(number)

    @rule(number=PICK)
    def take_over(self, number: int) -> None:
        self.world.take_over(number)

    @rule(number=PICK)
    def end(self, number: int) -> None:
        self.world.end(number)

    @rule(data=st.data())
    def change_policy(self, data: st.DataObject) -> None:
        self.world.change_policy(data.draw(st.sampled_from(self.policies)))

    @invariant()
    def everything_is_in_one_place(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.finish()


class OrderedGroupMachine(GroupMachine):
    policies = ORDERED


TestGroup = GroupMachine.TestCase
TestGroup.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
TestOrderedGroup = OrderedGroupMachine.TestCase
TestOrderedGroup.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)


def walk(world: World, rng: Random, policies: tuple[str, ...], steps: int) -> None:
    keys = ["k0", "k1", "k2"]

    def number() -> int:
        return rng.randrange(50)

    things: dict[Callable[[], None], int] = {
        lambda: world.publish(rng.choice((0, 1, 1, 2)), rng.choice(keys), rng.choice(keys)): 25,
        lambda: world.publish(rng.choice((0, 1, 2)), rng.choice(keys), rng.choice(keys), 1.0): 5,
        lambda: world.acknowledge(number(), rng.choice((0, 0, 0, 0, REFUSAL))): 20,
        lambda: world.complete(number()): 5,
        lambda: world.let_time_pass(rng.choice((0.001, 0.02, 0.3))): 10,
        lambda: world.join(rng.choice((0, 1, 2, 2)), rng.choice((1, 2, 100)), rng.random() < 0.5): 4,
        lambda: world.disconnect(number()): 3,
        lambda: world.reconnect(number()): 4,
        lambda: world.take_over(number()): 2,
        lambda: world.unsubscribe(number()): 1,
        lambda: world.subscribe(number(), rng.choice((0, 1, 2))): 2,
        lambda: world.end(number()): 2,
        lambda: world.report(number(), rng.randrange(9), rng.choice((0.0, 0.01, 0.4))): 2,
        lambda: world.refuse_to_send(number()): 1,
        lambda: world.acknowledge_again(number(), 10_000): 1,
        lambda: world.press(number()): 1,
        lambda: world.sweep(): 1,
        lambda: world.page_out(rng.randrange(1, 4)): 5,
        lambda: world.page_in(): 5,
        lambda: world.change_policy(rng.choice(policies)): 1,
    }
    for thing in rng.choices(list(things), list(things.values()), k=steps):
        thing()
        world.check()


@pytest.mark.parametrize("requeue", ["auto", "session_end", "disconnect"])
@pytest.mark.parametrize("overflow", ["drop_new", "drop_oldest", "push", "refuse"])
@pytest.mark.parametrize("policies", [tuple(POLICIES), ORDERED], ids=["all", "ordered"])
def test_long_walks(requeue: str, overflow: str, policies: tuple[str, ...]) -> None:
    for seed in range(20):
        rng = Random(f"{requeue} {overflow} {policies} {seed}")
        chosen = GroupSettings(
            requeue=requeue,  # type: ignore[arg-type]
            overflow=overflow,  # type: ignore[arg-type]
            messages_max=rng.choice((4, 1000)),
            memory_bytes_max=rng.choice((10, 40, 1_000_000)),
        )
        world = World(rng.choice(policies), chosen, has_disk=seed % 2 == 1)
        walk(world, rng, policies, 200)
        world.finish()
