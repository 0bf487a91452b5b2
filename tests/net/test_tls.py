"""TLS listeners: what is encrypted, who is let in by certificate, and which files stop the start."""

import re
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from braidmq.config import Listener
from braidmq.errors import ConfigError
from braidmq.net.tls import server_context, user_of
from braidmq.wire import V5
from tests.net.certificates import Authority, Files
from tests.net.running import serving
from tests.support.raw import TIMEOUT_S, RawClient


class TlsClient(RawClient):
    """A raw client inside TLS."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        super().__init__(port, V5)
        self.sock = context.wrap_socket(self.sock, server_hostname="localhost")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server_files(authority: Authority) -> Files:
    return authority.issue("server", "localhost")


@pytest.fixture(scope="module")
def ports(authority: Authority, server_files: Files) -> Iterator[list[int]]:
    """Three listeners of one broker: TLS, mTLS by common name, mTLS by alternative name."""
    tls = {"certificate": str(server_files.certificate), "key": str(server_files.key)}
    mutual = tls | {"client_ca": str(authority.path)}
    with serving([tls, mutual, mutual | {"certificate_user": "alternative_name"}]) as (_, found):
        yield found


def trusting(authority: Authority, own: Files | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.path))
    if own is not None:
        context.load_cert_chain(own.certificate, own.key)
    return context


def test_messages_large_and_many_travel_over_tls(authority: Authority, ports: list[int]) -> None:
    client = TlsClient(ports[0], trusting(authority))
    client.connect("over-tls")
    client.subscribe("t/#", qos=1)
    payload = bytes(range(256)) * 2000
    for index in range(20):
        client.publish(f"t/{index}", payload, qos=1)
    assert [client.take(payload=payload).topic for _ in range(20)] == [f"t/{index}" for index in range(20)]
    client.disconnect()


def test_a_client_that_speaks_plainly_to_a_tls_port_gets_nothing(ports: list[int]) -> None:
    with socket.create_connection(("127.0.0.1", ports[0]), TIMEOUT_S) as plain:
        plain.sendall(b"\x10\x0f\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x02me")
        answer = plain.recv(100)
        assert not answer.startswith(b"\x20")


def test_without_a_certificate_of_our_authority_nobody_comes_in(
    authority: Authority, ports: list[int], tmp_path: Path
) -> None:
    other = Authority(tmp_path).issue("stranger", "stranger", common_name="ada")
    for own in (None, other):
        with pytest.raises((OSError, AssertionError)):
            TlsClient(ports[1], trusting(authority, own)).connect("me")


def test_a_session_belongs_to_the_user_of_the_certificate(authority: Authority, ports: list[int]) -> None:
    ada = trusting(authority, authority.issue("ada", "ada.example", common_name="ada"))
    bob = trusting(authority, authority.issue("bob", "bob.example", common_name="bob"))
    first = TlsClient(ports[1], ada)
    first.connect("shared-id", session_expiry_s=100)
    TlsClient(ports[1], bob).connect("shared-id", clean_start=False, reason=0x87)
    assert first.barrier() == []
    first.disconnect()
    again = TlsClient(ports[1], ada)
    assert again.connect("shared-id", clean_start=False).session_present


def test_a_certificate_that_names_nobody_is_not_let_in(authority: Authority, ports: list[int]) -> None:
    nameless = trusting(authority, authority.issue("nameless", "only.example"))
    with pytest.raises((OSError, AssertionError)):
        TlsClient(ports[1], nameless).connect("me")
    TlsClient(ports[2], nameless).connect("me")


@pytest.mark.parametrize(
    ("certificate", "source", "user"),
    [
        ({"subject": ((("commonName", "ada"),),)}, "common_name", "ada"),
        ({"subject": ((("commonName", "ada"),), (("commonName", "root"),))}, "common_name", None),
        ({"subject": ((("organizationName", "ada"),),)}, "common_name", None),
        ({"subjectAltName": (("IP Address", "1.2.3.4"), ("DNS", "d-1"))}, "alternative_name", "d-1"),
        ({"subjectAltName": (("URI", "urn:d:1"),)}, "alternative_name", "urn:d:1"),
        ({"subject": ((("commonName", "ada"),),)}, "alternative_name", None),
        ({}, "common_name", None),
    ],
)
def test_the_user_has_one_place(certificate: dict[str, object], source: str, user: str | None) -> None:
    assert user_of(certificate, source) == user


def listener(certificate: Path, key: Path, client_ca: Path | None = None) -> Listener:
    return Listener(
        certificate=str(certificate), key=str(key), client_ca=str(client_ca) if client_ca else None
    )


def test_files_that_are_missing_broken_or_mixed_up_are_named(
    server_files: Files, authority: Authority, tmp_path: Path
) -> None:
    good, key = server_files
    broken = tmp_path / "broken.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\nnonsense\n")
    absent = tmp_path / "absent.pem"
    for wrong, named in (
        (listener(absent, key), absent),
        (listener(good, absent), absent),
        (listener(broken, key), broken),
        (listener(good, authority.issue("other", "other").key), good),
        (listener(good, key, absent), absent),
        (listener(good, key, broken), broken),
    ):
        with pytest.raises(ConfigError, match=str(named)):
            server_context(wrong)


def test_a_key_that_everybody_can_read_is_refused(authority: Authority) -> None:
    files = authority.issue("open", "localhost")
    files.key.chmod(0o644)
    with pytest.raises(ConfigError, match="everybody on this machine can read"):
        server_context(listener(*files))


def test_a_listener_without_files_has_no_tls() -> None:
    assert server_context(Listener()) is None


def test_handshakes_that_never_end_give_way_to_newer_ones(authority: Authority, server_files: Files) -> None:
    tls = {"certificate": str(server_files.certificate), "key": str(server_files.key)}
    settings = "[limits]\nconnecting_max = 2\nconnect_timeout_s = 600\n[admin]\nport = 0\n"
    with serving([tls], settings) as (broker, [port]), httpx.Client(base_url=broker.admin_address()) as api:

        def shown(name: str) -> float:
            return float(re.findall(rf"^{name} (\S+)$", api.get("/metrics").text, re.MULTILINE)[0])

        waiting = [socket.create_connection(("127.0.0.1", port), TIMEOUT_S) for _ in range(2)]
        while shown("braidmq_tls_handshakes") < 2:
            pass  # the test's timeout ends it
        client = TlsClient(port, trusting(authority))
        client.connect("in")
        assert waiting[0].recv(1) == b""
        assert shown("braidmq_connecting_refused_total") >= 1
        client.disconnect()
        for each in waiting:
            each.close()


def test_who_comes_when_all_seats_are_taken_is_told_over_tls_too(
    authority: Authority, server_files: Files
) -> None:
    tls = {"certificate": str(server_files.certificate), "key": str(server_files.key)}
    with serving([tls], "[limits]\nconnections_max = 1\n") as (_, [port]):
        first, late = TlsClient(port, trusting(authority)), TlsClient(port, trusting(authority))
        first.connect("first")
        late.connect("late", reason=0x89)
        first.disconnect()


def test_a_broker_that_stops_says_so_over_tls_too(authority: Authority, server_files: Files) -> None:
    tls = {"certificate": str(server_files.certificate), "key": str(server_files.key)}
    with serving([tls]) as (broker, [port]):
        client = TlsClient(port, trusting(authority))
        client.connect("c")
        broker.process.terminate()
        client.expect_disconnect(0x8B)
        assert broker.process.wait(20) == 0
