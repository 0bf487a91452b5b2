"""Who may read, write and subscribe where: a list of rules, of which the first that applies decides.

What no rule allows is denied. `subscribe` is asked about a whole filter: an allowing rule applies if it
covers all of the filter, a denying one as soon as the two overlap. `read` and `write` are asked about one
topic.

`%u` and `%c` in a rule stand for the client's user name and client id. A name with `+`, `#` or `/` could turn
one level into many, so it is refused there: a rule that allows does not apply then, and one that denies holds
for everything that it could have meant. Cost: one match per rule that names the client; the rules of a client
are picked out once.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from braidmq.config.toml import line_of, parse_toml
from braidmq.errors import ConfigError, ProtocolError
from braidmq.limits import Overflow
from braidmq.topics import matches, validate_filter

Action = Literal["read", "write", "subscribe"]

CLIENTS_CACHED_MAX: Final = 4096
UNSAFE: Final = re.compile(r"[+#/]")
SUBSTITUTION: Final = re.compile(r"%(.?)")


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of the file, `[[rule]]`, with exactly one of `allow`, `deny` and `overflow`."""

    topic: str = ""  # empty only with `overflow`, which is about all that waits for a client
    allow: tuple[Action, ...] = ()
    deny: tuple[Action, ...] = ()
    user: str | None = None  # None: everybody
    client: str | None = None
    overflow: Overflow | None = None


class _Applied(msgspec.Struct, frozen=True):
    """A rule with one client's names in it."""

    filter: str
    actions: tuple[Action, ...]
    allows: bool


class Rules:
    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rules)
        self._by_client: dict[tuple[str | None, str], tuple[_Applied, ...]] = {}

    def may_read(self, user: str | None, client_id: str, topic: str) -> bool:
        return self._may("read", user, client_id, topic)

    def may_write(self, user: str | None, client_id: str, topic: str) -> bool:
        return self._may("write", user, client_id, topic)

    def may_subscribe(self, user: str | None, client_id: str, filter: str) -> bool:
        for rule in self._of(user, client_id):
            if "subscribe" in rule.actions:
                if rule.allows and covers(rule.filter, filter):
                    return True
                if not rule.allows and overlap(rule.filter, filter):
                    return False
        return False

    def overflow(self, user: str | None, client_id: str) -> Overflow | None:
        """What becomes of messages that find this client's queue full, if a rule says it."""
        for rule in self._rules:
            if rule.overflow is not None and _is_about(rule, user, client_id):
                return rule.overflow
        return None

    def _may(self, action: Action, user: str | None, client_id: str, topic: str) -> bool:
        for rule in self._of(user, client_id):
            if action in rule.actions and matches(rule.filter, topic):
                return rule.allows
        return False

    def _of(self, user: str | None, client_id: str) -> tuple[_Applied, ...]:
        key = (user, client_id)
        found = self._by_client.get(key)
        if found is None:
            if len(self._by_client) >= CLIENTS_CACHED_MAX:
                self._by_client.clear()
            applied = (_apply(rule, user, client_id) for rule in self._rules)
            found = self._by_client[key] = tuple(rule for rule in applied if rule is not None)
        return found


def _is_about(rule: Rule, user: str | None, client_id: str) -> bool:
    return rule.user in (None, user) and rule.client in (None, client_id)


def _apply(rule: Rule, user: str | None, client_id: str) -> _Applied | None:
    if rule.overflow is not None or not _is_about(rule, user, client_id):
        return None
    names = {"u": user or "", "c": client_id}
    wanted = set(SUBSTITUTION.findall(rule.topic))
    if all(names[letter] and not UNSAFE.search(names[letter]) for letter in wanted):
        filter = SUBSTITUTION.sub(lambda found: names[found[1]], rule.topic)
        return _Applied(filter, rule.allow or rule.deny, bool(rule.allow))
    if rule.allow:
        return None
    levels = rule.topic.split("/")
    first = next(index for index, level in enumerate(levels) if "%" in level)
    return _Applied("/".join([*levels[:first], "#"]), rule.deny, False)


def covers(filter: str, other: str) -> bool:
    """Whether `filter` matches every topic that `other` matches."""
    ours, theirs = filter.split("/"), other.split("/")
    if theirs[0].startswith("$") and ours[0] in ("+", "#"):
        return False
    for index, level in enumerate(ours):
        if level == "#":
            return True
        if index >= len(theirs) or theirs[index] == "#" or level not in ("+", theirs[index]):
            return False
    return len(ours) == len(theirs)


def overlap(filter: str, other: str) -> bool:
    """Whether there is a topic that both match."""
    ours, theirs = filter.split("/"), other.split("/")
    for one, two in ((ours, theirs), (theirs, ours)):
        if one[0].startswith("$") and two[0] in ("+", "#"):
            return False
    for index in range(max(len(ours), len(theirs))):
        if "#" in (ours[index : index + 1] + theirs[index : index + 1]):
            return True
        if index >= len(ours) or index >= len(theirs):
            return False
        if "+" not in (ours[index], theirs[index]) and ours[index] != theirs[index]:
            return False
    return True


def parse_rules(text: str, path: str) -> Rules:
    """The rules of a TOML file. ConfigError names the line of the rule that is wrong."""
    content = parse_toml(text, path)
    for name in content:
        if name != "rule":
            line = line_of(text, (name,))
            raise ConfigError(f"{path}{line}: unknown {name!r}; the file consists of [[rule]] tables")
    entries = content.get("rule")
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"{path}: there is no [[rule]] in it, so nobody could do anything")
    return Rules([
        _parsed(entry, f"{path}{line_of(text, ('rule', index))}: rule {index + 1}")
        for index, entry in enumerate(entries)
    ])


def _parsed(entry: object, where: str) -> Rule:
    try:
        rule = msgspec.convert(entry, Rule)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}") from error
    if bool(rule.allow) + bool(rule.deny) + (rule.overflow is not None) != 1:
        raise ConfigError(f"{where}: a rule needs either allow or deny, with an action, or overflow")
    if "" in (rule.user, rule.client):
        raise ConfigError(f"{where}: an empty user or client; leave it out if everybody is meant")
    if rule.overflow is not None:
        if rule.topic:
            raise ConfigError(f"{where}: overflow is about all that waits for a client; leave the topic out")
        return rule
    unknown = set(SUBSTITUTION.findall(rule.topic)) - {"u", "c"}
    if unknown:
        raise ConfigError(f"{where}: %{unknown.pop()} means nothing; there are %u and %c")
    try:
        validate_filter(SUBSTITUTION.sub("x", rule.topic))
    except ProtocolError as error:
        raise ConfigError(f"{where}: {rule.topic!r} is no topic filter: {error.detail}") from error
    if rule.topic.startswith("$share/"):
        raise ConfigError(f"{where}: leave $share/group/ out; a rule is about the topics behind it")
    return rule
