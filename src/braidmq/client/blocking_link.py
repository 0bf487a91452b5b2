"""One non-blocking socket, plain or TLS, with the little that a blocking client needs of it."""

import select
import socket
import ssl

from braidmq.client.dialing import Dial
from braidmq.client.errors import ConnectionLostError

SCRATCH_BYTES = 256 * 1024


class SocketLink:
    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._buffer = memoryview(bytearray(SCRATCH_BYTES))
        self._unsent = bytearray()
        self._poll = select.poll()
        self._poll.register(sock, 0)

    @classmethod
    def dial(cls, step: Dial, tls: ssl.SSLContext | None, timeout_s: float) -> "SocketLink":
        sock = socket.socket(step.endpoint.family, socket.SOCK_STREAM)
        try:
            sock.settimeout(timeout_s)
            sock.connect(step.endpoint.sockaddr)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                sock = tls.wrap_socket(sock, server_hostname=step.address.host)
            return cls(sock)
        except BaseException:
            sock.close()
            raise

    @property
    def unsent_bytes(self) -> int:
        return len(self._unsent)

    def read(self) -> memoryview | None:
        """What has come, borrowed until the next read; None: nothing now."""
        try:
            size = self._socket.recv_into(self._buffer)
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except OSError as error:
            raise ConnectionLostError(f"the connection was lost: {error}") from error
        if size == 0:
            raise ConnectionLostError("the connection was lost: closed by the server")
        return self._buffer[:size]

    def write(self, data: bytes | bytearray) -> None:
        """Sends as much as goes without waiting, and keeps the rest."""
        self._unsent += data
        try:
            while self._unsent:
                sent = self._socket.send(self._unsent)
                del self._unsent[:sent]
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            raise ConnectionLostError(f"the connection was lost: {error}") from error

    def wait(self, timeout_s: float | None, *, reading: bool) -> None:
        """Until there is something to read, or room for what is unsent, or the time is over."""
        if reading and isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return  # decrypted bytes wait where poll can't see them
        wanted = (select.POLLIN if reading else 0) | (select.POLLOUT if self._unsent else 0)
        self._poll.modify(self._socket, wanted)
        self._poll.poll(None if timeout_s is None else max(timeout_s, 0) * 1000)

    def close(self) -> None:
        self._socket.close()
