"""Two policies from the literature, to compare with. The broker doesn't offer them: adaptive is better."""

from random import Random

from braidmq.broker.sharing.member import Member
from braidmq.broker.sharing.policies import Policy

Key = str | bytes | None


class PowerOfTwoPolicy(Policy):
    """Of two members drawn at random the one with fewer in flight; of equals the one chosen longer ago."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def choose(
        self, now: float, publisher: Key, topic: Key, qos: int = 0, pending: int = 1
    ) -> Member | None:
        seats = self.rotation
        if len(seats) < 2:
            return seats[0].member if seats else None
        first, second = (seats[place].member for place in sorted(self._rng.sample(range(len(seats)), 2)))
        return first if first.inflight <= second.inflight else second


class LeastServicePolicy(Policy):
    """The least (in flight + 1) times service time, with the service time of acknowledgements."""

    def choose(
        self, now: float, publisher: Key, topic: Key, qos: int = 0, pending: int = 1
    ) -> Member | None:
        members = [seat.member for seat in self.rotation]
        known = [member.acked_service_s for member in members if member.acked_service_s >= 0]
        mean_s = sum(known) / len(known) if known else 1.0

        def work_s(member: Member) -> float:
            service_s = member.acked_service_s if member.acked_service_s >= 0 else mean_s
            return (member.inflight + 1) * service_s

        return min(members, key=work_s, default=None)
