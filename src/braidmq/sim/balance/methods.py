"""What is compared: a policy of the broker, and the signals that it gets from members."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Final

from braidmq.broker.sharing.policies import Policy, make_policy
from braidmq.sim.balance.reference_policies import LeastServicePolicy, PowerOfTwoPolicy


class Who(Enum):
    """Which members of a group."""

    NONE = ()
    ALL = (0, 1)
    EVEN = (0,)
    ODD = (1,)

    def has(self, index: int) -> bool:
        return index % 2 in self.value


@dataclass(frozen=True, slots=True)
class Method:
    name: str
    policy: str
    options: Mapping[str, object] = field(default_factory=dict)
    qos: int = 0
    on_receipt: Who = Who.NONE  # who acknowledges before the work is done
    declares: Who = Who.ALL  # who says that it acknowledges when the work is done
    status_interval_s: float | None = None
    reports_events: bool = False
    socket_messages: int | None = None  # how many fit between the broker and the member before it is pressed
    knows_rtt: bool = True

    @property
    def depends_on_chance(self) -> bool:
        """On a steady network: by a draw in the policy, or by when members report."""
        return self.status_interval_s is not None or self.policy in {"random", "power of two"}

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
        # No signal at all, or the socket's.
        Method("random", "random"),
        Method("round_robin", "round_robin"),
        Method("round_robin + socket", "round_robin", socket_messages=16),
        # Status reports, once a second or also when the queue changes.
        Method("status", "status", status_interval_s=_PINGS),
        Method("status + events", "status", status_interval_s=_PINGS, reports_events=True),
        Method("status2", "status2", {"rule": "wait"}, status_interval_s=_PINGS),
        Method("status2 + events", "status2", status_interval_s=_PINGS, reports_events=True),
        # Acknowledgements when processed.
        Method("power of two", "power of two", qos=1),
        Method("least_inflight", "least_inflight", qos=1),
        Method("least x service", "least x service", qos=1),
        Method("adaptive", "adaptive", qos=1),
        Method("adaptive, rtt not known", "adaptive", qos=1, knows_rtt=False),
        Method("adaptive, undeclared", "adaptive", qos=1, declares=Who.NONE),
        # Acknowledgements on receipt, by all members or by every other.
        Method("round_robin, receipt", "round_robin", qos=1, on_receipt=Who.ALL),
        Method("least_inflight, receipt", "least_inflight", qos=1, on_receipt=Who.ALL),
        Method("adaptive, receipt", "adaptive", qos=1, on_receipt=Who.ALL, declares=Who.NONE),
        Method("adaptive, receipt + events", "adaptive", qos=1, on_receipt=Who.ALL, declares=Who.NONE,
               status_interval_s=_PINGS, reports_events=True),
        Method("adaptive, receipt, false", "adaptive", qos=1, on_receipt=Who.ALL),
        Method("adaptive, half receipt", "adaptive", qos=1, on_receipt=Who.ODD, declares=Who.EVEN),
        Method("adaptive, half receipt, silent", "adaptive", qos=1, on_receipt=Who.ODD, declares=Who.NONE),
    )
}  # fmt: skip

IDEAL: Final = "ideal"
TABLE: Final = (
    "random", "round_robin", "round_robin + socket", "status", "status2", "status2 + events",
    "power of two", "least_inflight", "least x service", "adaptive", IDEAL,
)  # fmt: skip
VALIDATION: Final = tuple(name for name in METHODS if name != "round_robin + socket")
