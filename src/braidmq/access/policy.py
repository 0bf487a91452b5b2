"""Where others decide: a Policy is a plug-in that is asked who may come in and what they may do.

A package offers one under the entry point group `braidmq.policies`: a name, and what makes the policy when it
is called without arguments. `[auth] policies` names those to ask, in order; they come before everything else
that is configured.
"""

from typing import Final, Literal, Protocol

from braidmq.access.verdicts import Admitted, Claim, Refused, Slow

Action = Literal["read", "write", "subscribe"]

ENTRY_POINTS: Final = "braidmq.policies"


class Policy(Protocol):
    def judge(self, claim: Claim) -> Admitted | Refused | Slow | None:
        """May this client come in? None: ask the next. Must not wait; `Slow` has work for a thread."""

    def may(self, action: Action, user: str | None, client_id: str, topic: str) -> bool | None:
        """May it read or write this topic, subscribe to this filter? None: ask the next. Must not wait.

        The answer for a topic is kept until the configuration is reloaded, or some other topics were asked.
        """
