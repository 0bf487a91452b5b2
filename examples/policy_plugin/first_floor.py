"""A policy for BraidMQ: guests need no password, but stay on the first floor.

`pip install .` here, then `braidmq serve --set auth.policies=first-floor`.
"""

from braidmq.access.policy import Action
from braidmq.access.verdicts import Admitted, Claim
from braidmq.topics import matches


class FirstFloor:
    def judge(self, claim: Claim) -> Admitted | None:
        """Guests come in; about all others somebody else has to decide."""
        return Admitted("guest") if claim.username == "guest" else None

    def may(self, action: Action, user: str | None, client_id: str, topic: str) -> bool | None:
        """Guests may read and subscribe to what is below floor/1, and write nothing."""
        if user != "guest":
            return None
        is_there = topic == "floor/1/#" or matches("floor/1/+", topic)
        return is_there and action != "write"
