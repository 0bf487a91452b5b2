"""SCRAM-SHA-256 and passwords end to end, against our broker."""

from base64 import b64encode
from collections.abc import Iterator

import pytest

from braidmq.client import BlockingClient, Client, ConnectRefusedError, ScramAuthenticator
from braidmq.scram import make_credential
from tests.client.conftest import RunningBroker
from tests.support.broker import start_braidmq

SALT = b"sixteen bytes!!!"


@pytest.fixture(scope="module")
def guarded() -> Iterator[RunningBroker]:
    """A broker that knows ada, and nobody else."""
    credential = make_credential("lovelace", SALT, 4096)
    keys = [b64encode(part).decode() for part in (SALT, credential.stored_key, credential.server_key)]
    verifier = f"SCRAM-SHA-256$4096:{keys[0]}${keys[1]}:{keys[2]}"
    process = start_braidmq({"auth": {"allow_anonymous": False, "scram_users": {"ada": verifier}}})
    yield RunningBroker("braidmq", process)
    process.stop()


async def test_asyncio(guarded: RunningBroker) -> None:
    ada = ScramAuthenticator("ada", "lovelace")
    async with Client(guarded.address, client_id="ada", authenticator=ada) as client:
        await client.publish("t", b"x", qos=1)
        await client.reauthenticate()
        await client.publish("t", b"x", qos=1)


def test_blocking(guarded: RunningBroker) -> None:
    ada = ScramAuthenticator("ada", "lovelace")
    with BlockingClient(guarded.address, client_id="ada", authenticator=ada) as client:
        client.publish("t", b"x", qos=1)
        client.reauthenticate()
        client.publish("t", b"x", qos=1)


@pytest.mark.parametrize("who", [("ada", "wrong"), ("bob", "lovelace")])
async def test_strangers_are_refused(guarded: RunningBroker, who: tuple[str, str]) -> None:
    with pytest.raises(ConnectRefusedError):
        async with Client(guarded.address, client_id="x", authenticator=ScramAuthenticator(*who)):
            pass


async def test_without_authentication(guarded: RunningBroker) -> None:
    with pytest.raises(ConnectRefusedError):
        async with Client(guarded.address, client_id="x"):
            pass
