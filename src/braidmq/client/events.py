"""What a session tells its shell. Names are in the past tense: it has happened, the shell acts."""

import msgspec

from braidmq.client.errors import ClientError
from braidmq.wire import Properties, Puback, Pubcomp, Pubrec, Suback, Unsuback


class Connected(msgspec.Struct, frozen=True):
    """CONNACK accepted us. `session_present`: the server still has the session of an earlier connection."""

    session_present: bool
    properties: Properties


class MessagesReceived(msgspec.Struct, frozen=True):
    """New messages wait in the inbox; take them with `Session.take_batch`."""

    count: int


class Completed(msgspec.Struct, frozen=True):
    """The server answered the request `token` with a success.

    `answer` is None for a QoS 2 message whose session the server forgot after it had taken the message.
    """

    token: int
    answer: Puback | Pubrec | Pubcomp | Suback | Unsuback | None


class Failed(msgspec.Struct, frozen=True):
    """The request `token` came to nothing."""

    token: int
    error: ClientError


class Reauthenticated(msgspec.Struct, frozen=True):
    """The server accepted the renewed authentication."""


class ResubscribeRefused(msgspec.Struct, frozen=True):
    """The session was gone, and the server took back a subscription it had granted before."""

    error: ClientError


class Closed(msgspec.Struct, frozen=True):
    """The connection is over: send what is left to send, then close the transport."""

    error: ClientError


Event = Connected | MessagesReceived | Completed | Failed | Reauthenticated | ResubscribeRefused | Closed
