"""The program as a whole: exit codes, one-line errors, and the commands that need no broker."""

import io
import json
import re

import pytest

import braidmq as package
from braidmq.cli.main import run
from tests.cli.program import braidmq

COMMANDS = ("serve", "pub", "sub", "demo", "info", "passwd", "sim")


def test_version_and_help_are_answered() -> None:
    assert braidmq("--version").stdout.decode().strip() == f"braidmq {package.__version__}"
    text = braidmq("--help").stdout.decode()
    assert all(re.search(rf"^│ {command} +\w", text, re.MULTILINE) for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    asked = braidmq(command, "--help")
    assert asked.returncode == 0
    assert b"Usage: braidmq " + command.encode() in asked.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["serv"], 'Did you mean "serve"?'),
        (["serve", "--prot", "1"], "Did you mean --port? See braidmq serve --help."),
        (["sim", "blom"], 'Did you mean "bloom"?'),
        (["sim", "balence"], 'Did you mean "balance"?'),
        (["serve", "--port", "x"], "--port: expected a whole number from 0 to 65535, got 'x'"),
        (["serve", "--limit", "inflight_mx=3"], "did you mean inflight_max?"),
        (["serve", "--limit", "inflight_max"], "write NAME=VALUE"),
        (["serve", "--config", "absent.toml"], "absent.toml: No such file or directory"),
        (["serve", "--in-memory", "--data-dir", "x"], "exclude each other"),
        (["pub", "-t", "a"], "-m"),
        (["pub", "-t", "a", "-m", "x", "-n"], "-m"),
        (["pub", "-t", "a/+", "-m", "x"], "a/+"),
        (["pub", "-t", "a", "-m", "x", "-q", "3"], "-q 3: expected 0, 1 or 2"),
        (["pub", "-t", "a", "-m", "x", "-V", "7"], "-V 7: expected 5, 311 or 31"),
        (["pub", "-t", "a", "-m", "x", "-V", "311", "-x", "5"], "came with MQTT 5"),
        (["pub", "-t", "a", "-m", "x", "-i", "a", "-I", "b"], "-i and -I exclude each other"),
        (["pub", "-t", "a", "-m", "x", "-c"], "-c needs a client id"),
        (["pub", "-t", "a", "-m", "x", "--will-qos", "1"], "a will needs --will-topic"),
        (["pub", "-t", "a", "-m", "x", "--cert", "c.pem"], "--cert and --key come together"),
        (["pub", "-t", "a", "-m", "x", "--cafile", "absent.pem"], "absent.pem"),
        (["pub", "-L", "http://host/a", "-m", "x"], "mqtt[s]://"),
        (["pub", "-t", "a", "-f", "absent.bin"], "absent.bin: No such file or directory"),
        (["pub", "-t", "a", "-m", "x", "-D", "publish", "contenttype", "x"], "did you mean content-type?"),
        (["sub"], "-t"),
        (["sub", "-t", "a/#/b"], "a/#/b"),
        (["sub", "-t", "a", "-F", "%z"], "there is no sequence %z"),
        (["sub", "-t", "a", "-C", "0"], "-C"),
        (["passwd", "ada"], "the password is empty"),
    ],
)
def test_a_mistake_is_told_in_one_line_and_ends_with_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert run(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    [line] = printed.err.splitlines()
    assert line.startswith("braidmq: ")
    assert message in line


def test_the_exit_code_reaches_the_shell() -> None:
    done = braidmq("serve", "--port", "x")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"braidmq: --port: expected")


def test_info_lists_the_compiled_modules() -> None:
    facts = json.loads(braidmq("info", "--json").stdout)
    assert facts["braidmq"] == package.__version__
    assert "braidmq.topics.trie" in facts["compiled"]
    assert b"braidmq.topics.trie" in braidmq("info").stdout


def test_passwd_prints_a_line_that_a_configuration_takes() -> None:
    made = braidmq("passwd", 'a "quoted" name', stdin=b"secret\n")
    assert made.returncode == 0
    assert made.stdout.startswith(b'"a \\"quoted\\" name" = "SCRAM-SHA-256$')
    assert b"secret" not in made.stdout
