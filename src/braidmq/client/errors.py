"""What a client call can raise. Every refusal by the server keeps the reason code the server gave."""

from collections.abc import Sequence

from braidmq.errors import BraidError
from braidmq.wire import NO_PROPERTIES, Properties, ReasonCode


def reason_name(reason: int) -> str:
    """`NOT_AUTHORIZED (0x87)`; a code that no version of MQTT names is shown as a number."""
    try:
        return f"{ReasonCode(reason).name} (0x{reason:02X})"
    except ValueError:
        return f"0x{reason:02X}"


class ClientError(BraidError):
    """Root of what the client raises."""


class ReasonError(ClientError):
    """The server said no. `reason` is its code, `properties` whatever it sent along."""

    saying = "the server refused"

    def __init__(self, reason: int, properties: Properties = NO_PROPERTIES) -> None:
        said = f": {properties.reason_string}" if properties.reason_string else ""
        super().__init__(f"{self.saying}: {reason_name(reason)}{said}")
        self.reason = reason
        self.properties = properties


class ConnectRefusedError(ReasonError):
    """CONNACK with a failure."""

    saying = "the server refused the connection"


class ServerDisconnectedError(ReasonError):
    """The server sent DISCONNECT."""

    saying = "the server disconnected us"


class PublishRefusedError(ReasonError):
    """PUBACK, PUBREC or PUBCOMP with a failure: the server did not take the message."""

    saying = "the server refused the message"


class _RefusedFiltersError(ReasonError):
    def __init__(self, filters: Sequence[str], reasons: Sequence[int], properties: Properties) -> None:
        super().__init__(max(reasons), properties)
        self.filters = tuple(filters)
        self.reasons = tuple(reasons)


class SubscribeRefusedError(_RefusedFiltersError):
    """SUBACK with a failure for at least one filter; `reasons` has one entry for each of `filters`."""

    saying = "the server refused a subscription"


class UnsubscribeRefusedError(_RefusedFiltersError):
    """UNSUBACK with a failure for at least one filter; `reasons` has one entry for each of `filters`."""

    saying = "the server refused to end a subscription"


class LimitExceededError(ClientError):
    """More was asked than this server said it can do; `reason` is the code it would answer with."""

    def __init__(self, reason: int, detail: str) -> None:
        super().__init__(f"{detail} ({reason_name(reason)})")
        self.reason = reason


class AuthenticationFailedError(ClientError):
    """The enhanced authentication failed on our side: the server could not show who it is."""


class ConnectionLostError(ClientError):
    """The connection ended without a DISCONNECT of the server."""


class ConnectFailedError(ClientError):
    """No address could be connected to; `failures` has one (address, error) for each attempt."""

    def __init__(self, failures: Sequence[tuple[str, Exception]]) -> None:
        tried = "; ".join(f"{address}: {str(error) or type(error).__name__}" for address, error in failures)
        super().__init__(f"no broker could be reached ({tried or 'no address'})")
        self.failures = tuple(failures)


class NotConnectedError(ClientError):
    """There is no connection, and the call needs one now."""


class RequestTimeoutError(ClientError, TimeoutError):
    """The server did not answer in time. A QoS 1 or 2 message stays in the session and is still delivered."""


class SessionLostError(ClientError):
    """The server forgot the session of a QoS 2 message on its way: it arrived once, or not at all."""


class ClientClosedError(ClientError):
    """The client was closed, by the application or by an error that ended it (`__cause__`)."""
