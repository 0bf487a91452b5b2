"""Outcomes of many packets, and patience with a broker that is full."""

import threading
from collections.abc import Iterator

import pytest

from braidmq.client import BlockingClient, PublishRefusedError, PublishResult, publish_patiently
from braidmq.errors import ProtocolError
from braidmq.wire import Properties, Publish
from tests.support.broker import start_braidmq

QUEUE_MESSAGES = 20
PATIENCE_S = 60.0
COUNT = 500


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    limits = {"limits": {"queue_messages_max": QUEUE_MESSAGES, "inflight_max": 10, "overflow": "refuse"}}
    broker = start_braidmq(limits)
    yield f"127.0.0.1:{broker.port}"
    broker.stop()


def slow_reader(address: str) -> BlockingClient:
    return BlockingClient(address, receive_maximum=10, manual_ack=True)


def test_each_packet_has_its_own_outcome(address: str) -> None:
    with BlockingClient(address) as client:
        client.subscribe("own/#", qos=1)
        packets = [
            Publish("own/a", b"0", 0),
            Publish("own/+", b"1", 1),
            Publish("own/b", b"2", 1, properties=Properties(content_type="text")),
        ]
        outcomes = client.publish_packets(packets)
        assert [type(outcome) for outcome in outcomes] == [PublishResult, ProtocolError, PublishResult]
        received = [(message.payload, message.properties.content_type) for message in client.messages(1.0)]
    assert received == [(b"0", None), (b"2", "text")]


def test_what_a_full_broker_refuses_is_published_when_there_is_room(address: str) -> None:
    """The subscriber starts to read when the publisher has heard the first refusal."""
    packets = [Publish("full/a", b"%d" % number, 1) for number in range(COUNT)]
    with slow_reader(address) as reader, BlockingClient(address) as client:
        reader.subscribe("full/#", qos=1)
        refused = client.publish_packets(packets[:100])
        assert sum(isinstance(outcome, PublishRefusedError) for outcome in refused) >= 50
        received: set[int] = set()
        reading = threading.Thread(target=_read_until_complete, args=(reader, received))
        reading.start()
        outcomes = publish_patiently(client, packets, PATIENCE_S)
        reading.join(PATIENCE_S)
    assert all(isinstance(outcome, PublishResult) for outcome in outcomes)
    assert received == set(range(COUNT))


def _read_until_complete(reader: BlockingClient, received: set[int]) -> None:
    while len(received) < COUNT:
        batch = reader.receive_batch(10, PATIENCE_S)
        received.update(int(payload) for payload in batch.payloads)
        batch.ack()


def test_patience_ends_with_the_refusals(address: str) -> None:
    packets = [Publish("stuck/a", b"", 1)] * 100
    with slow_reader(address) as reader, BlockingClient(address) as client:
        reader.subscribe("stuck/#", qos=1)
        outcomes = publish_patiently(client, packets, patience_s=0.0)
    refused = [outcome for outcome in outcomes if isinstance(outcome, PublishRefusedError)]
    assert 0 < len(refused) < 100
