"""Gets a connection and, when it is lost, another one: the blocking hands of `dial_plan`.

The plan goes on from call to call: a caller with little time does not start the attempts, or the waiting
between them, from the beginning.
"""

import random
import socket
import time
from collections.abc import Callable, Iterable

from braidmq.client.addresses import PORT, TLS_PORT, Rotation, endpoints_of, parse_addresses
from braidmq.client.backoff import Backoff
from braidmq.client.blocking_link import SocketLink
from braidmq.client.dialing import Dial, Outcome, Pause, Plan, Resolve, Step, dial_plan, judge
from braidmq.client.errors import ClientError
from braidmq.client.options import Options
from braidmq.client.tls import tls_context


class BlockingConnector:
    def __init__(
        self, addresses: str | Iterable[str], options: Options, greet: Callable[[SocketLink], None]
    ) -> None:
        self._options = options
        self._greet = greet  # goes through the handshake on a new link, or raises
        self._tls = tls_context(options.tls)
        draw = options.random or random.random
        self._rotation = Rotation(parse_addresses(addresses, TLS_PORT if self._tls else PORT), draw)
        self._backoff = Backoff(options.backoff_min_s, options.backoff_max_s, draw)
        self._plan: Plan | None = None
        self._step: Step | None = None
        self._pause_until = 0.0
        self._connected_at = 0.0

    def begin(self, *, first: bool) -> None:
        """A connection is needed from now on."""
        patience_s = self._options.connect_patience_s if first else None
        self._plan = dial_plan(
            self._rotation, self._backoff, time.monotonic(), patience_s=patience_s, pause_first=not first
        )
        self._set_step(next(self._plan))

    def lost(self, error: ClientError) -> None:
        """Raises the error if there is to be no other connection."""
        self._backoff.connection_lasted(time.monotonic() - self._connected_at)
        if not self._options.reconnect:
            raise error
        judge(self._rotation, error)
        self.begin(first=False)

    def go_on(self, deadline: float | None) -> bool:
        """Follows the plan; True when there is a connection, False when the time is over before."""
        while self._plan is not None and self._step is not None:
            if not self._pause_is_over(deadline):
                return False
            outcome = self._take(self._step)
            try:
                self._set_step(self._plan.send(outcome))
            except StopIteration:
                self._plan = self._step = None
                self._connected_at = time.monotonic()
        return True

    def _set_step(self, step: Step) -> None:
        self._step = step
        self._pause_until = time.monotonic() + step.delay_s if isinstance(step, Pause) else 0.0

    def _pause_is_over(self, deadline: float | None) -> bool:
        now = time.monotonic()
        until = self._pause_until if deadline is None else min(self._pause_until, deadline)
        if until > now:
            time.sleep(until - now)
        return deadline is None or self._pause_until <= deadline

    def _take(self, step: Step) -> Outcome:
        try:
            if isinstance(step, Resolve):
                found = socket.getaddrinfo(step.address.host, step.address.port, type=socket.SOCK_STREAM)
                return Outcome(time.monotonic(), endpoints_of(found))
            if isinstance(step, Dial):
                self._greet(SocketLink.dial(step, self._tls, self._options.connect_timeout_s))
        except (OSError, ClientError) as error:
            return Outcome(time.monotonic(), error=error)
        return Outcome(time.monotonic())
