"""The rows of the benchmark: what is measured, and what was set as its goal."""

from typing import Literal

import msgspec

from braidmq.load.case import Case

Kind = Literal["throughput", "latency", "memory", "match"]

TOPIC = "bench/topic"
PIPELINED = 64  # messages a write
SAMPLED = 64  # at millions a second every 64th message is looked into; all are counted
IDLE_CONNECTIONS = 10_000
TRIE_FILTERS = 1_000_000
# 1,000 topics; each is wanted by one filter of either kind, so there are 25 different pairs of receivers.
MANY_TOPICS = tuple(f"bench/{a}/{b}/{c:02}" for a in range(5) for b in range(5) for c in range(40))
WILDCARDS = tuple(f"bench/{a}/#" for a in range(5)) + tuple(f"bench/+/{b}/+" for b in range(5))


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table."""

    name: str
    title: str
    kind: Kind
    goal: float  # of ours ÷ Mosquitto, but of our own figure for memory (KiB) and match (µs)
    load: Case = Case()
    relayed: bool = False  # a bare relay can carry it too: QoS 0, and no read cuts a frame of one of many

    @property
    def at_least(self) -> bool:
        return self.kind == "throughput"

    @property
    def goal_text(self) -> str:
        unit = {"memory": " KiB", "match": " µs"}.get(self.kind, "")
        return f"{'≥' if self.at_least else '≤'} {self.goal:g}{unit}"


def one_to_one(*, payload_bytes: int = 100, batch: int = PIPELINED, check_every: int = SAMPLED) -> Case:
    return Case(
        topics=(TOPIC,), subscriptions=(TOPIC,),
        payload_bytes=payload_bytes, batch=batch, check_every=check_every,
    )


def acknowledged(qos: int) -> Case:
    return Case(
        topics=(TOPIC,), subscriptions=(TOPIC,), qos=qos, subscriber_qos=qos, window=1000, batch=PIPELINED
    )


UNPIPELINED = one_to_one(batch=1, check_every=1)

ROWS = (
    Row(
        name="pipelined", title="QoS 0 1→1, 100 B, pipelined", kind="throughput", goal=25,
        load=one_to_one(), relayed=True,
    ),
    Row(
        name="fan-out", title="QoS 0 1→50 fan-out, 100 B", kind="throughput", goal=60, relayed=True,
        load=Case(topics=(TOPIC,), subscriptions=(TOPIC,) * 50, batch=PIPELINED, check_every=SAMPLED),
    ),
    Row(
        name="topics", title="QoS 0, 1,000 topics in random order, 10 wildcard subscribers",
        kind="throughput", goal=10,
        load=Case(
            topics=MANY_TOPICS, random_topics=True, subscriptions=WILDCARDS,
            batch=PIPELINED, check_every=SAMPLED,
        ),
    ),
    Row(
        name="qos1", title="QoS 1 1→1, receive maximum 1,000", kind="throughput", goal=8,
        load=acknowledged(1),
    ),
    Row(name="qos2", title="QoS 2 1→1", kind="throughput", goal=4, load=acknowledged(2)),
    Row(
        name="publishers", title="QoS 0, 1,000 publishers, one message a write", kind="throughput", goal=2,
        relayed=True,
        load=Case(
            topics=(TOPIC,), subscriptions=(TOPIC,),
            publishers=1000, window=64, send_buffer_bytes=16 * 1024,
        ),
    ),
    Row(
        name="single", title="QoS 0 1→1, 100 B, one message a write", kind="throughput", goal=2,
        load=one_to_one(batch=1, check_every=1), relayed=True,
    ),
    Row(
        name="hundred", title="QoS 0, 100 publishers, one message a write", kind="throughput", goal=2,
        relayed=True,
        load=Case(
            topics=(TOPIC,), subscriptions=(TOPIC,),
            publishers=100, window=64, send_buffer_bytes=16 * 1024,
        ),
    ),
    Row(
        name="in-turn", title="QoS 1, 100 publishers, one in flight each", kind="throughput", goal=2,
        load=Case(
            topics=(TOPIC,), subscriptions=(TOPIC,), publishers=100, qos=1, subscriber_qos=1, window=1,
        ),
    ),
    Row(
        name="shared", title="QoS 1 shared group of 5, 100 publishers", kind="throughput", goal=4,
        load=Case(
            topics=(TOPIC,), subscriptions=(f"$share/group/{TOPIC}",) * 5,
            publishers=100, qos=1, subscriber_qos=1, window=20,
        ),
    ),
    Row(
        name="1k", title="1 KiB payloads, QoS 0", kind="throughput", goal=8,
        load=one_to_one(payload_bytes=1024), relayed=True,
    ),
    Row(
        name="16k", title="16 KiB payloads, QoS 0", kind="throughput", goal=3,
        load=one_to_one(payload_bytes=16 * 1024), relayed=True,
    ),
    Row(
        name="latency", title="p99 latency, 1→1, at half of Mosquitto's maximum rate", kind="latency", goal=1,
        load=UNPIPELINED,
    ),
    Row(
        name="memory", title="memory per idle connection, 10,000 connections", kind="memory", goal=8,
        load=Case(publishers=0, idle=IDLE_CONNECTIONS, ramp_s=0.0, steady_s=0.2),
    ),
    Row(name="match", title="match cost in a trie of 1,000,000 filters", kind="match", goal=3),
)
