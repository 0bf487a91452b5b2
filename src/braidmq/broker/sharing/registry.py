"""All shared groups of one broker: they are made, configured and forgotten here.

Which policy and settings a group has: those of `name/filter` in the configuration if it has any, filled up
with those of `name`, then with the broker's. Invariant: a group is here exactly as long as it is in the
router. Cost: what is done with all groups (another configuration, other rights, sweeping) is O(groups).

In a cluster one node has a group, its owner. There it is a GroupReceiver; where others have members of it,
it is a GroupProxy. When the owner changes, one takes the other's place in the router: members leave the one
and join the other, and the one that they left stays `aside` until what was begun with it is finished.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import inf
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from braidmq.broker.hub import Hub
from braidmq.broker.receiver import Target
from braidmq.broker.session import Session
from braidmq.broker.sharing.agenda import Agenda
from braidmq.broker.sharing.far_events import Joined, Settled
from braidmq.broker.sharing.far_members import STAGES, FarMembers, RemoteMember
from braidmq.broker.sharing.group import SharedGroup
from braidmq.broker.sharing.member import Delivery
from braidmq.broker.sharing.placement import Placement
from braidmq.broker.sharing.policies import make_policy
from braidmq.broker.sharing.proxy import GroupProxy
from braidmq.broker.sharing.receiver import GroupReceiver, SessionMember
from braidmq.broker.sharing.settings import GroupSettings
from braidmq.config.groups import GroupOverride, GroupsConfig, PolicyName
from braidmq.errors import ConfigError
from braidmq.messages.message import Message
from braidmq.store.records import GroupName
from braidmq.store.state import Page
from braidmq.timing.timers import Timers

SWEEP_S: Final = 5.0  # how long an expired message may hold memory in a group
SWEEP_SHARE: Final = 0.25  # of a turn's time that sweeping may take; it goes on
SWEEP_PAUSE_S: Final = 0.01  # after this
MayRead = Callable[[Session, bytes], bool]
BOOT_SHIFT: Final = 40  # messages that a group may have in one life of its node, as a power of 2
GroupHere: TypeAlias = GroupReceiver | GroupProxy
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
        self._groups: dict[GroupName, GroupHere] = {}  # those in the router
        self._forget: Callable[[GroupHere], None] = lambda group: None
        self._replace: Callable[[GroupHere], None] = lambda group: None
        # In a cluster.
        self.placement: Placement | None = None
        self.far: FarMembers | None = None
        # What waited in groups that nobody here is in any more, after a restart; None: that is given up.
        self.orphans: dict[GroupName, tuple[dict[int, Message], list[Page]]] | None = None
        self.returns = 0  # messages that a member's node could not send
        self._aside: dict[GroupName, GroupReceiver] = {}
        self._proxies: dict[GroupName, GroupProxy] = {}
        self._numbered: dict[int, GroupName] = {}
        self._announced: set[GroupName] = set()
        self._sweep()

    def on_gone(self, forget: Callable[[GroupHere], None]) -> None:
        """Call `forget` with every group that is no longer needed."""
        self._forget = forget

    def on_replaced(self, replace: Callable[[GroupHere], None]) -> None:
        """Call `replace` with what takes the place of another group of that name and filter."""
        self._replace = replace

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[GroupReceiver]:
        """Those that this node has, or has yet to finish with."""
        here = [group for group in self._groups.values() if isinstance(group, GroupReceiver)]
        return iter(here + list(self._aside.values()))

    @property
    def proxies(self) -> list[GroupProxy]:
        """Of those that other nodes have."""
        return list(self._proxies.values())

    @property
    def subscriptions(self) -> int:
        """How many there are of sessions of this broker."""
        return sum(group.subscribed_count for group in self._groups.values())

    def get(self, name: str, filter: bytes) -> GroupHere | None:
        return self._groups.get(GroupName(name, filter))

    def make(self, name: str, filter: bytes) -> GroupHere:
        """A new group; nobody is in it yet."""
        here = GroupName(name, filter)
        owner = None if self.placement is None else self.placement.owner(self.placement.number(name, filter))
        if owner is None:
            group: GroupHere = self._receiver(here)
        else:
            group = self._proxy(here)
            group.follow(owner)
        self._groups[here] = group
        return group

    def gone(self, group: GroupHere) -> None:
        """Nobody is in the group any more."""
        name = GroupName(group.name, group.filter)
        if self._groups.get(name) is group:
            del self._groups[name]
            self._forget(group)
        if self._aside.get(name) is group:
            del self._aside[name]
        if self._proxies.get(name) is group:
            del self._proxies[name]
        if self.placement is not None and not self._is_known(name):
            self._numbered.pop(self.placement.number(*name), None)

    def _is_known(self, name: GroupName) -> bool:
        return name in self._groups or name in self._aside or name in self._proxies

    def _receiver(self, name: GroupName) -> GroupReceiver:
        """A group that this node has: one that it has not finished with, or a new one."""
        group = self._aside.pop(name, None)
        if group is not None:
            group.take_over()
            return group
        plan = plan_of(self.config, *name)
        core = SharedGroup(make_policy(plan.policy, self._rng, plan.options), plan.settings, self._hub)
        core.readers.ask(self._member_may_read())
        group = GroupReceiver(*name, self._hub, core, self._agenda, self)
        if self.placement is not None:
            self._place(group, self.placement)
        return group

    # ---- in a cluster --------------------------------------------------------------------------------

    def attach(self, placement: Placement) -> None:
        """This broker is a node of a cluster, from now on."""
        self.placement = placement
        self.far = FarMembers(self._hub, self, placement)
        for group in self:
            self._place(group, placement)
            self.near_changed(group)
        for name, (waiting, pages) in (self.orphans or {}).items():
            group = self._aside[name] = self._receiver(name)
            group.wait_for_owner(waiting, pages)
        self.orphans = None

    def _place(self, group: GroupReceiver, placement: Placement) -> None:
        self._numbered[placement.number(group.name, group.filter)] = GroupName(group.name, group.filter)
        group.join_cluster(placement.boot << BOOT_SHIFT)

    def _proxy(self, name: GroupName) -> GroupProxy:
        assert self.placement is not None
        proxy = self._proxies.get(name)
        if proxy is None:
            number = self.placement.number(*name)
            proxy = GroupProxy(*name, number, self._hub, self._agenda, self, self.placement)
            self._proxies[name] = proxy
            self._numbered[number] = name
        return proxy

    def place(self, number: int, owner: int | None) -> None:
        """That node has the group now; None: this one."""
        name = self._numbered.get(number)
        group = self._groups.get(name) if name is not None else None
        self._agenda.settle()
        if name is None or group is None:
            return
        if owner is None and isinstance(group, GroupProxy):
            self._take_over(name, group)
        elif owner is not None and isinstance(group, GroupReceiver):
            self._hand_over(name, group, owner)
        elif owner is not None and isinstance(group, GroupProxy):
            group.follow(owner)

    def _take_over(self, name: GroupName, proxy: GroupProxy) -> None:
        group = self._groups[name] = self._receiver(name)
        self._replace(group)
        for target in list(proxy.targets.values()):
            group.join(_of_group(target, group))
        proxy.let_go()
        group.pumped()

    def _hand_over(self, name: GroupName, group: GroupReceiver, owner: int) -> None:
        proxy = self._groups[name] = self._proxy(name)
        self._aside[name] = group
        self._replace(proxy)
        proxy.follow(owner)
        for member in list(group.near):
            place = group.core.place(member)
            assert place is not None
            proxy.join(_of_group(place.target, proxy))
        group.hand_over()
        for member in list(group.near):
            group.leave(member.session)
        if proxy.is_gone:
            self.gone(proxy)

    def call_roll(self, node: int) -> None:
        """Tell the node of all members that it may have to know."""
        for proxy in self.proxies:
            proxy.call_roll(node)
        for group in self:
            for member in group.core.members:
                restored = group.restored_deliveries(member) if isinstance(member, SessionMember) else []
                if restored and isinstance(member, SessionMember):
                    self._tell_restored(node, group, member, tuple(delivery.token for delivery in restored))

    def _tell_restored(
        self, node: int, group: GroupReceiver, member: SessionMember, numbers: tuple[int, ...]
    ) -> None:
        assert self.placement is not None
        number = self.placement.number(group.name, group.filter)
        lasts, boot = member.session.is_remembered, self.placement.boot
        self.placement.tell(node, Joined(number, member.name, -1, 0, False, lasts, boot, numbers=numbers))

    def answered_restored(self, group: GroupReceiver, delivery: Delivery, what: int, reason: int) -> None:
        """A client has answered what it has had since before a restart: whoever gave it should know."""
        assert self.placement is not None
        number = self.placement.number(group.name, group.filter)
        stage = STAGES[what]
        settled = Settled(number, delivery.member.name, 0, delivery.token, stage, reason, 0)
        self.placement.tell(None, settled)

    def knows_owner(self, group: GroupReceiver) -> bool:
        """Whether what waits in a group that stands aside can be sent on; if not, that is seen to later."""
        assert self.placement is not None
        if self.placement.owner_of(self.placement.number(group.name, group.filter)) is not None:
            return True
        self.placement.wait_for_owner()
        return False

    def give_up(self, group: GroupReceiver) -> None:
        """Nobody has the group that stands aside: what waits in it is dropped."""
        group.core.stand_aside(False)
        group.rights_changed()  # looks who is there
        if group.core.is_gone:
            self.gone(group)

    def orphaned(self) -> list[GroupReceiver]:
        """Groups that stand aside, and in which something waits for the node that has them."""
        return [group for group in self._aside.values() if len(group.core.queue)]

    def near_changed(self, group: GroupHere) -> None:
        """Somebody of this broker has joined a group, or left it."""
        if self.placement is None:
            return
        name = GroupName(group.name, group.filter)
        heads = (self._groups.get(name), self._proxies.get(name), self._aside.get(name))
        has_members = any(head is not None and head.subscribed_count for head in heads)
        if has_members == (name in self._announced):
            return
        number = self.placement.number(*name)
        if has_members:
            self._announced.add(name)
            self.placement.appeared(number, *name)
        else:
            self._announced.remove(name)
            self.placement.vanished(number, *name)
            head = self._groups.get(name)
            if isinstance(head, GroupReceiver) and self.placement.may_be_elsewhere(number):
                self._set_aside(name, head)

    def _set_aside(self, name: GroupName, group: GroupReceiver) -> None:
        """Nobody here is in it any more, and who else is will be heard."""
        del self._groups[name]
        self._forget(group)
        self._aside[name] = group
        group.core.stand_aside(True)

    def fill_changed(self, group: GroupReceiver, is_full: bool) -> None:
        if self.placement is not None:
            number = self.placement.number(group.name, group.filter)
            self.placement.fill_changed(number, group.name, group.filter, is_full)

    def pass_on(self, group: GroupReceiver, message: Message) -> None:
        """It waits in a group that another node has."""
        assert self.placement is not None
        self.placement.pass_on(self.placement.number(group.name, group.filter), message, 0)

    def deliver_to(self, number: int, message: Message, hops: int = 0) -> None:
        """A message for one group, that came from another node over so many."""
        name = self._numbered.get(number)
        group = self._groups.get(name) if name is not None else None
        if isinstance(group, GroupReceiver):
            group.take_in(message)
        else:
            assert self.placement is not None
            self.placement.pass_on(number, message, hops + 1)

    def is_here(self, number: int) -> bool:
        """Whether this node has the group."""
        name = self._numbered.get(number)
        return name is not None and isinstance(self._groups.get(name), GroupReceiver)

    def receiver_of(self, number: int) -> GroupReceiver | None:
        """The group that this node has, or has yet to finish with."""
        name = self._numbered.get(number)
        if name is None:
            return None
        group = self._groups.get(name)
        return group if isinstance(group, GroupReceiver) else self._aside.get(name)

    def receiver_for(self, number: int) -> GroupReceiver | None:
        """As `receiver_of`; made if there is none, for who takes this node for the owner before we do."""
        group = self.receiver_of(number)
        name = self._numbered.get(number)
        if group is None and name is not None:
            group = self._aside[name] = self._receiver(name)
            group.core.stand_aside(True)
        return group

    def proxy_of(self, number: int) -> GroupProxy | None:
        name = self._numbered.get(number)
        return self._proxies.get(name) if name is not None else None

    def count_return(self) -> None:
        self.returns += 1

    def may_read(self, session: Session, topic: bytes) -> bool:
        return self._may_read is None or self._may_read(session, topic)

    # ---- all of them ---------------------------------------------------------------------------------

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

        def member_may_read(member: SessionMember | RemoteMember, topic: bytes) -> bool:
            if isinstance(member, RemoteMember):
                return member.may_read(topic)
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


def _of_group(target: Target, group: GroupHere) -> Target:
    """What a subscription asks for, of the same group by another head."""
    return Target(
        target.receiver, target.qos, target.retain_as_published, target.identifiers, group, target.spared
    )


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
