"""Who is in stays while the grounds for it hold: not beyond a token's time, nor after some reloads."""

from typing import Any

import pytest

from braidmq.access.passwords import PasswordCheck, PasswordHash, hash_password
from braidmq.access.verdicts import Admitted, Claim, Refused, Slow
from braidmq.broker.access import BuiltInGate
from braidmq.broker.rights import replace_gate
from braidmq.net.callout import HttpCallout
from braidmq.net.plugins import Guarded
from braidmq.scram import METHOD, make_credential
from braidmq.wire import V5, V311, Auth, Connack, Connect, Disconnect, Properties, Publish, Will
from tests.access.test_gate import Late, Patient, Quick
from tests.broker.world import Client, World
from tests.support.scram import Scram

ADA, BOB = (hash_password(name, b"a salt of 16 byt", 1 << 4) for name in (b"ada", b"bob"))


def gate(**users: PasswordHash) -> BuiltInGate:
    return BuiltInGate(authenticators=[PasswordCheck(users)], allow_anonymous=False)


def come_in(world: World, name: str, version: int = V5, **fields: Any) -> Client:
    client = world.open(version)
    client.send(Connect(name, username=name, password=name.encode(), version=version, **fields))
    assert client.expect(Connack).reason == 0
    return client


@pytest.mark.parametrize("version", [V311, V5])
def test_a_user_who_was_removed_is_sent_away_and_the_others_stay(version: int) -> None:
    world = World(gate=gate(ada=ADA, bob=BOB))
    ada, bob = come_in(world, "ada", version, will=Will("gone", b"ada")), come_in(world, "bob")
    bob.subscribe("gone")
    replace_gate(world.broker, gate(bob=BOB))
    assert ada.is_closed
    if version == V5:
        assert ada.expect(Disconnect).reason == 0x87
    assert not bob.is_closed
    assert bob.payloads() == [b"ada"]
    replace_gate(world.broker, gate(bob=ADA))
    assert bob.is_closed  # the password with which it came in is no longer the right one


def test_strangers_do_not_stay_where_they_are_no_longer_let_in() -> None:
    world = World()
    stranger = world.connect("stranger")
    replace_gate(world.broker, BuiltInGate())
    assert not stranger.is_closed
    replace_gate(world.broker, BuiltInGate(allow_anonymous=False))
    assert stranger.expect(Disconnect).reason == 0x87


def test_a_scram_user_stays_while_the_verifier_is_the_same() -> None:
    anna, other = make_credential("pencil", b"a salt", 4096), make_credential("paper", b"a salt", 4096)
    world = World(gate=BuiltInGate({"anna": anna}, allow_anonymous=False))
    client, scram = world.open(), Scram("anna", "pencil")
    first = Properties(authentication_method=METHOD, authentication_data=scram.first())
    client.send(Connect("c", properties=first))
    challenge = client.expect(Auth).properties.authentication_data
    final = Properties(authentication_method=METHOD, authentication_data=scram.final(challenge))
    client.send(Auth(0x18, final))
    assert client.expect(Connack).reason == 0
    replace_gate(world.broker, BuiltInGate({"anna": anna, "bob": other}, allow_anonymous=False))
    assert not client.is_closed
    replace_gate(world.broker, BuiltInGate({"anna": other}, allow_anonymous=False))
    assert client.expect(Disconnect).reason == 0x87


def test_a_scram_login_that_was_begun_before_a_reload_counts_no_more() -> None:
    anna = make_credential("pencil", b"a salt", 4096)
    world = World(gate=BuiltInGate({"anna": anna}, allow_anonymous=False))
    client, scram = world.open(), Scram("anna", "pencil")
    first = Properties(authentication_method=METHOD, authentication_data=scram.first())
    client.send(Connect("c", properties=first))
    challenge = client.expect(Auth).properties.authentication_data
    replace_gate(world.broker, BuiltInGate({"bob": anna}, allow_anonymous=False))
    final = Properties(authentication_method=METHOD, authentication_data=scram.final(challenge))
    client.send(Auth(0x18, final))
    assert client.expect(Connack).reason == 0x87


def test_a_client_is_sent_away_when_its_token_expires() -> None:
    world = World(gate=BuiltInGate(authenticators=[Quick(Admitted("ada", lasts_s=30.0))]))
    client, other = come_in(world, "ada"), world.connect("other")
    world.pass_time(29)
    client.send(Publish("a", b"x"))
    assert not client.is_closed
    world.pass_time(2)
    assert client.expect(Disconnect).reason == 0xA0
    assert not other.is_closed


def test_a_client_that_has_gone_before_is_not_missed() -> None:
    world = World(gate=BuiltInGate(authenticators=[Quick(Admitted("ada", lasts_s=30.0))]))
    come_in(world, "ada").vanish()
    later = come_in(world, "ada")
    world.pass_time(29)
    later.vanish()
    again = come_in(world, "ada")
    world.pass_time(29)
    assert not again.is_closed


def test_a_decision_of_the_old_gate_counts_no_more() -> None:
    decided = Admitted("ada", grounds=("password", ADA))
    world = World(gate=BuiltInGate(authenticators=[Late(decided)]))
    patient, client = Patient(world), world.open()
    client.send(Connect("ada", username="ada", password=b"ada"))
    replace_gate(world.broker, gate(bob=BOB))
    patient.work()
    assert client.expect(Connack).reason == 0x87
    assert client.is_closed


class Yes:
    """A policy that lets everybody in, at once or not."""

    def __init__(self, *, is_slow: bool) -> None:
        self._is_slow = is_slow

    def judge(self, claim: Claim) -> Admitted | Slow:
        return Slow(lambda: Admitted("guest")) if self._is_slow else Admitted("guest")

    def may(self, action: str, user: str | None, client_id: str, topic: str) -> None:
        return None


@pytest.mark.parametrize("is_slow", [False, True])
def test_whom_a_policy_let_in_stays_while_that_policy_is_there(is_slow: bool) -> None:
    def gate_with(name: str) -> BuiltInGate:
        return BuiltInGate(policies=[Guarded(name, Yes(is_slow=is_slow))], allow_anonymous=False)

    world = World(gate=gate_with("one"))
    guest = world.open()
    guest.send(Connect("guest"))
    assert guest.expect(Connack).reason == 0
    replace_gate(world.broker, gate_with("one"))
    assert not guest.is_closed
    replace_gate(world.broker, gate_with("other"))
    assert guest.expect(Disconnect).reason == 0x87


class Object(Yes):
    """A policy that objects to one client id."""

    def judge(self, claim: Claim) -> Any:
        assert claim.proven_user == "anna"
        refused = Refused(0x8A, "banned") if claim.client_id == "banned" else Admitted("somebody else")
        return Slow(lambda: refused) if self._is_slow else refused


@pytest.mark.parametrize("is_slow", [False, True])
@pytest.mark.parametrize(("client_id", "reason"), [("fine", 0), ("banned", 0x8A)])
def test_a_policy_may_object_to_a_scram_login(client_id: str, reason: int, is_slow: bool) -> None:
    users = {"anna": make_credential("pencil", b"a salt", 4096)}
    world = World(gate=BuiltInGate(users, policies=[Guarded("p", Object(is_slow=is_slow))]))
    client, scram = world.open(), Scram("anna", "pencil")
    first = Properties(authentication_method=METHOD, authentication_data=scram.first())
    client.send(Connect(client_id, properties=first))
    challenge = client.expect(Auth).properties.authentication_data
    final = Properties(authentication_method=METHOD, authentication_data=scram.final(challenge))
    client.send(Auth(0x18, final))
    answer = client.expect(Connack)
    assert answer.reason == reason
    if reason == 0:
        assert scram.proves(answer.properties.authentication_data)
        assert client.connection.user == "anna"


def test_whom_a_service_or_a_certificate_let_in_is_not_asked_for_again() -> None:
    asking = BuiltInGate(authenticators=[HttpCallout("https://auth.example", 1.0)], allow_anonymous=False)
    by_service, by_certificate = Admitted("ada", grounds=("http",)), Admitted("ada", grounds=("certificate",))
    assert asking.still_admits(by_service)
    assert not gate(ada=ADA).still_admits(by_service)
    assert gate(ada=ADA).still_admits(by_certificate)
    assert not gate(ada=ADA).still_admits(Admitted("ada"))
