"""Every policy by its name in the configuration, with its options. `make_policy` is how policies are made.

Options are checked before anything is built; what is wrong is said in one ConfigError. The order of the
table is the one in which policies are listed to users: from those that know nothing of the members to those
that know most.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from braidmq.broker.sharing.policies.acknowledged import AdaptivePolicy, LeastInflightPolicy
from braidmq.broker.sharing.policies.base import Policy
from braidmq.broker.sharing.policies.hashing import HashPolicy
from braidmq.broker.sharing.policies.reported import Status2Policy, StatusPolicy
from braidmq.broker.sharing.policies.simple import (
    CapacityPolicy,
    RandomPolicy,
    RoundRobinPolicy,
    StickyPolicy,
    WeightedPolicy,
)
from braidmq.errors import ConfigError

# Why this one: docs/decisions/default-group-policy.md.
DEFAULT_POLICY: Final = "adaptive"

Share = Annotated[float, Meta(gt=0, le=1_000_000)]


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No options."""


class WeightedOptions(Options, frozen=True, kw_only=True):
    weights: dict[str, Share] = {}  # by client id; others have the weight that they declared, or 1


class StickyOptions(Options, frozen=True, kw_only=True):
    publishers_max: Annotated[int, Meta(ge=1)] = 10_000  # the one heard of longest ago is forgotten first
    one_for_all: bool = False  # one member gets everything until it goes


class CapacityOptions(Options, frozen=True, kw_only=True):
    capacities: dict[str, Share] = {}  # messages a second by client id
    default_capacity: Share = 100.0  # of members that neither declared nor are listed


class Status2Options(Options, frozen=True, kw_only=True):
    rule: Literal["auto", "wait", "completion"] = "auto"


class AdaptiveOptions(Options, frozen=True, kw_only=True):
    window: Annotated[int, Meta(ge=1, le=1000)] = 2  # messages at a member while the group has no backlog
    trust_all: bool = False  # all members acknowledge when processed, declared or not


class PolicyRow(NamedTuple):
    options: type[Options]
    make: Callable[[Random, Any], Policy]
    about: str


POLICIES: Final[dict[str, PolicyRow]] = {
    "random": PolicyRow(
        Options,
        lambda rng, _: RandomPolicy(rng),
        "any member, evenly",
    ),
    "round_robin": PolicyRow(
        Options,
        lambda _rng, _: RoundRobinPolicy(),
        "one after the other",
    ),
    "weighted": PolicyRow(
        WeightedOptions,
        lambda _rng, options: WeightedPolicy(options.weights),
        "one after the other, in proportion to weights",
    ),
    "sticky": PolicyRow(
        StickyOptions,
        lambda _rng, options: StickyPolicy(options.publishers_max, options.one_for_all),
        "each publisher stays with one member until it goes",
    ),
    "hash_client": PolicyRow(
        Options,
        lambda _rng, _: HashPolicy(False),
        "each publisher has its member, by hash",
    ),
    "hash_topic": PolicyRow(
        Options,
        lambda _rng, _: HashPolicy(True),
        "each topic has its member, by hash",
    ),
    "capacity": PolicyRow(
        CapacityOptions,
        lambda rng, options: CapacityPolicy(rng, options.capacities, options.default_capacity),
        "at random, in proportion to the capacity left",
    ),
    "status": PolicyRow(
        Options,
        lambda _rng, _: StatusPolicy(),
        "by status reports, with the thesis's score",
    ),
    "status2": PolicyRow(
        Status2Options,
        lambda _rng, options: Status2Policy(options.rule),
        "by status reports: who is expected to be done first",
    ),
    "least_inflight": PolicyRow(
        Options,
        lambda _rng, _: LeastInflightPolicy(),
        "the fewest unacknowledged messages",
    ),
    "adaptive": PolicyRow(
        AdaptiveOptions,
        lambda _rng, options: AdaptivePolicy(options.window, options.trust_all),
        "by acknowledgements and reports: who is expected to be done first; messages wait in the group",
    ),
}


def make_policy(name: str, rng: Random, options: Mapping[str, object] | None = None) -> Policy:
    row = POLICIES.get(name)
    if row is None:
        raise ConfigError(f"no policy is called {name!r}; there are {', '.join(POLICIES)}")
    try:
        checked = msgspec.convert(dict(options or {}), row.options)
    except msgspec.ValidationError as error:
        raise ConfigError(f"options of policy {name!r}: {error}") from None
    return row.make(rng, checked)


def migrate(
    old: Policy, name: str, rng: Random, now: float, options: Mapping[str, object] | None = None
) -> Policy:
    """A new policy with the members of `old` in their order.

    Nothing else has to move: what was measured and what is in flight is the members' own.
    """
    policy = make_policy(name, rng, options)
    policy.take_over(old, now)
    return policy
