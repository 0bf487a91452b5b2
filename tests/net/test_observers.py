"""Observers as plug-ins: examples/observer_plugin with a real broker, and some that are wrong."""

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest

from braidmq.errors import ConfigError
from braidmq.net.plugins import observer_makers
from tests.net.running import serving
from tests.support.plugins import install
from tests.support.raw import RawClient

EXAMPLE = Path(__file__).parents[2] / "examples" / "observer_plugin"
GROUP = "braidmq.observers"


def test_the_example_writes_down_who_came_and_what_they_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    [entry] = project["entry-points"][GROUP].items()
    install(tmp_path, GROUP, "audit_log", " = ".join(entry), (EXAMPLE / "audit_log.py").read_text())
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    written = tmp_path / "audit.jsonl"
    with serving([{}], f'[observers.audit-log]\npath = "{written}"\n') as (broker, [port]):
        client = RawClient(port)
        client.connect("press-7")
        client.subscribe("plant/#", qos=1)
        client.publish("plant/a", b"1", qos=1, retain=True)
        client.disconnect()
        broker.process.terminate()
        assert broker.process.wait(20) == 0
    found = [json.loads(line) for line in written.read_text().splitlines()]
    assert [event["kind"] for event in found] == [
        "started",
        "authenticated",
        "session_established",
        "subscribed",
        "retained",
        "disconnected",
        "session_ended",
        "stopped",
    ]
    assert found[0]["addresses"] == [f"127.0.0.1:{port}"]
    assert found[3]["filter"] == "plant/#"
    assert all(event["client_id"] == "press-7" for event in found[1:4])


STRANGE = """
from braidmq.broker.events import Event, Published, SessionEstablished


class Failing:
    wants = {SessionEstablished, Published}

    def observe(self, event):
        raise ValueError(type(event).__name__)


class WantsNonsense:
    wants = {"everything"}


def unmade():
    raise RuntimeError("no")
"""
ENTRIES = """
failing = strange:Failing
nonsense = strange:WantsNonsense
unmade = strange:unmade
gone = strange:no_such_thing
"""


def test_an_observer_that_fails_is_logged_and_counted_and_harms_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, GROUP, "strange", ENTRIES, STRANGE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    with serving([{}], "[observers.failing]\n[admin]\nport = 0\n") as (broker, [port]):
        client = RawClient(port)
        client.connect("c")
        client.subscribe("a", qos=1)
        for number in range(8):
            client.publish("a", b"%d" % number, qos=1)
        shown = httpx.get(f"{broker.admin_address()}/metrics").text
        assert "braidmq_observer_failures_total 9.0" in shown
        logged = [line for line in broker.log().splitlines() if "an observer failed" in line]
        assert len(logged) == 4  # the first, second, fourth and eighth time
        assert "SessionEstablished" in logged[0]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"absent": {}}, r"\[observers.absent\]: 0 packages offer 'absent'; installed are: audit-log,"),
        ({"unmade": {}}, r"\[observers.unmade\]: 'unmade' can't be made: RuntimeError\('no'\)"),
        ({"gone": {}}, r"\[observers.gone\]: 'gone' can't be loaded: AttributeError"),
        ({"nonsense": {}}, r"it wants 'everything', which is no kind of event"),
        ({"failing": {"loud": True}}, r"\[observers.failing\]: this plug-in takes no settings, and"),
        ({"audit-log": {}}, r"\[observers.audit-log\]: .*missing required field `path`"),
        ({"audit-log": {"path": 1}}, r"\[observers.audit-log\]: Expected `str`, got `int` - at `\$.path`"),
        ({"audit-log": {"path": "x", "depth": 1}}, r"\[observers.audit-log\]: .*unknown field `depth`"),
    ],
)
def test_one_that_can_not_be_had_stops_the_start_and_is_named(
    tables: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, GROUP, "strange", ENTRIES, STRANGE)
    install(
        tmp_path, GROUP, "audit_log", "audit-log = audit_log:AuditLog", (EXAMPLE / "audit_log.py").read_text()
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=message):
        [make() for make in observer_makers(tables)]
