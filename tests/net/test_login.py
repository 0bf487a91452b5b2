"""Logging in to a real broker process: the password file that `braidmq passwd` writes, and tokens."""

import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jwt
import pytest

from braidmq.access.tokens import LEEWAY_S
from tests.cli.program import braidmq
from tests.net.running import serving
from tests.support.raw import RawClient

SECRET = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A broker with a password file and tokens."""
    directory = tmp_path_factory.mktemp("login")
    passwords, secret = directory / "passwords", directory / "secret"
    for name in ("ada", "bob", "bob"):
        added = braidmq("passwd", str(passwords), name, stdin=f"{name}'s secret\n".encode())
        assert (added.returncode, added.stderr) == (0, b"")
    assert stat.S_IMODE(passwords.stat().st_mode) == 0o600
    secret.touch(mode=0o600)
    secret.write_text(SECRET + "\n")
    settings = f'password_file = "{passwords}"\njwt_key_file = "{secret}"\njwt_algorithm = "HS256"\n'
    with serving([{}], f"[auth]\n{settings}") as (_, ports):
        yield ports[0]


def test_a_user_of_the_password_file_comes_in(port: int) -> None:
    for name in ("ada", "bob"):
        RawClient(port).connect("me-" + name, username=name, password=f"{name}'s secret".encode())


@pytest.mark.parametrize(("version", "reason"), [(5, 0x86), (4, 4)])
def test_a_wrong_password_and_an_unknown_name_are_answered_alike(
    port: int, version: int, reason: int
) -> None:
    for name in ("ada", "nobody"):
        client = RawClient(port, version)
        client.connect("me", username=name, password=b"wrong", reason=reason)
        client.expect_closed()


def test_strangers_stay_out(port: int) -> None:
    RawClient(port).connect("me", reason=0x87)


def test_a_token_lets_in(port: int) -> None:
    good = jwt.encode({"sub": "device-7", "exp": time.time() + 600}, SECRET, "HS256").encode()
    RawClient(port).connect("me", username="device-7", password=good)
    old = jwt.encode({"sub": "device-7", "exp": time.time() - 600}, SECRET, "HS256").encode()
    RawClient(port).connect("me", username="device-7", password=old, reason=0x86)


def test_a_token_that_expires_ends_the_connection(port: int) -> None:
    soon = jwt.encode({"sub": "device-7", "exp": time.time() + 1.0 - LEEWAY_S}, SECRET, "HS256").encode()
    client = RawClient(port)
    client.connect("brief", username="device-7", password=soon)
    client.expect_disconnect(0xA0)


def test_passwd_removes_a_user(tmp_path: Path) -> None:
    path = str(tmp_path / "passwords")
    braidmq("passwd", path, "ada", stdin=b"secret\n")
    assert braidmq("passwd", path, "bob", "--delete").returncode == 2
    assert braidmq("passwd", path, "ada", "--delete").returncode == 0
    assert Path(path).read_text() == ""
    assert braidmq("passwd", path, "ada", stdin=b"secret\n").returncode == 0


@pytest.mark.parametrize(
    ("auth", "named"),
    [
        ('password_file = "absent"', b"absent"),
        ('password_file = "empty"', b"names nobody"),
        ('jwt_key_file = "empty"', b"not a key for RS256"),
        ('http_url = "http://auth.example/"', b"unencrypted"),
        ('http_url = "https://me:secret@auth.example/"', b"leave it out"),
        ('http_url = "auth.example"', b"expected https://"),
    ],
)
def test_a_doubtful_file_or_address_stops_the_start(tmp_path: Path, auth: str, named: bytes) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "broker.toml").write_text(f"[auth]\n{auth}\n[[listener]]\nport = 0\n")
    refused = braidmq("serve", "--in-memory", "--config", "broker.toml", cwd=tmp_path)
    assert refused.returncode in (1, 2)
    assert named in refused.stderr
    assert b"broker.toml:2: [auth]" in refused.stderr or b"empty: " in refused.stderr
    assert b"Traceback" not in refused.stderr


def test_the_library_for_tokens_is_loaded_only_where_there_are_tokens() -> None:
    code = "import sys, braidmq.node; print('jwt' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"
