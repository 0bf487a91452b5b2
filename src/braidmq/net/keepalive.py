"""The system looks after clients that MQTT doesn't: with keep alive 0 a vanished one would stay for ever."""

import socket
from collections.abc import Iterable
from typing import Any, Final

# Asked after a minute of silence, then four times; gone after two minutes.
_SETTINGS: Final = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}


def keep_alive(listening: Iterable[Any]) -> None:
    """Let the system ask whether silent peers are there; accepted sockets do as their listening one does."""
    for one in listening:
        if one.family not in (socket.AF_INET, socket.AF_INET6):
            continue
        one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _SETTINGS.items():
            if hasattr(socket, name):
                one.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
