"""Finds the policies that the configuration names, and keeps their mistakes from opening anything."""

from importlib.metadata import entry_points

import structlog

from braidmq.access.policy import ENTRY_POINTS, Action, Policy
from braidmq.access.verdicts import Admitted, Claim, Refused, Slow
from braidmq.errors import ConfigError

log = structlog.get_logger("braidmq.net")

SERVER_UNAVAILABLE = 0x88


def load_policies(names: str | None) -> list[Policy]:
    """The policies of these names, with spaces between them. ConfigError if one can't be had."""
    return [Guarded(name, _load(name)) for name in (names or "").split()]


def _load(name: str) -> Policy:
    offered = entry_points(group=ENTRY_POINTS)
    found = [entry for entry in offered if entry.name == name]
    if len(found) != 1:
        known = ", ".join(sorted(offered.names)) or "none"
        raise ConfigError(f"[auth] policies: {len(found)} packages offer {name!r}; installed are: {known}")
    try:
        policy: Policy = found[0].load()()
    except Exception as error:  # whatever a stranger's code does, the start ends with one line
        raise ConfigError(f"[auth] policies: {name!r} can't be loaded: {error!r}") from error
    return policy


class Guarded:
    """A policy whose failures are refusals."""

    def __init__(self, name: str, policy: Policy) -> None:
        self._name = name
        self._policy = policy

    def judge(self, claim: Claim) -> Admitted | Refused | Slow | None:
        try:
            return self._policy.judge(claim)
        except Exception as error:
            log.error("a policy failed", policy=self._name, error=repr(error))
            return Refused(SERVER_UNAVAILABLE, "authentication is out of order")

    def may(self, action: Action, user: str | None, client_id: str, topic: str) -> bool | None:
        try:
            return self._policy.may(action, user, client_id, topic)
        except Exception as error:
            log.error("a policy failed", policy=self._name, error=repr(error))
            return False
