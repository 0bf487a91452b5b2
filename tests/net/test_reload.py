"""SIGHUP on a real broker process: new rules hold at once, and a doubtful file changes nothing."""

import asyncio
import os
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from braidmq.config import AuthConfig, Config, Listener
from braidmq.errors import ConfigError
from braidmq.net.gate import make_gate
from braidmq.net.stream import Turn
from braidmq.node import Effective, _reload, make_broker
from braidmq.store import MemoryStore
from tests.cli.program import braidmq
from tests.net.certificates import Authority
from tests.net.running import serving
from tests.support.broker import POLL_S, START_TIMEOUT_S, Broker
from tests.support.raw import TIMEOUT_S, RawClient

OPEN = '[[rule]]\nallow = ["read", "write", "subscribe"]\ntopic = "#"\n'
WITHOUT_A = '[[rule]]\ndeny = ["read", "write", "subscribe"]\ntopic = "a/#"\n' + OPEN


class Ruled:
    """A broker and the file of its rules."""

    def __init__(self, broker: Broker, port: int, rules: Path) -> None:
        self.broker = broker
        self.port = port
        self.rules = rules

    def reload(self, text: str, said: str) -> None:
        """Give it other rules, and wait until it has said `said` once more."""
        before = self.broker.log().count(said)
        self.rules.write_text(text)
        os.kill(self.broker.pid, signal.SIGHUP)
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.broker.log().count(said) == before:
            assert time.monotonic() < deadline, self.broker.log()
            time.sleep(POLL_S)


@pytest.fixture
def ruled(tmp_path: Path) -> Iterator[Ruled]:
    rules = tmp_path / "rules.toml"
    rules.write_text(OPEN)
    with serving([{}], f'[acl]\nfile = "{rules}"\n[log]\nformat = "json"\n') as (broker, ports):
        yield Ruled(broker, ports[0], rules)


def test_a_right_that_is_taken_back_ends_a_subscription_at_once(ruled: Ruled) -> None:
    reader, writer = RawClient(ruled.port), RawClient(ruled.port)
    reader.connect("reader")
    writer.connect("writer")
    reader.subscribe("a/x", "b")
    writer.publish("a/x", b"1", qos=1)
    reader.take(payload=b"1")
    ruled.reload(WITHOUT_A, '"reloaded"')
    assert writer.publish("a/x", b"2", qos=1) == 0x87
    assert writer.publish("b", b"3", qos=1) == 0
    reader.take(payload=b"3")
    assert list(reader.subscribe("a/x").reasons) == [0x87]


@pytest.mark.parametrize("text", ["", "nonsense", OPEN + '[[rule]]\ntopic = "a"\n'])
def test_a_doubtful_file_changes_nothing_and_is_told(ruled: Ruled, text: str) -> None:
    client = RawClient(ruled.port)
    client.connect("client")
    ruled.reload(WITHOUT_A, '"reloaded"')
    ruled.reload(text, "not reloaded")
    assert client.publish("a/x", b"", qos=1) == 0x87
    assert str(ruled.rules) in ruled.broker.log()


@pytest.mark.parametrize("text", ["", "[[rule]]\n"])
def test_a_doubtful_file_stops_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "rules.toml").write_text(text)
    refused = braidmq(
        "serve", "--in-memory", "--port", "0", "--set", "acl.file=rules.toml", cwd=tmp_path
    )
    assert refused.returncode == 1
    assert b"rules.toml" in refused.stderr


def shown(port: int, trusted: Path) -> bytes | None:
    """The certificate that the broker shows."""
    context = ssl.create_default_context(cafile=str(trusted))
    with (
        socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        return secure.getpeercert(binary_form=True)


def test_a_renewed_certificate_is_shown_and_a_broken_one_is_not_taken(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server", "localhost")
    rest = '[log]\nformat = "json"\n'
    with serving([{"certificate": str(certificate), "key": str(key)}], rest) as (broker, ports):
        first = shown(ports[0], authority.path)
        assert shown(ports[0], authority.path) == first
        authority.issue("server", "localhost")
        renewed = certificate.read_text()
        Ruled(broker, ports[0], certificate).reload(renewed, '"reloaded"')
        second = shown(ports[0], authority.path)
        assert second != first
        Ruled(broker, ports[0], certificate).reload("broken", "not reloaded")
        assert shown(ports[0], authority.path) == second


def test_a_reload_never_opens_a_listener_to_strangers(tmp_path: Path) -> None:
    """The listener was made for known users; a file without them would let everybody use it."""
    braidmq("passwd", str(tmp_path / "passwords"), "ada", stdin=b"secret\n")
    known = AuthConfig(password_file=str(tmp_path / "passwords"))
    config = Config(listeners=(Listener(host="0.0.0.0"),), auth=known)
    broker = make_broker(config, MemoryStore(), make_gate(config))
    gate = broker.gate
    turn = Turn(broker, asyncio.new_event_loop())
    with pytest.raises(ConfigError, match="no authentication is configured"):
        _reload(Effective(config), Config, turn)
    assert broker.gate is gate


def test_a_doubtful_file_is_found_before_the_data_is_touched(tmp_path: Path) -> None:
    flags = ("--port", "0", "--data-dir", "data", "--set", "acl.file=absent")
    refused = braidmq("serve", *flags, cwd=tmp_path)
    assert refused.returncode == 1
    assert b"absent" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_user_who_is_removed_from_the_file_is_sent_away(tmp_path: Path) -> None:
    users = tmp_path / "passwords"
    for name in ("ada", "bob"):
        braidmq("passwd", str(users), name, stdin=f"{name}\n".encode())
    settings = f'[auth]\npassword_file = "{users}"\n[log]\nformat = "json"\n'
    with serving([{}], settings) as (broker, [port]):
        ada, bob = RawClient(port), RawClient(port)
        ada.connect("a", username="ada", password=b"ada")
        bob.connect("b", username="bob", password=b"bob")
        braidmq("passwd", str(users), "ada", "--delete")
        os.kill(broker.pid, signal.SIGHUP)
        ada.expect_disconnect(0x87)
        bob.expect_nothing()
        RawClient(port).connect("a", username="ada", password=b"ada", reason=0x86)
