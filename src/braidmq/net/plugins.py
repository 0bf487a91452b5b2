"""Finds the plug-ins that the configuration names, and keeps their mistakes from doing harm.

A policy that fails allows nothing. An observer that fails is heard of in the log and hears the next event.
"""

from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import entry_points
from typing import Any

import msgspec
import structlog

from braidmq.access.policy import ENTRY_POINTS as POLICIES
from braidmq.access.policy import Action, Policy
from braidmq.access.verdicts import Admitted, Claim, Refused, Slow
from braidmq.broker.events import ENTRY_POINTS as OBSERVERS
from braidmq.broker.events import Event, Observer
from braidmq.errors import BraidError, ConfigError
from braidmq.store import ENTRY_POINTS as STORES
from braidmq.store import Store, Surroundings
from braidmq.store.durable import open_log

log = structlog.get_logger("braidmq.net")

SERVER_UNAVAILABLE = 0x88


def find_plugin(group: str, name: str, where: str) -> Any:
    """What the one package that offers `name` in an entry point group has there. `where` is for errors."""
    offered = entry_points(group=group)
    found = [entry for entry in offered if entry.name == name]
    if len(found) != 1:
        known = ", ".join(sorted(offered.names)) or "none"
        raise ConfigError(f"{where}: {len(found)} packages offer {name!r}; installed are: {known}")
    try:
        return found[0].load()
    except Exception as error:  # whatever a stranger's code does, the start ends with one line
        raise ConfigError(f"{where}: {name!r} can't be loaded: {error!r}") from error


def _made(make: Callable[[], Any], name: str, where: str) -> Any:
    try:
        return make()
    except BraidError:
        raise  # it knows the words
    except Exception as error:
        raise ConfigError(f"{where}: {name!r} can't be made: {error!r}") from error


# ---- stores ----------------------------------------------------------------------------------------------


def store_maker(engine: str) -> Callable[[Surroundings], Store]:
    """What makes the store of that name. ConfigError if it can't be had."""
    if engine == "log":
        return open_log
    where = "[store] engine"
    offered = find_plugin(STORES, engine, where)
    return lambda around: _made(lambda: offered(around), engine, where)


# ---- policies --------------------------------------------------------------------------------------------


def load_policies(names: str | None) -> "list[Guarded]":
    """The policies of these names, with spaces between them. ConfigError if one can't be had."""
    return [_load_policy(name) for name in (names or "").split()]


def _load_policy(name: str) -> "Guarded":
    where = "[auth] policies"
    return Guarded(name, _made(find_plugin(POLICIES, name, where), name, where))


class Guarded:
    """A policy whose failures are refusals."""

    def __init__(self, name: str, policy: Policy) -> None:
        self._name = name
        self._policy = policy
        self._grounds = ("policy", name)

    def judge(self, claim: Claim) -> Admitted | Refused | Slow | None:
        try:
            return self._signed(self._policy.judge(claim))
        except Exception as error:
            log.error("a policy failed", policy=self._name, error=repr(error))
            return Refused(SERVER_UNAVAILABLE, "authentication is out of order")

    def _signed(self, decided: Admitted | Refused | Slow | None) -> Admitted | Refused | Slow | None:
        """The decision, with the policy's name where it lets somebody in."""
        if isinstance(decided, Slow):
            work = decided.work
            return Slow(lambda: self._signed_now(work()), decided.kind)
        return self._signed_now(decided)

    def _signed_now(self, decided: Admitted | Refused | None) -> Admitted | Refused | None:
        if not isinstance(decided, Admitted):
            return decided
        return msgspec.structs.replace(decided, grounds=self._grounds)

    def still_holds(self, admitted: Admitted) -> bool:
        """Whom a policy has let in stays while the policy is there."""
        return admitted.grounds == self._grounds

    def may(self, action: Action, user: str | None, client_id: str, topic: str) -> bool | None:
        try:
            return self._policy.may(action, user, client_id, topic)
        except Exception as error:
            log.error("a policy failed", policy=self._name, error=repr(error))
            return False


# ---- observers -------------------------------------------------------------------------------------------


class NamedObserver:
    """An observer, and what the configuration calls it."""

    def __init__(self, name: str, observer: Observer) -> None:
        self.name = name
        self.wants = frozenset(observer.wants)
        unknown = [kind for kind in self.wants if not (isinstance(kind, type) and issubclass(kind, Event))]
        if unknown:
            raise TypeError(f"it wants {unknown[0]!r}, which is no kind of event")
        self.observe = observer.observe
        self._failures = 0

    def failed(self, error: Exception) -> None:
        """Say so, but not for every message: at the first time, the second, the fourth, and so on."""
        self._failures += 1
        if self._failures & (self._failures - 1) == 0:
            log.error("an observer failed", observer=self.name, error=repr(error), times=self._failures)


def observer_makers(tables: Mapping[str, Mapping[str, Any]]) -> list[Callable[[], NamedObserver]]:
    """What makes the observers of the tables [observers.NAME]. ConfigError if one can't be had as configured.

    An observer's class may have `Settings`, a msgspec Struct: then its table becomes one and is its argument.
    """
    return [_observer_maker(name, options) for name, options in tables.items()]


def _observer_maker(name: str, options: Mapping[str, Any]) -> Callable[[], NamedObserver]:
    where = f"[observers.{name}]"
    offered = find_plugin(OBSERVERS, name, where)
    kind = getattr(offered, "Settings", None)
    if kind is None and options:
        raise ConfigError(f"{where}: this plug-in takes no settings, and {next(iter(options))!r} is there")
    make = offered if kind is None else partial(offered, _settings(kind, options, where))
    return partial(_made, lambda: NamedObserver(name, make()), name, where)


def _settings(kind: Any, options: Mapping[str, Any], where: str) -> Any:
    try:
        return msgspec.convert(options, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}") from error
