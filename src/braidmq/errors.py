"""The one tree of errors. Whatever BraidMQ raises on purpose is a BraidError."""


class BraidError(Exception):
    """Root of every error that BraidMQ raises on purpose."""


class ProtocolError(BraidError):
    """A peer broke MQTT's rules.

    It carries the reason code that MQTT names for the fault; the shell alone turns it into a CONNACK, an
    acknowledgement or a DISCONNECT of the peer's protocol version. `server_reference` is where the peer
    should go instead; empty if nothing is said about that.
    """

    def __init__(self, reason: int, detail: str, server_reference: str = "") -> None:
        super().__init__(f"{detail} (reason 0x{reason:02X})")
        self.reason = reason
        self.detail = detail
        self.server_reference = server_reference


class ConfigError(BraidError):
    """A flag, a file or a value of the configuration is wrong; the message says which and why."""


class StoreError(BraidError):
    """The store can't keep what it was asked to keep, or can't read what it has."""
