"""`braidmq serve` as a process: where it listens, how it stops, and what it says when it can't start."""

import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from braidmq.net.files import files_granted
from braidmq.wire import V5, Connack, Connect, FrameReader, decode, encode
from tests.cli.program import braidmq, start

WAIT_S = 20.0


@contextmanager
def serving(*flags: str, env: dict[str, str] | None = None) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A broker on a free port, and the port it says it has."""
    process = start("serve", *flags, env=env)
    try:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        found = re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)\n", line)
        if found is None:
            process.wait(WAIT_S)
            pytest.fail(f"it printed {line!r} and {process.communicate()[1].decode()!r}")
        yield process, int(found[1])
    finally:
        process.kill()
        process.communicate()


def connack(port: int, client_id: str = "visitor") -> Connack:
    """What a client is told when it connects."""
    with socket.create_connection(("127.0.0.1", port), WAIT_S) as connection:
        connection.sendall(encode(Connect(client_id), V5))
        reader = FrameReader(1_000_000)
        while True:
            reader.feed(connection.recv(65_536))
            for first_byte, body in reader.frames():
                packet = decode(first_byte, body, V5)
                assert isinstance(packet, Connack)
                return packet


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_listens_and_stops_cleanly_on_a_signal(number: signal.Signals) -> None:
    with serving("--port", "0", "--in-memory") as (process, port):
        assert connack(port).reason == 0
        process.send_signal(number)
        assert process.wait(WAIT_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.skipif(files_granted() is None, reason="there is no limit of open files here")
def test_more_connections_than_the_system_grants_files_for_are_warned_of() -> None:
    with serving("--port", "0", "--in-memory", "--limit", "connections_max=10000000000") as (process, _):
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"warning: [limits] connections_max (10000000000) is")


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = braidmq("serve", "--in-memory", "--port", port)
    assert refused.returncode == 1
    [line] = refused.stderr.decode().splitlines()
    assert f"127.0.0.1:{port}" in line
    assert "taken" in line


def test_an_address_of_another_machine_is_refused() -> None:
    flags = ("--in-memory", "--port", "0", "--set", "auth.allow_anonymous=true")
    refused = braidmq("serve", "--host", "192.0.2.1", *flags)
    assert refused.returncode == 1
    assert b"192.0.2.1" in refused.stderr


def test_a_data_directory_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    directory = tmp_path / "file" / "data"
    refused = braidmq("serve", "--port", "0", "--data-dir", str(directory))
    assert refused.returncode == 1
    assert refused.stderr.decode() == f"braidmq: --data-dir {directory}: can't be made: Not a directory\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_data_directory_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    refused = braidmq("serve", "--port", "0", "--data-dir", str(tmp_path))
    assert refused.returncode == 1
    [line] = refused.stderr.decode().splitlines()
    assert str(tmp_path) in line
    assert "can't be written" in line


def test_what_was_retained_is_there_after_a_restart(tmp_path: Path) -> None:
    flags = ("--port", "0", "--data-dir", str(tmp_path / "new" / "data"))
    with serving(*flags) as (process, port):
        assert braidmq("pub", "-p", str(port), "-t", "kept", "-m", "here", "-r", "-q", "1").returncode == 0
        process.terminate()
        assert process.wait(WAIT_S) == 0
    with serving(*flags) as (_, port):
        heard = braidmq("sub", "-p", str(port), "-t", "kept", "-C", "1", "-W", str(WAIT_S))
        assert heard.stdout == b"here\n"


def test_two_brokers_do_not_share_a_data_directory(tmp_path: Path) -> None:
    flags = ("--port", "0", "--data-dir", str(tmp_path))
    with serving(*flags):
        refused = braidmq("serve", *flags)
    assert refused.returncode == 1
    [line] = refused.stderr.decode().splitlines()
    assert str(tmp_path) in line
    assert "another broker" in line


def test_flags_variables_and_file_reach_the_broker(tmp_path: Path) -> None:
    path = tmp_path / "braidmq.toml"
    path.write_text("[[listener]]\nport = 0\n[limits]\nreceive_maximum = 7\ntopic_alias_max = 7\n")
    env = {"BRAIDMQ_CONFIG": str(path), "BRAIDMQ_LIMITS_TOPIC_ALIAS_MAX": "8"}
    flags = ("--in-memory", "--limit", "packet_bytes_max=2048", "--set", "limits.server_keep_alive_s=9")
    with serving(*flags, env=env) as (_, port):
        told = connack(port).properties
    assert told.receive_maximum == 7
    assert told.topic_alias_maximum == 8
    assert told.maximum_packet_size_bytes == 2048
    assert told.server_keep_alive_s == 9
