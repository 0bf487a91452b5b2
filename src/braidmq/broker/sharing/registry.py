"""All shared groups of one broker: they are made, configured and forgotten here.

Which policy and settings a group has: those of `name/filter` in the configuration if it has any, filled up
with those of `name`, then with the broker's. Invariant: a group is here exactly as long as it is in the
router. Cost: what is done with all groups (another configuration, other rights, sweeping) is O(groups).
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import inf
from random import Random
from typing import Any, Final, NamedTuple

import msgspec

from braidmq.broker.hub import Hub
from braidmq.broker.session import Session
from braidmq.broker.sharing.agenda import Agenda
from braidmq.broker.sharing.group import SharedGroup
from braidmq.broker.sharing.policies import make_policy
from braidmq.broker.sharing.receiver import GroupReceiver, SessionMember
from braidmq.broker.sharing.settings import GroupSettings
from braidmq.config.groups import GroupOverride, GroupsConfig, PolicyName
from braidmq.errors import ConfigError
from braidmq.store.records import GroupName
from braidmq.timing.timers import Timers

SWEEP_S: Final = 5.0  # how long an expired message may hold memory in a group
SWEEP_SHARE: Final = 0.25  # of a turn's time that sweeping may take; it goes on
SWEEP_PAUSE_S: Final = 0.01  # after this
MayRead = Callable[[Session, bytes], bool]
SETTINGS: Final = tuple(field.name for field in msgspec.structs.fields(GroupSettings))


class Plan(NamedTuple):
    """What the configuration says about one group."""

    policy: str
    options: Mapping[str, Any]
    settings: GroupSettings


class GroupRegistry:
    def __init__(self, hub: Hub, timers: Timers, rng: Random, config: GroupsConfig) -> None:
        refuse_doubtful(config)
        self.config = config
        self._hub = hub
        self._timers = timers
        self._rng = rng
        self._agenda = hub.agenda = Agenda()
        self._may_read: MayRead | None = None
        self._groups: dict[GroupName, GroupReceiver] = {}
        self._forget: Callable[[GroupReceiver], None] = lambda group: None
        self._sweep()

    def on_gone(self, forget: Callable[[GroupReceiver], None]) -> None:
        """Call `forget` with every group that is no longer needed."""
        self._forget = forget

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[GroupReceiver]:
        return iter(list(self._groups.values()))

    def get(self, name: str, filter: bytes) -> GroupReceiver | None:
        return self._groups.get(GroupName(name, filter))

    def make(self, name: str, filter: bytes) -> GroupReceiver:
        """A new group; nobody is in it yet."""
        plan = plan_of(self.config, name, filter)
        core = SharedGroup(make_policy(plan.policy, self._rng, plan.options), plan.settings, self._hub)
        core.readers.ask(self._member_may_read())
        group = GroupReceiver(name, filter, self._hub, core, self._agenda, self)
        self._groups[GroupName(name, filter)] = group
        return group

    def gone(self, group: GroupReceiver) -> None:
        """Nobody is in the group any more."""
        name = GroupName(group.name, group.filter)
        if self._groups.get(name) is group:
            del self._groups[name]
            self._forget(group)

    def wake(self, group: GroupReceiver, at_s: float) -> None:
        """Time alone may let a member have what waits."""
        if at_s != inf:
            self._timers.set(at_s, group.woken)

    def configure(self, config: GroupsConfig) -> None:
        """Let all groups go on as another configuration says. ConfigError: nothing has changed."""
        refuse_doubtful(config)
        old, self.config = self.config, config
        for group in self:
            before = plan_of(old, group.name, group.filter)
            plan = plan_of(config, group.name, group.filter)
            is_same = (plan.policy, plan.options) == (before.policy, before.options)
            policy = None if is_same else make_policy(plan.policy, self._rng, plan.options)
            group.configure(policy, plan.settings)

    def change_policy(
        self, name: str, filter: str | None, policy: PolicyName, options: Mapping[str, Any]
    ) -> None:
        """Let the groups of a name (of a filter: that one alone) have another policy. ConfigError: nothing
        has changed."""
        key = name if filter is None else f"{name}/{filter}"
        former = self.config.override.get(key, GroupOverride())
        override = msgspec.structs.replace(former, policy=policy, options=dict(options))
        self.configure(msgspec.structs.replace(self.config, override={**self.config.override, key: override}))

    def restrict(self, may_read: MayRead | None) -> None:
        """Ask `may_read` before a member gets a message; None: nobody is asked."""
        self._may_read = may_read
        for group in self:
            group.core.readers.ask(self._member_may_read())
            group.rights_changed()

    def _member_may_read(self) -> Callable[[Any, Any], bool] | None:
        may_read = self._may_read
        if may_read is None:
            return None

        def member_may_read(member: SessionMember, topic: bytes) -> bool:
            return may_read(member.session, topic)

        return member_may_read

    def _sweep(self) -> None:
        self._sweep_some(iter(self))

    def _sweep_some(self, groups: Iterator[GroupReceiver]) -> None:
        """Sweep groups until others should have their turn; the rest follow soon."""
        until_s = self._hub.stopwatch.read_s() + self._hub.limits.work_ms_max / 1000 * SWEEP_SHARE
        for group in groups:
            group.sweep()
            if self._hub.stopwatch.read_s() > until_s:
                self._timers.set(self._hub.now + SWEEP_PAUSE_S, partial(self._sweep_some, groups))
                return
        self._timers.set(self._hub.now + SWEEP_S, self._sweep)


def plan_of(config: GroupsConfig, name: str, filter: bytes) -> Plan:
    """What the configuration says about the group of that name and filter."""
    overrides = [
        config.override[key] for key in (f"{name}/{filter.decode()}", name) if key in config.override
    ]
    values = {setting: _first_set(overrides, setting, getattr(config, setting)) for setting in SETTINGS}
    for override in overrides:
        if override.policy is not None:
            return Plan(override.policy, override.options or {}, GroupSettings(**values))
    options = _first_set(overrides, "options", config.options)
    return Plan(config.policy, options, GroupSettings(**values))


def _first_set(overrides: list[GroupOverride], name: str, default: Any) -> Any:
    return next(
        (getattr(override, name) for override in overrides if getattr(override, name) is not None), default
    )


def refuse_doubtful(config: GroupsConfig) -> None:
    """Raise ConfigError if a policy can't have the options that it is given."""
    _refuse_doubtful_options(config.policy, config.options, "[groups]")
    for key in config.override:
        name, _, filter = key.partition("/")
        plan = plan_of(config, name, filter.encode())
        _refuse_doubtful_options(plan.policy, plan.options, f'[groups.override."{key}"]')


def _refuse_doubtful_options(policy: str, options: Mapping[str, Any], where: str) -> None:
    try:
        make_policy(policy, Random(0), options)
    except ConfigError as error:
        raise ConfigError(f"{where} {error}") from error
