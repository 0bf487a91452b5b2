from braidmq.broker.sharing.policies.base import Policy

class LeastInflightPolicy(Policy):
    def __init__(self) -> None: ...

class AdaptivePolicy(Policy):
    def __init__(self, window: int = 2, trust_all: bool = False) -> None: ...
