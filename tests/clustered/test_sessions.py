"""Sessions follow their client: real brokers, without a network."""

from braidmq.cluster.claim_messages import Invite
from braidmq.cluster.effects import SendControl
from braidmq.limits import Limits
from braidmq.wire import Disconnect, Properties, ReasonCode, Will
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


def test_what_a_dead_home_kept_follows_when_it_is_back() -> None:
    ensemble = Ensemble(3)
    first = connected(ensemble, 1)
    first.subscribe("t")
    ensemble.run(0.1)
    first.vanish()
    publish(ensemble, 2, b"a", b"b")
    ensemble.nodes[0].crash()
    ensemble.run(4)
    second = connected(ensemble, 2)
    assert second.connack is not None
    assert not second.connack.session_present
    second.subscribe("t")
    ensemble.run(0.5)
    publish(ensemble, 3, b"c")
    ensemble.nodes[0].start()
    ensemble.link_all()
    ensemble.run(2)
    assert ensemble.homes("c") == [2]
    got = second.receive_all()
    assert list(dict.fromkeys(got)) == [b"c", b"a", b"b"]  # QoS 1: the old home got what came meanwhile, too


def test_a_will_that_waits_moves_with_its_session() -> None:
    ensemble = Ensemble(2)
    witness = connected(ensemble, 2, "w")
    witness.subscribe("will")
    will = Will("will", b"gone", 1, properties=Properties(will_delay_s=20))
    first = ensemble.connect(1, "c", will=will)
    ensemble.run(0.5)
    first.vanish()
    ensemble.run(1)
    standing = ensemble.nodes[0].broker.sessions["c"].standing
    assert standing is not None
    invite = Invite("c", None, standing.stamp[0])  # as a node that is drained does
    ensemble.nodes[0].turn(lambda: ensemble.nodes[0].carry_out(SendControl(2, invite)))
    ensemble.run(1)
    assert ensemble.homes("c") == [2]
    ensemble.run(15)
    assert witness.receive_all() == []
    ensemble.run(10)
    assert witness.receive_all() == [b"gone"]


def test_what_has_no_room_at_the_new_node_stays_where_it_was() -> None:
    ensemble = Ensemble(2)
    first = connected(ensemble, 1)
    first.subscribe("t")
    ensemble.run(0.2)
    first.vanish()
    publish(ensemble, 2, b"a")
    ensemble.nodes[1].broker.limits = Limits(sessions_max=0)
    second = ensemble.connect(2, "c")
    ensemble.run(2)
    assert second.connack is not None
    assert second.connack.reason == ReasonCode.SERVER_UNAVAILABLE
    assert ensemble.homes("c") == [1]
    assert connected(ensemble, 1).receive_all() == [b"a"]
