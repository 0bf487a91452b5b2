"""Publishing to a broker that may be full for a while.

A broker that can't keep a QoS 1 or 2 message refuses it with 0x97 (quota exceeded) and takes it when there is
room again: where a shared group is full, the store can't be written, or a subscriber is behind and `overflow`
is set to refuse. Sending such a message again may give it twice to those who had room for it at once.
"""

import time
from collections.abc import Sequence
from typing import Final

from braidmq.client.blocking import BlockingClient
from braidmq.client.calls import PublishResult
from braidmq.client.errors import PublishRefusedError
from braidmq.errors import BraidError
from braidmq.wire import Publish, ReasonCode

PAUSE_MIN_S: Final = 0.05
PAUSE_MAX_S: Final = 1.0


def publish_patiently(
    client: BlockingClient, packets: Sequence[Publish], patience_s: float
) -> list[PublishResult | BraidError]:
    """As `client.publish_packets`, again and again for what a full broker refuses.

    Gives up when nothing more was taken for `patience_s`; then those outcomes are the refusals.
    """
    outcomes = client.publish_packets(packets)
    pause_s, give_up_s = PAUSE_MIN_S, time.monotonic() + patience_s
    while full := [at for at, outcome in enumerate(outcomes) if _is_full(outcome)]:
        if time.monotonic() >= give_up_s:
            break
        time.sleep(pause_s)
        again = client.publish_packets(packets[at] for at in full)
        for at, outcome in zip(full, again, strict=True):
            outcomes[at] = outcome
        if all(_is_full(outcome) for outcome in again):
            pause_s = min(2 * pause_s, PAUSE_MAX_S)
        else:
            pause_s, give_up_s = PAUSE_MIN_S, time.monotonic() + patience_s
    return outcomes


def _is_full(outcome: PublishResult | BraidError) -> bool:
    return isinstance(outcome, PublishRefusedError) and outcome.reason == ReasonCode.QUOTA_EXCEEDED
