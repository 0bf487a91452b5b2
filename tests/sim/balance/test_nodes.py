"""A group on three nodes, by the broker's own objects: what a hop to the owner costs."""

from random import Random

import pytest

from braidmq.sim.balance.methods import METHODS
from braidmq.sim.balance.named import NAMED
from braidmq.sim.balance.nodes import NodesWorld
from braidmq.sim.balance.trial import summed_up
from braidmq.sim.balance.world import World


def mean_wait_ms(hop_s: float | None, scenario: str = "S2", method: str = "adaptive") -> float:
    made = NAMED[scenario](Random(1))
    world = (
        World(made, METHODS[method], Random(2))
        if hop_s is None
        else NodesWorld(made, METHODS[method], Random(2), hop_s)
    )
    return summed_up(made, world.run()).wait_mean_ms


@pytest.mark.parametrize("hop_ms", [0.2, 1.0, 5.0])
def test_one_owner_keeps_the_wait_near_that_of_one_broker(hop_ms: float) -> None:
    assert mean_wait_ms(hop_ms / 1000) <= 1.5 * mean_wait_ms(None)


def test_nodes_without_a_way_between_them_are_one_broker() -> None:
    assert mean_wait_ms(0.0) == pytest.approx(mean_wait_ms(None), rel=0.02)
