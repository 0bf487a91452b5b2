"""Policies as plug-ins: the example of examples/policy_plugin, and plug-ins that are missing or broken."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from braidmq.access.verdicts import Claim, Refused
from braidmq.errors import ConfigError
from braidmq.net.plugins import load_policies
from tests.net.running import serving
from tests.support.plugins import install
from tests.support.raw import RawClient

EXAMPLE = Path(__file__).parents[2] / "examples" / "policy_plugin"


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A broker with the example."""
    code = (EXAMPLE / "first_floor.py").read_text()
    offered = (EXAMPLE / "pyproject.toml").read_text()
    assert 'first-floor = "first_floor:FirstFloor"' in offered
    install(tmp_path, "braidmq.policies", "first_floor", "first-floor = first_floor:FirstFloor", code)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    with serving([{}], '[auth]\npolicies = "first-floor"\nallow_anonymous = true\n') as (_, ports):
        yield ports[0]


def test_the_example_lets_guests_in_and_keeps_them_on_their_floor(port: int) -> None:
    guest, resident = RawClient(port), RawClient(port)
    guest.connect("g", username="guest")
    resident.connect("r")
    RawClient(port).connect("x", username="somebody", reason=0x86)
    assert guest.subscribe("floor/1/#", "floor/1/+", "floor/2/x", "#", qos=1).reasons == (1, 1, 0x87, 0x87)
    assert guest.publish("floor/1/x", b"", qos=1) == 0x87
    assert resident.publish("floor/1/x", b"open", qos=1) == 0
    guest.take(payload=b"open")
    resident.publish("floor/1/x/y", b"deeper than guests may read", qos=1)
    guest.expect_nothing()


BROKEN = """
class Broken:
    def judge(self, claim):
        raise KeyError(claim.username)

    def may(self, action, user, client_id, topic):
        raise ValueError(topic)


def unmade():
    raise RuntimeError("no")
"""


def test_a_policy_that_fails_allows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = "broken = broken_policy:Broken\nunmade = broken_policy:unmade"
    install(tmp_path, "braidmq.policies", "broken_policy", entries, BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    [policy] = load_policies("broken")
    assert isinstance(policy.judge(Claim("c", "ada", None, "peer")), Refused)
    assert policy.may("read", None, "c", "t") is False
    with pytest.raises(ConfigError, match="'unmade' can't be made"):
        load_policies("unmade")


NOBODY_NAMELESS = """
from braidmq.access.verdicts import Refused


class Named:
    def judge(self, claim):
        return Refused(0x87, "who are you?") if claim.is_empty else None

    def may(self, action, user, client_id, topic):
        return None
"""


def test_a_policy_is_asked_about_clients_that_do_not_say_who_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "braidmq.policies", "named", "named = named:Named", NOBODY_NAMELESS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    with serving([{}], '[auth]\npolicies = "named"\nallow_anonymous = true\n') as (_, [port]):
        RawClient(port).connect("nameless", reason=0x87)
        RawClient(port).connect("unknown", username="somebody", reason=0x86)


def test_a_policy_that_nobody_offers_stops_the_start() -> None:
    assert load_policies(None) == []
    with pytest.raises(ConfigError, match="0 packages offer 'absent'"):
        load_policies("absent")
