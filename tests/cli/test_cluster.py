"""`braidmq cluster`: what it asks a broker for, what it prints, and how it ends."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from braidmq.cli.main import run
from tests.support.broker import free_port

NORTH = {
    "node": "1" * 16, "name": "north", "state": "live", "is_this_node": True, "version": "1.0", "boot": 1,
    "addresses": ["127.0.0.1:7883"], "client_address": "", "keeps": True, "connections": 12, "rtt_ms": None,
    "clock_offset_s": None, "silent_s": None, "queued_messages": None, "queued_bytes": None, "oldest_s": None,
}  # fmt: skip
EAST = NORTH | {"node": "2" * 16, "name": "east", "is_this_node": False, "rtt_ms": 0.25, "queued_messages": 7}
STATUS = {"name": "plant", "routing": "bloom", "size": 2, "nodes": [NORTH, EAST], "warnings": []}


@contextmanager
def answering(status: int, answer: Any) -> Iterator[tuple[str, list[str]]]:
    """An admin API that answers everything alike: its port, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path} {self.headers.get('Authorization', '')}".strip())
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        do_POST = do_GET  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield str(server.server_port), asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_status_is_a_table_of_the_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(200, STATUS) as (port, asked):
        assert run(["cluster", "status", "--admin-port", port, "--admin-token", "secret"]) == 0
    assert asked == ["GET /cluster Bearer secret"]
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert ["north", "*", "live", "1.0", "127.0.0.1:7883", "12"] in lines
    assert ["east", "live", "1.0", "127.0.0.1:7883", "12", "0.25", "ms", "7"] in lines
    assert lines[-1][:6] == ["2", "of", "2", "nodes", "work", "together;"]


@pytest.mark.parametrize(
    "trouble", [{"nodes": [NORTH, EAST | {"state": "dead"}]}, {"warnings": ["clocks \x1b[2J differ"]}]
)
def test_status_fails_if_a_node_is_missing_or_something_is_wrong(
    trouble: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(200, STATUS | trouble) as (port, _):
        assert run(["cluster", "status", "--admin-port", port]) == 1
    out = capsys.readouterr().out
    assert "dead" in out or "warning: clocks \\u001b[2J differ" in out


def test_json_is_what_the_broker_says(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(200, STATUS) as (port, _):
        assert run(["cluster", "status", "--json", "--admin-port", port]) == 0
    assert json.loads(capsys.readouterr().out) == STATUS


def test_routes_name_the_nodes_and_whom_a_message_is_for_there(capsys: pytest.CaptureFixture[str]) -> None:
    east = {
        "node": "2" * 16,
        "name": "east",
        "state": "live",
        "is_for_subscribers": True,
        "is_for_groups": True,
    }
    with answering(200, {"topic": "a b/c", "sessions_here": 3, "nodes": [east]}) as (port, asked):
        assert run(["cluster", "routes", "a b/c", "--admin-port", port]) == 0
    assert asked == ["GET /cluster/routes?topic=a+b%2Fc"]
    assert (
        capsys.readouterr().out == "3 sessions of this node\nsubscribers and shared groups of east (live)\n"
    )


@pytest.mark.parametrize("what", ["drain", "undrain", "rebalance", "leave"])
def test_what_a_node_is_told_is_posted(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(200, {"state": "draining"}) as (port, asked):
        assert run(["cluster", what, "--admin-port", port]) == 0
    assert asked == [f"POST /cluster/{what}"]
    assert capsys.readouterr().out


def test_a_node_is_forgotten_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(200, EAST) as (port, asked):
        assert run(["cluster", "forget", "a/b", "--admin-port", port]) == 0
    assert asked == ["POST /cluster/forget/a%2Fb"]
    assert capsys.readouterr().out == f"forgotten: east ({'2' * 16})\n"


def test_a_refusal_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(409, {"status": 409, "detail": "node east is live: stop it first"}) as (port, _):
        assert run(["cluster", "forget", "east", "--admin-port", port]) == 1
    assert capsys.readouterr().err == "braidmq: cluster forget: node east is live: stop it first\n"


def test_where_the_broker_is_has_to_be_said_and_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cluster", "status"]) == 2
    assert "--admin-port is missing" in capsys.readouterr().err
    assert run(["cluster", "status", "--admin-port", str(free_port())]) == 1
    assert "Connection refused" in capsys.readouterr().err
