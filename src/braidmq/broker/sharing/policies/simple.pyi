from random import Random

from braidmq.broker.sharing.policies.base import Policy

class RandomPolicy(Policy):
    def __init__(self, rng: Random) -> None: ...

class RoundRobinPolicy(Policy):
    def __init__(self) -> None: ...

class WeightedPolicy(Policy):
    def __init__(self, weights: dict[str, float] | None = None) -> None: ...

class StickyPolicy(Policy):
    def __init__(self, publishers_max: int = 10_000, one_for_all: bool = False) -> None: ...

class CapacityPolicy(Policy):
    def __init__(
        self, rng: Random, capacities: dict[str, float] | None = None, default_capacity: float = 100.0
    ) -> None: ...
