"""Who of a shared group gets a message. Pure: no I/O and no clock.

    base        Policy, the interface
    simple, hashing, reported, acknowledged    the policies
    registry    their names and options
"""

from braidmq.broker.sharing.policies.base import Policy
from braidmq.broker.sharing.policies.registry import DEFAULT_POLICY, POLICIES, make_policy, migrate

__all__ = ["DEFAULT_POLICY", "POLICIES", "Policy", "make_policy", "migrate"]
