"""Whose turn it is to send retained messages: one connection's a turn, so that many cost no more than one."""

from collections import deque
from typing import TYPE_CHECKING

from braidmq.broker.hub import Hub

if TYPE_CHECKING:
    from braidmq.broker.connection import Connection


class Replays:
    """Connections that have more retained messages to send than they had time for, in order of waiting."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._waiting: deque[Connection] = deque()

    def add(self, connection: "Connection") -> None:
        """Let the connection `send_more` when it is its turn."""
        self._waiting.append(connection)
        self._hub.replaying += 1
        if len(self._waiting) == 1:
            connection.shell.defer(self._next)

    def _next(self) -> None:
        connection = self._waiting.popleft()
        self._hub.replaying -= 1
        if self._waiting:
            self._waiting[0].shell.defer(self._next)
        connection.send_more()
