from typing import Literal

from braidmq.broker.sharing.policies.base import Policy

class StatusPolicy(Policy):
    def __init__(self) -> None: ...

class Status2Policy(Policy):
    def __init__(self, rule: Literal["auto", "wait", "completion"] = "auto") -> None: ...
