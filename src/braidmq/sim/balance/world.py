"""One run: a publisher, a broker's shared group, its members and the network between them, event by event.

The group and the policy are the broker's own objects, the members count with the client's own StatusMeter;
the rest is this loop. The same scenario, method and seed give the same outcome. Cost: about 20 us a message.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random

from braidmq.broker.sharing.effects import Effect
from braidmq.broker.sharing.group import SharedGroup
from braidmq.broker.sharing.member import Delivery, Member
from braidmq.broker.sharing.settings import GroupSettings
from braidmq.client.meter import StatusMeter
from braidmq.sim.balance.methods import Method
from braidmq.sim.balance.scenario import SPIKE_S, MemberModel, Scenario
from braidmq.wire.status import StatusReport

CONNECTED_S = -10.0  # when members connected that are there from the beginning
UNBOUNDED = GroupSettings(messages_max=10**9, bytes_max=10**15, memory_bytes_max=10**15)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of each message, in order of publication; and every status report that reached the broker."""

    wait_s: list[float]  # publication to being taken out of the member's queue: the thesis's latency
    completion_s: list[float]  # publication to being processed
    member: list[int]
    given: list[int]  # messages per member
    reports: list[tuple[float, int, float]]  # time, member, the mean processing time known by then

    @classmethod
    def empty(cls, messages: int, members: int) -> "Outcome":
        return cls([inf] * messages, [inf] * messages, [-1] * messages, [0] * members, [])


class _SimulatedMember(Member):
    """A member to which messages are under way for some time."""

    index: int
    convey: Callable[[int, Delivery], None]

    def send(self, delivery: Delivery, outcome: object) -> bool:
        self.convey(self.index, delivery)
        return True


class _Subscriber:
    """A member's client: what it has received, what it works on, and its way to the broker and back."""

    __slots__ = (
        "is_working", "last_arrival_s", "last_return_s", "meter", "model", "open_count", "queue",
        "report_at_s",
    )  # fmt: skip

    def __init__(self, model: MemberModel, meter: StatusMeter | None) -> None:
        self.model = model
        self.meter = meter
        self.queue: deque[tuple[int, Delivery]] = deque()  # message, and as what it came
        self.is_working = False
        self.open_count = 0  # given to it and not processed
        self.last_arrival_s = -inf
        self.last_return_s = -inf
        self.report_at_s = inf  # the report for which an event is under way


class World:
    def __init__(
        self, scenario: Scenario, method: Method, rng: Random, first_reports_s: list[float] | None = None
    ) -> None:
        """`first_reports_s`: when each member reports first; at random within an interval by default."""
        self._scenario = scenario
        self._method = method
        self._rng = rng
        self._group = SharedGroup(method.make(rng), UNBOUNDED)
        self._events: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._order = count()
        self._now = 0.0
        self._left = len(scenario.publish_s)
        self._wake_at_s = inf
        self._outcome = Outcome.empty(self._left, len(scenario.members))
        self._subscribers: list[_Subscriber] = []
        self._members: list[Member] = []
        for index, model in enumerate(scenario.members):
            self._add(index, model, first_reports_s[index] if first_reports_s else None)

    def run(self) -> Outcome:
        for number, time in enumerate(self._scenario.publish_s):
            self._at(time, self._published, number)
        while self._left:
            self._now, _, happen, arguments = heappop(self._events)
            happen(*arguments)
        return self._outcome

    def _at(self, time: float, happen: Callable[..., None], *arguments: object) -> None:
        heappush(self._events, (time, next(self._order), happen, arguments))

    def _add(self, index: int, model: MemberModel, first_report_s: float | None) -> None:
        method = self._method
        joined_s = CONNECTED_S if model.joins_at_s is None else model.joins_at_s
        self._members.append(
            self._make_member(index, joined_s, 2 * model.delay_s if method.knows_rtt else 0.0)
        )
        interval_s = method.status_interval_s
        meter = None
        if interval_s is not None:
            if first_report_s is None:
                first_report_s = max(joined_s, 0.0) + self._rng.random() * interval_s
            meter = StatusMeter(first_report_s - interval_s, interval_s, reports_events=method.reports_events)
        self._subscribers.append(_Subscriber(model, meter))
        if model.joins_at_s is None:
            self._join(index)
        else:
            self._at(joined_s, self._join, index)

    def _make_member(self, index: int, joined_s: float, rtt_s: float) -> Member:
        method = self._method
        member = _SimulatedMember(
            f"subscriber-{index}",
            joined_s,
            acks_when_processed=method.qos > 0 and method.declares.has(index),
            has_event_status=method.reports_events,
            rtt_s=rtt_s,
            rtt_min_s=rtt_s,
        )
        member.index, member.convey = index, self._convey
        return member

    def _target(self, index: int) -> object:
        """What the group is to know of a member beside the member itself."""
        return None

    def _join(self, index: int) -> None:
        self._schedule_report(index)
        target = self._target(index)
        self._carry_out(self._group.subscribed(self._members[index], self._now, target=target))

    # -- the broker

    def _published(self, number: int) -> None:
        self._carry_out(self._group.published(number, self._now, self._method.qos, "publisher", "topic", 100))

    def _acknowledged(self, _: int, delivery: Delivery) -> None:
        self._carry_out(self._group.acknowledged(delivery, self._now))

    def _reported(self, index: int, report: StatusReport) -> None:
        member = self._members[index]
        effects = self._group.reported(member, report, self._now)
        self._outcome.reports.append((self._now, index, member.mean_processing_s))
        self._carry_out(effects)

    def _woken(self) -> None:
        if self._now == self._wake_at_s:  # else an earlier call has taken its place
            self._wake_at_s = inf
            self._carry_out(self._group.woken(self._now))

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Delivery):
                effect.member.send(effect, None)
        if len(self._group.queue) and self._group.wake_at_s < self._wake_at_s:
            self._wake_at_s = self._group.wake_at_s
            self._at(self._wake_at_s, self._woken)

    def _convey(self, index: int, delivery: Delivery, before_s: float = 0.0) -> None:
        """A message is sent to a member, over some way that takes `before_s` first."""
        subscriber = self._subscribers[index]
        arrival_s = max(self._now + before_s + self._way_s(subscriber.model), subscriber.last_arrival_s)
        subscriber.last_arrival_s = arrival_s
        self._outcome.given[index] += 1
        self._outcome.member[delivery.message] = index
        self._at(arrival_s, self._arrived, index, delivery.message, delivery)
        self._feel_pressure(index, 1)

    def _feel_pressure(self, index: int, change: int) -> None:
        """What the member has not taken in fills the socket: the rest of it is seen as unsent bytes."""
        subscriber = self._subscribers[index]
        subscriber.open_count += change
        if self._method.socket_messages is not None:
            in_work_and_next = 1
            is_pressed = subscriber.open_count > self._method.socket_messages + in_work_and_next
            self._members[index].is_pressed = is_pressed

    # -- the members

    def _arrived(self, index: int, number: int, delivery: Delivery) -> None:
        subscriber = self._subscribers[index]
        if subscriber.meter is not None:
            subscriber.meter.received()
        if delivery.qos and self._method.on_receipt.has(index):
            self._return(index, self._acknowledged, delivery)
        subscriber.queue.append((number, delivery))
        self._take(index)
        self._schedule_report(index)

    def _take(self, index: int) -> None:
        subscriber = self._subscribers[index]
        if subscriber.is_working or not subscriber.queue:
            return
        number, delivery = subscriber.queue.popleft()
        subscriber.is_working = True
        if subscriber.meter is not None:
            subscriber.meter.taken()
        self._outcome.wait_s[number] = self._now - self._scenario.publish_s[number]
        done_s = subscriber.model.finish_s(self._now, self._scenario.work[number])
        self._at(done_s, self._finished, index, number, delivery, done_s - self._now)

    def _finished(self, index: int, number: int, delivery: Delivery, work_s: float) -> None:
        subscriber = self._subscribers[index]
        subscriber.is_working = False
        self._outcome.completion_s[number] = self._now - self._scenario.publish_s[number]
        self._left -= 1
        if subscriber.meter is not None:
            subscriber.meter.processed(work_s)
        if delivery.qos and not self._method.on_receipt.has(index):
            self._return(index, self._acknowledged, delivery)
        self._feel_pressure(index, -1)
        self._take(index)
        self._schedule_report(index)

    def _schedule_report(self, index: int) -> None:
        subscriber = self._subscribers[index]
        if subscriber.meter is not None:
            due_s = max(subscriber.meter.due_at_s(), self._now)
            if due_s < subscriber.report_at_s:
                subscriber.report_at_s = due_s
                self._at(due_s, self._report, index)

    def _report(self, index: int) -> None:
        subscriber = self._subscribers[index]
        if subscriber.meter is None or self._now != subscriber.report_at_s:
            return  # an earlier report has taken its place
        subscriber.report_at_s = inf
        if subscriber.meter.due_at_s() <= self._now:
            self._return(index, self._reported, subscriber.meter.take_report(self._now))
        self._schedule_report(index)

    # -- the network

    def _return(self, index: int, happen: Callable[..., None], what: object) -> None:
        subscriber = self._subscribers[index]
        arrival_s = max(self._now + self._way_s(subscriber.model), subscriber.last_return_s)
        subscriber.last_return_s = arrival_s
        self._at(arrival_s, happen, index, what)

    def _way_s(self, model: MemberModel) -> float:
        way_s = model.delay_s
        if self._scenario.jitter_s:
            way_s += self._rng.random() * self._scenario.jitter_s
        if self._scenario.spike_share and self._rng.random() < self._scenario.spike_share:
            way_s += SPIKE_S
        return way_s
