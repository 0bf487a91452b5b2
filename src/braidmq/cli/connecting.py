"""The life of a client in a command: connected on entry, said goodbye on exit, however it ends."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from braidmq.cli.connection import ConnectionFlags, Destination, client_options, command_properties
from braidmq.client import BlockingClient
from braidmq.errors import BraidError

EXIT_FAILED: Final = 1


@contextmanager
def connected(flags: ConnectionFlags, where: Destination, **more: Any) -> Iterator[BlockingClient]:
    """A client that is connected, and that says goodbye with the properties given for it.

    SIGTERM ends it as cleanly as Ctrl-C does: a will is for other ends.
    """
    properties = command_properties(flags)
    client = BlockingClient(str(where), **(client_options(flags, properties, where) | more))
    note = Notes(flags.debug)
    previous = signal.signal(signal.SIGTERM, _leave)
    try:
        note(f"connecting to {where}")
        client.open()
        note(
            f"connected as {client.client_id}, {'known' if client.session.session_present else 'new'} session"
        )
        yield client
    except BraidError:
        if not flags.quiet:
            raise
        sys.exit(EXIT_FAILED)
    finally:
        client.close(properties=properties.disconnect)
        signal.signal(signal.SIGTERM, previous)
        note("disconnected")


def _leave(number: int, _frame: object) -> None:
    sys.exit(128 + number)


class Notes:
    """What -d prints."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted

    def __call__(self, text: str) -> None:
        if self._wanted:
            print(text, file=sys.stderr, flush=True)
