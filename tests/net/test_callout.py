"""The HTTP call-out against a real HTTP server: allow, deny, ignore, and everything that can go wrong."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from braidmq.access.verdicts import Admitted, Claim, Refused, Slow
from braidmq.net.callout import HttpCallout

TIMEOUT_S = 20.0


class Service(HTTPServer):
    """Answers every question in the way that the test says."""

    status = 200
    body = b""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.questions: list[dict[str, Any]] = []


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        self.server.questions.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def ask(service: Service, password: bytes | None = b"secret") -> Admitted | Refused | None:
    callout = HttpCallout(f"http://127.0.0.1:{service.server_port}/auth?x=1", TIMEOUT_S)
    found = callout.judge(Claim("c", "ada", password, "192.0.2.1:7"))
    assert isinstance(found, Slow)
    return found.work()


def test_the_service_is_told_what_the_client_says(service: Service) -> None:
    service.body = b'{"result": "allow"}'
    assert ask(service) == Admitted("ada", grounds=("http",))
    question = {"client_id": "c", "username": "ada", "password": "secret", "address": "192.0.2.1:7"}
    assert service.questions == [question]


def test_the_service_decides(service: Service) -> None:
    service.body = b'{"result": "allow", "user": "ada@example"}'
    assert ask(service) == Admitted("ada@example", grounds=("http",))
    service.body = b'{"result": "ignore"}'
    assert ask(service) is None
    service.body = b'{"result": "deny"}'
    assert ask(service) == Refused(0x86, "the user name or the password is wrong")


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b'{"result": "allow"}'),
        (302, b'{"result": "allow"}'),
        (204, b""),
        (200, b""),
        (200, b"allow"),
        (200, b'{"result": true}'),
        (200, b'{"result": "allow", "user": 7}'),
        (200, b'{"result": "allow", "padding": "' + b"x" * 100_000 + b'"}'),
    ],
)
def test_any_other_answer_keeps_the_client_out(service: Service, status: int, body: bytes) -> None:
    service.status, service.body = status, body
    assert isinstance(ask(service), Refused)


def test_a_password_that_is_no_text_keeps_the_client_out(service: Service) -> None:
    assert isinstance(ask(service, b"\xff"), Refused)
    assert service.questions == []


def test_a_service_that_is_not_there_keeps_the_client_out() -> None:
    found = HttpCallout("http://127.0.0.1:1/", TIMEOUT_S).judge(Claim("c", "ada", b"x", "peer"))
    assert isinstance(found, Slow)
    assert isinstance(found.work(), Refused)


def test_a_client_that_claims_nothing_is_not_asked_about() -> None:
    assert HttpCallout("http://127.0.0.1:1/", TIMEOUT_S).judge(Claim("c", None, None, "peer")) is None


class Dripping:
    """A service that sends its answer a byte at a time, for ever; a clock that each read moves on."""

    def __init__(self, answer: bytes, seconds_a_byte: float) -> None:
        self.now_s = 100.0
        self._bytes = list(answer)
        self._seconds_a_byte = seconds_a_byte

    def clock_s(self) -> float:
        return self.now_s

    def readinto(self, buffer: memoryview) -> int:
        self.now_s += self._seconds_a_byte
        buffer[:1] = bytes([self._bytes.pop(0)]) if self._bytes else b" "
        return 1


def test_an_answer_that_drips_is_refused_at_the_deadline(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = b'HTTP/1.0 200 OK\r\n\r\n{"result": "allow"}'
    dripping = Dripping(answer, TIMEOUT_S / (len(answer) + 10))
    monkeypatch.setattr("braidmq.net.timed_http.clock_s", dripping.clock_s)
    monkeypatch.setattr("socket.SocketIO.readinto", lambda raw, buffer: dripping.readinto(buffer))
    found = ask(service)
    assert found == Refused(0x88, "the authentication service gave no answer")
    assert dripping.now_s <= 100.0 + 1.1 * TIMEOUT_S
