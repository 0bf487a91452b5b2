"""A shared group in a real broker core, and a plain model of what may happen to its messages.

The clients are bytes (tests.broker.world); what they are sent is held against the model at once: a message
that two sessions have, that comes back after its acknowledgement, that goes elsewhere once QoS 2 has begun,
or that nobody accounts for, fails where it happens. Things to do take a `number` that picks a candidate, so
that hypothesis or a seeded walk can drive them; without a candidate they do nothing. Nobody has a keep alive:
time passes here without a word from anybody.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from braidmq.config.groups import GroupsConfig
from braidmq.store import Store
from braidmq.wire import (
    V5,
    V311,
    Connack,
    Connect,
    Disconnect,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Subscription,
    Unsubscribe,
)
from tests.broker.world import Client, World

FILTER: Final = "$share/crew/jobs/#"
NAMES: Final = ("m0", "m1", "m2", "m3")
INFLIGHT_MAX: Final = 3
ORDERED: Final = ("sticky", "hash_client", "hash_topic")
NOT_AUTHORIZED: Final = 0x87
REFUSED: Final = 0x80
Candidate = TypeVar("Candidate")


def pick(number: int, candidates: Sequence[Candidate]) -> Candidate | None:
    return candidates[number % len(candidates)] if candidates else None


class Job:
    """One message, and where the model believes it to be."""

    def __init__(self, number: int, qos: int) -> None:
        self.number = number
        self.qos = qos
        self.is_done = False  # acknowledged, or delivered at QoS 0
        self.holder: Crewman | None = None
        self.begun_qos2_with: Crewman | None = None

    def __repr__(self) -> str:
        return f"<job {self.number} qos {self.qos}{' done' if self.is_done else ''}>"


class Crewman:
    """One session of a member; a new session of the same client is another one."""

    def __init__(self, name: str, client: Client, expiry_s: int) -> None:
        self.name = name
        self.client = client
        self.expiry_s = expiry_s
        self.is_here = True
        self.away_since_s = 0.0
        self.is_subscribed = False
        self.unanswered: dict[int, tuple[Job, int]] = {}  # packet id -> job, QoS of the delivery
        self.releasing: set[int] = set()


class Crew:
    def __init__(self, policy: str, store: Store | None = None) -> None:
        self.config = GroupsConfig(policy=policy, messages_max=12)  # type: ignore[arg-type]
        self.world = World(store, inflight_max=INFLIGHT_MAX)
        self.world.broker.groups.configure(self.config)
        self.members: dict[str, Crewman] = {}
        self.jobs: list[Job] = []
        self.unmatched = 0
        self.dies_with_sessions = 0
        self.publishers = [self.world.connect(f"p{number}", keep_alive_s=0) for number in range(2)]

    # -- members

    def come(self, number: int, expiry_s: int, clean: bool, declares: bool) -> None:
        """A client connects: anew, again, or in place of its own other connection."""
        name = NAMES[number % len(NAMES)]
        speaks_old = expiry_s == 0 and number % 2 == 1  # then its session ends with the connection: clean
        clean = clean or speaks_old
        known = self.members.get(name)
        properties = Properties(
            session_expiry_s=expiry_s, user_properties=(("ack-mode", "processed"),) if declares else ()
        )
        client = self.world.open(V311 if speaks_old else V5)
        if known is not None and known.is_here:
            self.went(known)
        if known is not None and (clean or known.name not in self.members):
            self.end(known)
        if speaks_old:
            client.send(Connect(name, clean, keep_alive_s=0, version=V311))
        else:
            client.send(Connect(name, clean, keep_alive_s=0, properties=properties))
        known = self.members.get(name)
        if known is None:
            known = self.members[name] = Crewman(name, client, expiry_s)
        known.client, known.expiry_s, known.is_here = client, expiry_s, True
        self.read_all()

    def went(self, member: Crewman) -> None:
        member.is_here = False
        member.away_since_s = self.world.now
        member.releasing.clear()
        if self.config.policy in ORDERED:  # they take back what isn't acknowledged
            for packet_id, (job, qos) in list(member.unanswered.items()):
                if qos == 1 and member.is_subscribed:
                    job.holder = None
                    del member.unanswered[packet_id]
        if member.expiry_s == 0:
            self.end(member)

    def end(self, member: Crewman) -> None:
        """The session is over: QoS 1 is free again, QoS 2 that has begun dies with it."""
        if self.members.get(member.name) is not member:
            return
        del self.members[member.name]
        for job, qos in member.unanswered.values():
            if qos == 2 and job.holder is member:
                job.is_done = True
                self.dies_with_sessions += 1
            job.holder = None if job.holder is member else job.holder

    def subscribe(self, number: int, qos: int) -> None:
        member = pick(number, self.here())
        if member is not None:
            member.is_subscribed = True
            member.client.send(Subscribe(1, (Subscription(FILTER, qos),)))
            self.read_all()

    def unsubscribe(self, number: int) -> None:
        member = pick(number, [member for member in self.here() if member.is_subscribed])
        if member is not None:
            member.is_subscribed = False
            member.client.send(Unsubscribe(1, (FILTER,)))
            self.read_all()

    def vanish(self, number: int) -> None:
        member = pick(number, self.here())
        if member is not None:
            member.client.vanish()
            self.went(member)
            self.read_all()

    def say_goodbye(self, number: int, for_good: bool) -> None:
        member = pick(number, self.here())
        if member is not None:
            if for_good:
                member.expiry_s = 0
            ends_now = for_good and member.client.version == V5
            member.client.send(Disconnect(0, Properties(session_expiry_s=0 if ends_now else None)))
            self.went(member)
            self.read_all()

    # -- messages

    def publish(self, number: int, qos: int, topic: int, expiry_s: int | None = None) -> None:
        job = Job(len(self.jobs), qos)
        self.jobs.append(job)
        has_group = any(member.is_subscribed for member in self.members.values())
        properties = Properties(message_expiry_s=expiry_s)
        publisher = self.publishers[number % len(self.publishers)]
        packet = Publish(
            f"jobs/{topic % 3}", str(job.number).encode(), qos, packet_id=1 if qos else 0,
            properties=properties,
        )
        publisher.send(packet)
        answers = publisher.read()
        if qos:
            assert len(answers) == 1
            assert (answers[0].reason == 0x10) == (not has_group)  # type: ignore[union-attr]
            if qos == 2 and answers[0].reason < REFUSED:  # type: ignore[union-attr]
                publisher.send(Pubrel(1))
                publisher.read()
        if not has_group:
            job.is_done = True
            self.unmatched += 1
        self.read_all()

    def acknowledge(self, number: int, refuses: bool = False) -> None:
        open_now = [(member, packet_id) for member in self.here() for packet_id in member.unanswered]
        picked = pick(number, open_now)
        if picked is None:
            return
        member, packet_id = picked
        job, qos = member.unanswered.pop(packet_id)
        job.holder, job.is_done = None, True
        reason = NOT_AUTHORIZED if refuses and member.client.version == V5 else 0
        member.client.send(Puback(packet_id, reason) if qos == 1 else Pubrec(packet_id, reason))
        self.read_all()

    def complete(self, number: int) -> None:
        releasing = [(member, packet_id) for member in self.here() for packet_id in member.releasing]
        picked = pick(number, releasing)
        if picked is not None:
            member, packet_id = picked
            member.releasing.remove(packet_id)
            member.client.send(Pubcomp(packet_id))
            self.read_all()

    def let_time_pass(self, seconds: float) -> None:
        self.world.pass_time(seconds)
        for member in list(self.members.values()):
            if not member.is_here and self.world.now >= member.away_since_s + member.expiry_s:
                self.end(member)
        self.read_all()

    def change_policy(self, policy: str) -> None:
        self.config = GroupsConfig(policy=policy, messages_max=12)  # type: ignore[arg-type]
        self.world.broker.groups.configure(self.config)
        self.read_all()

    # -- what comes

    def here(self) -> list[Crewman]:
        return [member for member in self.members.values() if member.is_here]

    def read_all(self) -> None:
        progress = True
        while progress:  # taking the output makes room for more of it
            progress = False
            for member in self.here():
                for packet in member.client.read():
                    progress = True
                    self.received(member, packet)
        self.world.check()

    def received(self, member: Crewman, packet: Any) -> None:
        if isinstance(packet, Publish):
            self.received_job(member, packet, self.jobs[int(packet.payload)])
        elif isinstance(packet, Pubrel):
            member.releasing.add(packet.packet_id)
        elif isinstance(packet, Connack):
            assert packet.reason == 0

    def received_job(self, member: Crewman, packet: Publish, job: Job) -> None:
        assert not job.is_done, f"{job} comes again after it was done with"
        assert packet.qos <= job.qos
        if packet.qos == 0:
            assert job.holder is None, f"{job} is with {job.holder} and goes to {member} as well"
            job.is_done = True
            return
        if job.holder is not None:
            assert job.holder is member, f"{job} is with another session"
            assert packet.dup
            assert member.unanswered[packet.packet_id][0] is job
        assert job.begun_qos2_with in (None, member), f"QoS 2 of {job} began with another session"
        if packet.qos == 2:
            job.begun_qos2_with = member
        job.holder = member
        member.unanswered[packet.packet_id] = (job, packet.qos)
        assert len(member.unanswered) <= INFLIGHT_MAX

    # -- the end

    def finish(self) -> None:
        """Everybody answers everything until nothing comes any more; then every message is accounted for."""
        self.come(0, 1000, False, False)
        self.subscribe(0, 2)
        while self.waiting() or any(member.unanswered or member.releasing for member in self.here()):
            before = self.world.now
            for _ in range(4):
                self.acknowledge(0)
                self.complete(0)
            self.let_time_pass(1.0)
            assert before < self.world.now < 10_000, "what waits is not sent"
        away = [member for member in self.members.values() if not member.is_here]
        held = sum(1 for job in self.jobs if job.holder in away and not job.is_done)
        assert held + self.dropped() + self.done() == len(self.jobs)

    def waiting(self) -> int:
        return sum(len(group.core.queue) for group in self.world.broker.groups)

    def dropped(self) -> int:
        """By the broker's own account."""
        counters = self.world.broker.hub.counters.by_name()
        return sum(count for name, count in counters.items() if name.startswith("dropped_"))

    def done(self) -> int:
        """By the model's: refusals and QoS 2 that died count as drops at the broker."""
        counters = self.world.broker.hub.counters.by_name()
        done = sum(job.is_done for job in self.jobs)
        return done - counters["dropped_rejected"] - self.dies_with_sessions
