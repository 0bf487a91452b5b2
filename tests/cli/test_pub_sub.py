"""`braidmq pub` and `braidmq sub` as processes, against our broker and against Mosquitto."""

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from braidmq.cli.main import run
from tests.cli.program import TIMEOUT_S, braidmq, start
from tests.support.broker import Broker, UnsupportedError, free_port, start_braidmq, start_mosquitto


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    started = start_braidmq()
    yield started
    started.stop()


@pytest.fixture(scope="module", params=["braidmq", "mosquitto"])
def any_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """Ours, and Mosquitto: what goes over the wire must mean the same to both."""
    if request.param == "braidmq":
        yield request.getfixturevalue("broker")
        return
    try:
        started = start_mosquitto()
    except UnsupportedError as reason:
        pytest.skip(str(reason))
    yield started
    started.stop()


class Subscriber:
    """A `braidmq sub` that is known to be subscribed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._wait_until_subscribed()

    def _wait_until_subscribed(self) -> None:
        assert self.process.stderr is not None
        said = b""
        for line in self.process.stderr:
            said += line
            if line.startswith(b"subscribed"):
                return
        pytest.fail(f"sub ended: {said.decode()}")

    def output(self) -> str:
        """What it has printed by its own end."""
        return self.process.communicate(timeout=TIMEOUT_S)[0].decode()

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode()


@contextmanager
def subscribed(port: int, *flags: str) -> Iterator[Subscriber]:
    process = start("sub", "-p", str(port), "-d", *flags)
    try:
        yield Subscriber(process)
    finally:
        process.kill()
        process.communicate()


def publish(port: int, *flags: str) -> None:
    """`braidmq pub` without a process of its own, for tests that are about something else."""
    assert run(["pub", "-p", str(port), *flags]) == 0


def publish_from_stdin(port: int, *flags: str, stdin: bytes) -> None:
    done = braidmq("pub", "-p", str(port), *flags, stdin=stdin)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize(("version", "qos"), [("5", "0"), ("5", "2"), ("311", "1"), ("mqttv31", "2")])
def test_what_is_published_is_printed(any_broker: Broker, version: str, qos: str) -> None:
    topic = f"versions/{version}"
    with subscribed(
        any_broker.port, "-t", "versions/+", "-q", qos, "-V", version, "-C", "1", "-v"
    ) as subscriber:
        publish(any_broker.port, "-t", topic, "-m", "-5 °C", "-q", qos, "-V", version)
        assert subscriber.output() == f"{topic} -5 °C\n"
        assert subscriber.process.returncode == 0


def test_every_source_of_messages(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"from a file")
    with subscribed(broker.port, "-t", "source/#", "-q", "1", "-C", "8", "-F", "%t=%p") as subscriber:
        publish(broker.port, "-t", "source/file", "-f", str(tmp_path / "file"), "-q", "1")
        publish_from_stdin(broker.port, "-t", "source/stdin", "-s", "-q", "1", stdin=b"all of it")
        publish_from_stdin(broker.port, "-t", "source/line", "-l", "-q", "1", stdin=b"one\ntwo\nno end")
        publish(broker.port, "-t", "source/nothing", "-n", "-q", "1")
        publish(
            broker.port, "-t", "source/twice", "-m", "x", "--repeat", "2", "--repeat-delay", "0.01", "-q", "1"
        )
        assert subscriber.output().splitlines() == [
            "source/file=from a file",
            "source/stdin=all of it",
            "source/line=one",
            "source/line=two",
            "source/line=no end",
            "source/nothing=",
            "source/twice=x",
            "source/twice=x",
        ]


def test_a_line_is_published_when_it_is_typed(broker: Broker) -> None:
    with subscribed(broker.port, "-t", "typed") as subscriber:
        publisher = start("pub", "-p", str(broker.port), "-t", "typed", "-l")
        try:
            assert publisher.stdin is not None
            for word in ("first", "second"):
                publisher.stdin.write(f"{word}\n".encode())
                publisher.stdin.flush()
                assert subscriber.line() == f"{word}\n"
        finally:
            publisher.communicate(timeout=TIMEOUT_S)
        assert publisher.returncode == 0


def test_properties_travel(any_broker: Broker) -> None:
    properties = [
        "-D",
        "publish",
        "content-type",
        "text/plain",
        "-D",
        "publish",
        "user-property",
        "unit",
        "K",
    ]
    identifier = ["-D", "subscribe", "subscription-identifier", "7"]
    with subscribed(any_broker.port, "-t", "properties", "-C", "1", "-F", "%j", *identifier) as subscriber:
        publish(any_broker.port, "-t", "properties", "-m", "x", *properties)
        shown = json.loads(subscriber.output())
    assert shown["payload"] == "x"
    assert shown["properties"] == {
        "content-type": "text/plain",
        "user-properties": [{"unit": "K"}],
        "subscription-identifier": [7],
    }


def test_retained_messages_can_be_shown_hidden_and_cleared(broker: Broker) -> None:
    port = broker.port
    for name in ("a", "b"):
        publish(port, "-t", f"kept/{name}", "-m", name, "-r", "-q", "1")
    shown = braidmq("sub", "-p", str(port), "-t", "kept/#", "-C", "2", "-F", "%t %r")
    assert sorted(shown.stdout.decode().splitlines()) == ["kept/a 1", "kept/b 1"]
    with subscribed(port, "-t", "kept/#", "-R", "-C", "1") as subscriber:
        publish(port, "-t", "kept/c", "-m", "live")
        assert subscriber.output() == "live\n"
    cleared = braidmq("sub", "-p", str(port), "-t", "kept/#", "-T", "kept/b", "-C", "1", "--remove-retained")
    assert cleared.stdout == b"a\n"
    with subscribed(port, "-t", "kept/#", "--retained-only", "-v") as subscriber:
        publish(port, "-t", "kept/end", "-m", "live")
        assert subscriber.output() == "kept/b b\n"
    publish(port, "-t", "kept/b", "-n", "-r")


def test_a_session_is_left_behind_and_taken_up(any_broker: Broker) -> None:
    session = ("sub", "-p", str(any_broker.port), "-i", "keeper", "-c", "-q", "1")
    made = braidmq(*session, "-t", "left/#", "-t", "dropped", "-E")
    assert (made.returncode, made.stdout, made.stderr) == (0, b"", b"")
    assert braidmq(*session, "-U", "dropped", "-E").returncode == 0
    publish(any_broker.port, "-t", "left/1", "-m", "while away", "-q", "1")
    publish(any_broker.port, "-t", "dropped", "-m", "not wanted", "-q", "1")
    publish(any_broker.port, "-t", "left/2", "-m", "later", "-q", "1")
    assert braidmq(*session, "-t", "left/#", "-C", "1").stdout == b"while away\n"
    assert braidmq(*session, "-t", "left/#", "-C", "1").stdout == b"later\n"
    assert braidmq("sub", "-p", str(any_broker.port), "-i", "keeper", "-t", "left/#", "-E").returncode == 0


def test_too_few_messages_in_time_is_a_failure(broker: Broker) -> None:
    waited = braidmq("sub", "-p", str(broker.port), "-t", "silence", "-W", "0.2", "-C", "1")
    assert (waited.returncode, waited.stdout, waited.stderr) == (1, b"", b"")
    assert braidmq("sub", "-p", str(broker.port), "-t", "silence", "-W", "0.2").returncode == 0


@pytest.mark.parametrize(
    ("number", "code", "will_is_sent"),
    [(signal.SIGINT, 130, False), (signal.SIGTERM, 143, False), (signal.SIGKILL, -9, True)],
)
def test_a_will_is_for_clients_that_vanish(
    broker: Broker, number: signal.Signals, code: int, will_is_sent: bool
) -> None:
    topic = f"wills/{number}"
    will = ("--will-topic", topic, "--will-payload", "gone", "--will-qos", "1")
    with subscribed(broker.port, "-t", "wills/#", "-q", "1", "-C", "1", "-v") as watcher:
        with subscribed(broker.port, "-t", "anything", *will) as client:
            client.process.send_signal(number)
            assert client.process.wait(TIMEOUT_S) == code
        if not will_is_sent:
            publish(broker.port, "-t", topic, "-m", "no will came", "-q", "1")
        assert watcher.output() == f"{topic} {'gone' if will_is_sent else 'no will came'}\n"


def test_a_reader_that_goes_away_ends_it_quietly(broker: Broker) -> None:
    with subscribed(broker.port, "-t", "pipe") as subscriber:
        process = subscriber.process
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        publish(broker.port, "-t", "pipe", "-m", "nobody reads")
        assert process.wait(TIMEOUT_S) == 141
        assert b"Error" not in process.stderr.read()
        process.stdout = None


@pytest.mark.parametrize("command", [("pub", "-t", "t", "-m", "x"), ("sub", "-t", "t")])
def test_no_broker_is_told_in_one_line(command: tuple[str, ...]) -> None:
    port = str(free_port())
    failed = braidmq(*command, "-p", port)
    assert failed.returncode == 1
    assert re.fullmatch(
        rf"braidmq: no broker could be reached \(localhost:{port} .*\)\n", failed.stderr.decode()
    )
    quiet = braidmq(*command, "-p", port, "--quiet")
    assert (quiet.returncode, quiet.stderr) == (1, b"")


@pytest.mark.skipif(shutil.which("mosquitto_pub") is None, reason="needs mosquitto-clients")
def test_mosquittos_own_tools_understand_us() -> None:
    broker = start_braidmq()
    try:
        address = ["-h", "127.0.0.1", "-p", str(broker.port), "-V", "5", "-q", "2"]
        with subscribed(broker.port, "-t", "tools/#", "-q", "2", "-C", "1", "-F", "%t %p %C") as subscriber:
            words = ["-t", "tools/theirs", "-m", "hello", "-D", "publish", "content-type", "text"]
            subprocess.run(["mosquitto_pub", *address, *words], check=True, timeout=TIMEOUT_S)
            assert subscriber.output() == "tools/theirs hello text\n"
        publish(broker.port, "-t", "tools/ours", "-m", "kept", "-r", "-q", "2")
        words = ["-t", "tools/ours", "-C", "1", "-W", "20"]
        heard = subprocess.run(
            ["mosquitto_sub", *address, *words], capture_output=True, check=True, timeout=TIMEOUT_S
        )
        assert heard.stdout == b"kept\n"
    finally:
        broker.stop()


def test_a_user_made_with_passwd_logs_in_by_scram() -> None:
    line = braidmq("passwd", "ada", stdin=b"secret\n").stdout.decode()
    verifier = line.split(" = ")[1].strip().strip('"')
    broker = start_braidmq({"auth": {"allow_anonymous": False, "scram_users": {"ada": verifier}}})
    try:
        words = ("pub", "-p", str(broker.port), "-t", "t", "-m", "x", "-q", "1", "-u", "ada")
        assert braidmq(*words, "--scram", "-P", "secret").returncode == 0
        assert braidmq(*words, "--scram", env={"BRAIDMQ_PASSWORD": "secret"}).returncode == 0
        refused = braidmq(*words, "--scram", "-P", "wrong")
        assert refused.returncode == 1
        assert b"NOT_AUTHORIZED" in refused.stderr
        assert braidmq(*words, "-P", "secret").returncode == 1
    finally:
        broker.stop()
