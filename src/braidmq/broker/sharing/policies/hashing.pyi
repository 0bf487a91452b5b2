from braidmq.broker.sharing.policies.base import Policy

class HashPolicy(Policy):
    def __init__(self, by_topic: bool) -> None: ...
