"""How a connection is made, as a plan that decides and does nothing: both shells follow it.

`dial_plan` is a generator. It yields a step; the shell takes it and sends back an `Outcome`. The plan returns
when a `Dial` succeeded, and raises when there is no use in going on.
"""

from collections.abc import Generator, Sequence

import msgspec

from braidmq.client.addresses import Address, Endpoint, Rotation
from braidmq.client.backoff import Backoff
from braidmq.client.errors import (
    AuthenticationFailedError,
    ConnectFailedError,
    ConnectRefusedError,
    ReasonError,
    ServerDisconnectedError,
    SubscribeRefusedError,
)
from braidmq.wire import ReasonCode

# Reasons that another attempt, perhaps on another server, may not meet again.
PASSING_REFUSALS = frozenset({
    ReasonCode.UNSPECIFIED_ERROR,
    ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    ReasonCode.SERVER_UNAVAILABLE,
    ReasonCode.SERVER_BUSY,
    ReasonCode.QUOTA_EXCEEDED,
    ReasonCode.USE_ANOTHER_SERVER,
    ReasonCode.SERVER_MOVED,
    ReasonCode.CONNECTION_RATE_EXCEEDED,
})
# Coming back would only throw out whoever took our place, or was told to keep us out.
FINAL_DISCONNECTS = frozenset({
    ReasonCode.SESSION_TAKEN_OVER,
    ReasonCode.NOT_AUTHORIZED,
    ReasonCode.BAD_AUTHENTICATION_METHOD,
})


class Resolve(msgspec.Struct, frozen=True):
    """Find the endpoints of a name."""

    address: Address


class Dial(msgspec.Struct, frozen=True):
    """Open a transport and go through the handshake."""

    address: Address
    endpoint: Endpoint


class Pause(msgspec.Struct, frozen=True):
    delay_s: float


class Outcome(msgspec.Struct, frozen=True):
    """What came of a step, and when."""

    now: float
    endpoints: Sequence[Endpoint] = ()
    error: Exception | None = None


Step = Resolve | Dial | Pause
Plan = Generator[Step, Outcome, None]
Failures = list[tuple[str, Exception]]


def is_final(error: Exception) -> bool:
    """Whether trying again can't help."""
    if isinstance(error, ConnectRefusedError):
        return error.reason not in PASSING_REFUSALS
    if isinstance(error, ServerDisconnectedError):
        return error.reason in FINAL_DISCONNECTS
    return isinstance(error, (AuthenticationFailedError, SubscribeRefusedError))


def dial_plan(
    rotation: Rotation, backoff: Backoff, now: float, *, patience_s: float | None, pause_first: bool
) -> Plan:
    """Rounds over all endpoints with a pause between, until one works or patience ends (None: never)."""
    gives_up_at = None if patience_s is None else now + patience_s
    if pause_first:
        yield Pause(backoff.delay_s())
    while True:
        now, failures = yield from _one_round(rotation)
        if not failures:
            return
        delay_s = backoff.delay_s()
        if gives_up_at is not None and now + delay_s > gives_up_at:
            raise ConnectFailedError(failures)
        yield Pause(delay_s)


def _one_round(rotation: Rotation) -> Generator[Step, Outcome, tuple[float, Failures]]:
    """Tries every endpoint of every name once. No failures: the last one worked."""
    failures: Failures = []
    now = 0.0
    for address in rotation.addresses():
        resolved = yield Resolve(address)
        now = resolved.now
        if resolved.error is not None:
            failures.append((str(address), resolved.error))
        for endpoint in rotation.endpoints(address, resolved.endpoints):
            dialled = yield Dial(address, endpoint)
            now = dialled.now
            if dialled.error is None:
                rotation.worked(address, endpoint)
                return now, []
            rotation.failed(address, endpoint)
            failures.append((f"{address} at {endpoint}", dialled.error))
            judge(rotation, dialled.error)
    return now, failures


def judge(rotation: Rotation, error: Exception) -> None:
    """What an error means for the attempts to come: raises it if there should be none."""
    if is_final(error):
        raise error
    if isinstance(error, ReasonError) and error.properties.server_reference:
        rotation.redirected(error.properties.server_reference)
