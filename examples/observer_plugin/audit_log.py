"""An observer for BraidMQ: who came, what they asked for and how it ended, as a file of JSON lines.

`pip install .` here, then in the broker's configuration:

    [observers.audit-log]
    path = "/var/log/braidmq/audit.jsonl"

It wants nothing that happens for each message, so the broker stays as fast as it is without it.
"""

import time
from pathlib import Path

import msgspec

from braidmq.broker import events


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str


class AuditLog:
    Settings = Settings
    wants = frozenset(
        {
            events.Started,
            events.Stopped,
            events.Authenticated,
            events.ConnectRefused,
            events.SessionEstablished,
            events.Disconnected,
            events.SessionEnded,
            events.Subscribed,
            events.Unsubscribed,
            events.Retained,
            events.WillSent,
        }
    )

    def __init__(self, settings: Settings) -> None:
        self._file = Path(settings.path).open("ab", buffering=0)  # noqa: SIM115 open for as long as the broker

    def observe(self, event: events.Event) -> None:
        line = {"at_s": round(time.time(), 3), **msgspec.to_builtins(event)}
        self._file.write(msgspec.json.encode(line) + b"\n")
        if isinstance(event, events.Stopped):
            self._file.close()
