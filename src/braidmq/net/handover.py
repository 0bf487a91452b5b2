"""Workers of one machine share a port: who accepts a connection gives it to the worker whose client it is.

A client id belongs to one worker, so its session never has to move. The first bytes of a connection are
looked at without being read (MSG_PEEK); then the socket itself is passed, with nothing but its client's
address beside it, and the owner reads the CONNECT as if it had accepted it. What arrives slowly is waited for
by the kernel (SO_RCVLOWAT), so a client that sends byte by byte costs no more than one that says nothing.
"""

import asyncio
import contextlib
import socket
from array import array
from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import structlog

from braidmq.broker.broker import Broker
from braidmq.wire import Connack, ReasonCode, connect_answer_version, encode
from braidmq.wire.peeking import FIXED_HEADER_BYTES_MAX, peek_client_id

log = structlog.get_logger("braidmq.net")

NOTE_BYTES_MAX: Final = 1024
PASSED_AT_A_STRETCH: Final = 64  # before those who are connected have their turn
WAITING_MAX: Final = 4096  # sockets that a sibling has not taken yet
RETRY_S: Final = 0.002  # the kernel holds only some datagrams for a sibling that is busy

Adopt = Callable[[socket.socket, str], None]


class Note(msgspec.Struct, array_like=True, frozen=True):
    """What goes with a passed socket."""

    peer: str  # the client's address


_NOTES: Final = msgspec.msgpack.Decoder(Note)


class Passed(NamedTuple):
    accepted: socket.socket
    peer: str
    owner: int


def owner_of(client_id: bytes, workers: int) -> int:
    """Whose client it is: every worker says the same, and another number of workers moves few."""
    return max(range(workers), key=lambda worker: _weight(client_id, worker))


def _weight(client_id: bytes, worker: int) -> bytes:
    return blake2b(client_id, digest_size=8, salt=worker.to_bytes(2, "little")).digest()


def door_path(directory: Path, worker: int) -> str:
    return str(directory / f"door-{worker}")


class _Arrival:
    """A socket whose CONNECT isn't there yet; it gives way by being closed."""

    def __init__(self, accepted: socket.socket, peer: str, forget: Callable[["_Arrival"], None]) -> None:
        self.accepted = accepted
        self.peer = peer
        self.timer: asyncio.TimerHandle | None = None
        self.bytes_seen = 0
        self._forget = forget

    def close(self, why: str) -> None:
        self._forget(self)
        self.accepted.close()
        log.debug("refused before CONNECT", peer=self.peer, why=why)


class Door:
    """One worker's: where sockets arrive, of clients and from siblings. `adopt` makes connections of them."""

    def __init__(self, broker: Broker, worker: int, workers: int, directory: Path, adopt: Adopt) -> None:
        self._broker = broker
        self._worker = worker
        self._workers = workers
        self._directory = directory
        self._adopt = adopt
        self._loop = asyncio.get_running_loop()
        self._arrivals: set[_Arrival] = set()
        self._waiting: deque[Passed] = deque()  # until a sibling takes them
        self._inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._inbox.setblocking(False)
        path = door_path(directory, worker)
        Path(path).unlink(missing_ok=True)  # of a worker that was killed
        self._inbox.bind(path)
        self._outbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._outbox.setblocking(False)
        self._loop.add_reader(self._inbox.fileno(), self._take_passed)

    def close(self) -> None:
        self._loop.remove_reader(self._inbox.fileno())
        for arrival in list(self._arrivals):
            arrival.close("the worker stops")
        for passed in self._waiting:
            passed.accepted.close()
        self._waiting.clear()
        self._inbox.close()
        self._outbox.close()
        Path(door_path(self._directory, self._worker)).unlink(missing_ok=True)

    async def wait_closed(self) -> None:
        """Nothing is left to wait for; so that it can be stopped like a listener."""

    # ---- from clients --------------------------------------------------------------------------------

    def arrived(self, accepted: socket.socket, peer: str) -> None:
        """A client has connected. Whose it is shows when its CONNECT is there."""
        accepted.setblocking(False)
        arrival = _Arrival(accepted, peer, self._forget)
        self._arrivals.add(arrival)
        self._broker.handshakes += 1
        self._broker.newcomers.add(arrival)
        if not self._broker.has_room():
            arrival.close("there are no more sockets")
            return
        self._look(arrival)

    def _look(self, arrival: _Arrival) -> None:
        """See whose it is, or wait for the bytes that tell."""
        limit = self._broker.limits.connect_bytes_max
        try:
            data = arrival.accepted.recv(limit, socket.MSG_PEEK)
        except BlockingIOError:
            self._wait(arrival, 1)
            return
        except OSError as error:
            arrival.close(str(error))
            return
        if len(data) == arrival.bytes_seen:  # readable, and nothing more: it has ended
            arrival.close("it has gone again")
            return
        arrival.bytes_seen = len(data)
        peeked = peek_client_id(data)
        if peeked.bytes_needed > limit:  # the broker says that it is too much
            self._decided(arrival, self._worker)
        elif peeked.bytes_needed > len(data):
            self._wait(arrival, peeked.bytes_needed)
        else:
            owner = owner_of(peeked.client_id, self._workers) if peeked.client_id else self._worker
            self._decided(arrival, owner)

    def _wait(self, arrival: _Arrival, bytes_needed: int) -> None:
        arrival.accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, bytes_needed)
        if arrival.timer is None:
            timeout_s = self._broker.limits.connect_timeout_s
            arrival.timer = self._loop.call_later(timeout_s, arrival.close, "no CONNECT in time")
            self._loop.add_reader(arrival.accepted.fileno(), self._look, arrival)

    def _decided(self, arrival: _Arrival, owner: int) -> None:
        self._forget(arrival)
        arrival.accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        if owner == self._worker:
            self._admit(arrival.accepted, arrival.peer)
        else:
            self._pass(Passed(arrival.accepted, arrival.peer, owner))

    def _forget(self, arrival: _Arrival) -> None:
        """It is no longer on the doorstep."""
        if arrival in self._arrivals:
            self._arrivals.discard(arrival)
            self._broker.handshakes -= 1
            self._broker.newcomers.settle(arrival)
        if arrival.timer is not None:
            arrival.timer.cancel()
            arrival.timer = None
            self._loop.remove_reader(arrival.accepted.fileno())

    def _admit(self, accepted: socket.socket, peer: str) -> None:
        try:
            self._adopt(accepted, peer)
        except OSError as error:
            accepted.close()
            log.debug("refused before CONNECT", peer=peer, why=str(error))

    # ---- between siblings ----------------------------------------------------------------------------

    def _pass(self, passed: Passed) -> None:
        if self._waiting and len(self._waiting) < WAITING_MAX:
            self._waiting.append(passed)  # behind those that came before
        elif self._waiting or not self._was_sent(passed):
            self._wait_or_refuse(passed)

    def _wait_or_refuse(self, passed: Passed) -> None:
        if len(self._waiting) >= WAITING_MAX:
            self._refuse(passed)
            return
        self._waiting.append(passed)
        self._loop.call_later(RETRY_S, self._pass_on)

    def _pass_on(self) -> None:
        """Try again to give away what waits."""
        while self._waiting:
            if not self._was_sent(self._waiting[0]):
                self._loop.call_later(RETRY_S, self._pass_on)
                return
            self._waiting.popleft()

    def _was_sent(self, passed: Passed) -> bool:
        """False: the sibling has too many to take. If it isn't there at all, the client is told."""
        note = msgspec.msgpack.encode(Note(passed.peer))
        path = door_path(self._directory, passed.owner)
        rights = array("i", [passed.accepted.fileno()])
        try:  # not by socket.send_fds, which has no use for an address before Python 3.12
            self._outbox.sendmsg([note], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)], 0, path)
        except BlockingIOError:
            return False
        except OSError as error:
            log.debug("a worker does not take its client", worker=passed.owner, why=str(error))
            self._refuse(passed)
        else:
            passed.accepted.close()  # our copy only
        return True

    def _refuse(self, passed: Passed) -> None:
        """Tell the client to come again: whoever has its session isn't there."""
        with contextlib.suppress(OSError):
            data = passed.accepted.recv(self._broker.limits.connect_bytes_max)
            version = connect_answer_version(_body_of(data))
            reason = ReasonCode.SERVER_UNAVAILABLE
            passed.accepted.send(encode(Connack(False, reason), version))
        passed.accepted.close()

    def _take_passed(self) -> None:
        for _ in range(PASSED_AT_A_STRETCH):
            try:
                data, descriptors, _, _ = socket.recv_fds(self._inbox, NOTE_BYTES_MAX, 1)
            except BlockingIOError:
                return
            if not descriptors:
                continue
            accepted = socket.socket(fileno=descriptors[0])
            try:
                note = _NOTES.decode(data)
            except msgspec.DecodeError:
                accepted.close()
            else:
                self._admit(accepted, note.peer)


def _body_of(connect: bytes) -> bytes:
    """What stands behind the length of a packet."""
    length_bytes = next((at for at in range(1, FIXED_HEADER_BYTES_MAX) if connect[at] < 0x80), 0)
    return connect[1 + length_bytes :]
