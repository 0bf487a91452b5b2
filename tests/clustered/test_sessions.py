"""Sessions follow their client: real brokers, without a network."""

from braidmq.wire import Disconnect, ReasonCode
from tests.clustered.ensemble import Client, Ensemble


def connected(ensemble: Ensemble, node: int, client_id: str = "c", **wishes: object) -> Client:
    client = ensemble.connect(node, client_id, **wishes)
    ensemble.run(1)
    assert client.connack is not None
    assert client.connack.reason == 0, client.connack
    return client


def publish(ensemble: Ensemble, node: int, *payloads: bytes) -> None:
    for payload in payloads:
        ensemble.nodes[node - 1].publish("t", payload, lambda: None)
    ensemble.run(0.2)


def test_a_session_follows_its_client_with_all_that_waits() -> None:
    ensemble = Ensemble(3)
    first = connected(ensemble, 1)
    first.subscribe("t")
    ensemble.run(0.1)
    publish(ensemble, 2, b"a", b"b", b"c", b"d", b"e")
    second = ensemble.connect(2, "c")
    ensemble.run(1)
    assert second.connack is not None
    assert second.connack.session_present
    assert [packet.reason for packet in first.read() if isinstance(packet, Disconnect)] == [0x8E]
    assert ensemble.homes("c") == [2]
    publish(ensemble, 1, b"f")
    publish(ensemble, 3, b"g")
    assert second.receive_all() == [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]


def test_of_two_connects_at_once_one_stays() -> None:
    for seed in range(20):
        ensemble = Ensemble(3, seed)
        clients = [ensemble.connect(node, "c") for node in (1, 2, 3)]
        ensemble.run(15)
        stayed = [client for client in clients if not client.is_closed]
        assert len(stayed) == 1, seed
        assert stayed[0].connack is not None
        assert len(ensemble.homes("c")) == 1
        told = [
            client.connack.reason for client in clients if client.is_closed and client.connack is not None
        ]
        assert set(told) <= {0, ReasonCode.SERVER_BUSY}


def test_a_clean_start_ends_the_session_elsewhere() -> None:
    ensemble = Ensemble(2)
    first = connected(ensemble, 1)
    second = connected(ensemble, 2, clean_start=True)
    assert second.connack is not None
    assert not second.connack.session_present
    assert first.is_closed
    assert ensemble.homes("c") == [2]
