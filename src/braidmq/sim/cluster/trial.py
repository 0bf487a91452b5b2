"""Tells one story and judges it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from braidmq.sim.cluster import trace as seen
from braidmq.sim.cluster.checkers import CHECKERS
from braidmq.sim.cluster.ending import unsettled
from braidmq.sim.cluster.group_checkers import GROUP_CHECKERS
from braidmq.sim.cluster.plan import Echo, Plan, Task
from braidmq.sim.cluster.story import Story
from braidmq.sim.cluster.trace import Trace
from braidmq.sim.cluster.world import World

SETTLE_S: Final = 30.0  # after the last fault all is well again by then
LOOK_S: Final = 1.0
STILL_S: Final = 3.0  # nobody has got anything for so long: nothing is under way any more
START_S: Final = 0.5  # within this the nodes start


@dataclass(frozen=True, slots=True)
class Result:
    seed: int
    wrong: tuple[str, ...]
    digest: str
    published: int
    got: int


def run(task: Task) -> Result:
    """The same task gives the same result, on every machine."""
    try:
        trace, wrong = tell(task)
    except Exception as error:  # a node that breaks is what is looked for, and must not end the search
        trace, wrong = Trace(), [f"a node broke: {error!r}"]
    published = sum(1 for _ in trace.all(seen.Published))
    got = sum(1 for _ in trace.all(seen.Got))
    return Result(task.seed, tuple(wrong), trace.digest(), published, got)


def tell(task: Task) -> tuple[Trace, list[str]]:
    """What happened, and what was wrong with it."""
    plan = Plan(task)
    world = World(task.seed, plan.limits, plan.delays)
    _begin(world, plan)
    for at_s, deed in plan.deeds:
        if at_s > plan.ends_s:
            break
        world.run_until(at_s)
        deed(world)
    world.run_until(plan.ends_s)
    _mend_all(world)
    wrong = _settle(world, plan)
    world.end()
    return world.trace, wrong + judge(world.trace)


def judge(trace: Trace) -> list[str]:
    story = Story(trace)
    return [line for check in (*CHECKERS, *GROUP_CHECKERS) for line in check(story)]


def _begin(world: World, plan: Plan) -> None:
    world.add_nodes(plan.habits)
    echo = Echo(plan, world)
    for name in plan.client_names:
        client = world.add_client(name, plan.homes[name], plan.manners[name])
        client.on_granted = echo
    for name in plan.nodes:
        world.clock.at(plan.rng.uniform(0.0, START_S), _starting(world, name))


def _starting(world: World, name: str) -> Callable[[], None]:
    return lambda: world.start(name)


def _mend_all(world: World) -> None:
    world.mend(world.network.blocked())
    for name in world.machines:
        world.start(name)
    for client in world.clients.values():
        if not client.is_wanted:
            client.come()


def _settle(world: World, plan: Plan) -> list[str]:
    """Wait until nothing moves and all is well; what is not, if that never comes."""
    still_s, length, wrong = 0.0, -1, ["it never came to rest"]
    while world.clock.now < plan.ends_s + SETTLE_S and (wrong or still_s < STILL_S):
        world.run_until(world.clock.now + LOOK_S)
        still_s = still_s + LOOK_S if len(world.trace.events) == length else 0.0
        length = len(world.trace.events)
        wrong = unsettled(world)
    return wrong
