"""What is compared: a policy of the broker, and the signals that it gets from members.

`signals`: - none, T socket, P status reports, A acknowledgements when processed, R acknowledgements on receipt.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from braidmq.broker.policies import Policy, make_policy
from braidmq.sim.balance.reference_policies import LeastServicePolicy, PowerOfTwoPolicy


@dataclass(frozen=True, slots=True)
class Method:
    name: str
    policy: str
    options: Mapping[str, object] = field(default_factory=dict)
    signals: str = "-"
    status_interval_s: float | None = None
    reports_events: bool = False
    socket_messages: int | None = None  # how many fit between the broker and the member before it is pressed
    declares: bool = True  # members declare that they acknowledge when processed
    knows_rtt: bool = True

    @property
    def qos(self) -> int:
        return 1 if self.signals[0] in "AR" else 0

    @property
    def acks_on_receipt(self) -> bool:
        return self.signals[0] == "R"

    def make(self, rng: Random) -> Policy:
        reference = _REFERENCES.get(self.policy)
        return make_policy(self.policy, rng, self.options) if reference is None else reference(rng)


_REFERENCES: Final[dict[str, Callable[[Random], Policy]]] = {
    "power of two": PowerOfTwoPolicy,
    "least x service": lambda _rng: LeastServicePolicy(),
}
_PINGS: Final = 1.0

METHODS: Final = {
    method.name: method
    for method in (
        Method("random", "random"),
        Method("round_robin", "round_robin"),
        Method("round_robin + socket 16", "round_robin", signals="T", socket_messages=16),
        Method("status", "status", signals="P", status_interval_s=_PINGS),
        Method("status + events", "status", signals="P", status_interval_s=_PINGS, reports_events=True),
        Method("status2", "status2", {"rule": "wait"}, signals="P", status_interval_s=_PINGS),
        Method("status2 + events", "status2", signals="P", status_interval_s=_PINGS, reports_events=True),
        Method("power of two", "power of two", signals="A"),
        Method("least_inflight", "least_inflight", signals="A"),
        Method("least x service", "least x service", signals="A"),
        Method("adaptive", "adaptive", signals="A"),
        Method("adaptive, rtt not known", "adaptive", signals="A", knows_rtt=False),
        Method("adaptive, undeclared", "adaptive", signals="A", declares=False),
        Method("round_robin, receipt", "round_robin", signals="R"),
        Method("least_inflight, receipt", "least_inflight", signals="R"),
        Method("adaptive, receipt, undeclared", "adaptive", signals="R", declares=False),
        Method("adaptive, receipt, declared", "adaptive", signals="R"),
        Method("adaptive, receipt, status", "adaptive", signals="R", declares=False,
               status_interval_s=_PINGS, reports_events=True),
    )
}  # fmt: skip

IDEAL: Final = "ideal"
TABLE: Final = (
    "random", "round_robin", "round_robin + socket 16", "status", "status2", "status2 + events",
    "power of two", "least_inflight", "least x service", "adaptive", IDEAL,
)  # fmt: skip
VALIDATION: Final = (
    "random", "round_robin", "status", "status + events", "status2", "status2 + events", "power of two",
    "least_inflight", "least x service", "adaptive", "adaptive, rtt not known", "adaptive, undeclared",
    "round_robin, receipt", "least_inflight, receipt", "adaptive, receipt, undeclared",
    "adaptive, receipt, declared", "adaptive, receipt, status",
)  # fmt: skip
