"""One HTTP question with one deadline for all of it, however slowly the answer drips in.

`http.client` bounds each read by itself, so that a service which sends a byte now and then would be listened
to without end. The name of the host is looked up by the operating system, which has its own patience.
"""

import io
import socket
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import SplitResult

from braidmq.net.stream import clock_s


class _TimedReader(io.RawIOBase):
    """What a socket's file reads, until the deadline."""

    def __init__(self, connected: socket.socket, raw: Any, deadline_s: float) -> None:
        self._connected = connected
        self._raw = raw
        self._deadline_s = deadline_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._connected.settimeout(remaining_s(self._deadline_s))
        count: int | None = self._raw.readinto(buffer)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _TimedResponse(HTTPResponse):
    def __init__(self, deadline_s: float, connected: socket.socket, *args: Any, **named: Any) -> None:
        super().__init__(connected, *args, **named)
        self.fp = io.BufferedReader(_TimedReader(connected, self.fp.detach(), deadline_s))


def remaining_s(deadline_s: float) -> float:
    """TimeoutError once nothing is left."""
    left_s = deadline_s - clock_s()
    if left_s <= 0:
        raise TimeoutError("no answer in time")
    return left_s


def post(url: SplitResult, body: bytes, timeout_s: float, answer_bytes_max: int) -> bytes:
    """The body of the answer to a POST. OSError or HTTPException: there is none, or it came too late."""
    deadline_s = clock_s() + timeout_s
    kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
    connection = kind(url.hostname or "", url.port, timeout=timeout_s)
    connection.response_class = partial(_TimedResponse, deadline_s)  # type: ignore[assignment]
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    try:
        connection.connect()  # to each address of the host, and the TLS handshake: each in the whole time
        connection.sock.settimeout(remaining_s(deadline_s))
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != HTTPStatus.OK:
            raise HTTPException(f"status {response.status}")
        answer = response.read(answer_bytes_max)
        remaining_s(deadline_s)
        return answer
    finally:
        connection.close()
