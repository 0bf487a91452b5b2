"""A broker process with several listeners, whose ports are told in their order."""

import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.cli.program import command
from tests.support.broker import POLL_S, START_TIMEOUT_S, Broker, toml_value


def settings_text(listeners: list[Mapping[str, object]], rest: str = "") -> str:
    lines = []
    for listener in listeners:
        lines.append("[[listener]]")
        lines += [f"{key} = {toml_value(value)}" for key, value in ({"port": 0} | dict(listener)).items()]
    return "\n".join(lines) + "\n" + rest


def ports_of(broker: Broker) -> list[int]:
    return [int(port) for port in re.findall(r"listening on 127\.0\.0\.1:(\d+)", broker.log())]


@contextmanager
def serving(listeners: list[Mapping[str, object]], rest: str = "") -> Iterator[tuple[Broker, list[int]]]:
    """A running broker with these listeners, and their ports."""
    directory = Path(tempfile.mkdtemp(prefix="braidmq-test-"))
    path = directory / "broker.toml"
    path.write_text(settings_text(listeners, rest))
    broker = Broker(command("serve", "--in-memory", "--config", str(path)), directory)
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while len(ports_of(broker)) < len(listeners) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        yield broker, ports_of(broker)
    finally:
        broker.stop()
