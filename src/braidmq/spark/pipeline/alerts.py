"""What is worth an alert: thresholds that are crossed, devices that fall silent, and the way back. Pure.

A rule is raised once for a device and cleared once; between them nothing is said. A threshold is raised if
any value of a batch is beyond it, and cleared if the last one is not. A device is silent from `silent_s`
after the last message was received from it, whatever that message was worth, until the next one.

The state has one entry for each device that a silence rule watches and for each threshold that is raised;
it is in the driver's memory, some 300 bytes an entry.
"""

import hashlib
from collections.abc import Iterable
from typing import Final, NamedTuple

from braidmq.spark.pipeline.config import PipelineConfig, Rule

RAISED: Final = "raised"
CLEARED: Final = "cleared"


class Watched(NamedTuple):
    """What a state is about."""

    rule: str
    schema: str
    device: str


class Condition(NamedTuple):
    """How it is: when the device was last heard of, and since when something is wrong (None: it isn't)."""

    seen_us: int
    since_us: int | None


class Digest(NamedTuple):
    """What a device sent in a batch, of one metric; without a metric, that it sent anything at all."""

    schema: str
    device: str
    metric: str | None
    seen_us: int
    least: float | None = None
    most: float | None = None
    last: float | None = None
    last_us: int | None = None


class Alert(NamedTuple):
    """Something to tell. The same alert has the same id however often it is computed."""

    rule: str
    state: str
    schema: str
    device: str
    metric: str | None
    value: float | None
    since_us: int
    at_us: int

    @property
    def id(self) -> str:
        text = "\0".join(map(str, (self.rule, self.state, self.schema, self.device, self.since_us)))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class Listening(NamedTuple):
    """The time for which we have heard everything that came; outside of it silence can't be judged."""

    since_us: int
    until_us: int


State = dict[Watched, Condition]


def advance(
    state: State, digests: Iterable[Digest], rules: Iterable[Rule], listening: Listening | None
) -> tuple[State, list[Alert]]:
    """The state after a batch, and what to tell. Unless we are `listening` silence isn't judged."""
    after = dict(state)
    alerts: list[Alert] = []
    received = sorted(digests, key=lambda digest: (digest.seen_us, digest.last_us or 0))
    for rule in rules:
        for digest in received:
            if rule.schema in (None, digest.schema) and digest.metric == rule.metric:
                hear = _hear_silent if rule.silent_s is not None else _hear_threshold
                alerts += hear(after, rule, digest)
        if rule.silent_s is not None and listening is not None:
            alerts += _find_silent(after, rule, listening)
    return after, alerts


def _hear_threshold(state: State, rule: Rule, digest: Digest) -> Iterable[Alert]:
    if digest.least is None or digest.most is None or digest.last is None or digest.last_us is None:
        return
    watched = Watched(rule.name, digest.schema, digest.device)
    worst = digest.most if rule.above is not None else digest.least
    known = state.get(watched)
    if known is None and _is_beyond(rule, worst):
        known = Condition(digest.seen_us, digest.last_us)
        yield _alert(rule, RAISED, watched, worst, digest.last_us, digest.last_us)
    if known is None or known.since_us is None:
        return
    if _is_beyond(rule, digest.last):
        state[watched] = Condition(digest.seen_us, known.since_us)
    else:
        state.pop(watched, None)
        yield _alert(rule, CLEARED, watched, digest.last, known.since_us, digest.last_us)


def _is_beyond(rule: Rule, value: float) -> bool:
    if rule.above is not None:
        return value > rule.above
    return rule.below is not None and value < rule.below


def _hear_silent(state: State, rule: Rule, digest: Digest) -> Iterable[Alert]:
    watched = Watched(rule.name, digest.schema, digest.device)
    known = state.get(watched)
    if known is not None and known.seen_us >= digest.seen_us:
        return
    state[watched] = Condition(digest.seen_us, None)
    if known is not None and known.since_us is not None:
        yield _alert(rule, CLEARED, watched, None, known.since_us, digest.seen_us)


def _find_silent(state: State, rule: Rule, listening: Listening) -> list[Alert]:
    """Who hasn't been heard of for too long; what we didn't listen to doesn't count."""
    limit_us = round((rule.silent_s or 0) * 1e6)
    found = {
        watched: max(known.seen_us, listening.since_us) + limit_us
        for watched, known in state.items()
        if watched.rule == rule.name and known.since_us is None
    }
    silent = {watched: since_us for watched, since_us in found.items() if since_us < listening.until_us}
    for watched, since_us in silent.items():
        state[watched] = Condition(state[watched].seen_us, since_us)
    return [_alert(rule, RAISED, watched, None, since_us, since_us) for watched, since_us in silent.items()]


def _alert(rule: Rule, state: str, watched: Watched, value: float | None, since_us: int, at_us: int) -> Alert:
    return Alert(rule.name, state, watched.schema, watched.device, rule.metric, value, since_us, at_us)


def topic_of(template: str, alert: Alert) -> str:
    """Where an alert is published."""
    places = {"{device}": alert.device, "{rule}": alert.rule, "{schema}": alert.schema}
    for place, value in places.items():
        template = template.replace(place, value)
    return template


def known_rules(config: PipelineConfig, state: State) -> State:
    """The state without rules that are no longer configured."""
    names = {rule.name for rule in config.rules}
    return {watched: condition for watched, condition in state.items() if watched.rule in names}
