"""paho-mqtt, a client we didn't write, against the broker: what it believes MQTT to be works."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.support.broker import Broker

TIMEOUT_S = 8.0
Message = paho.MQTTMessage
PahoFactory = Callable[..., "tuple[paho.Client, queue.Queue[Message]]"]

VERSIONS = pytest.mark.parametrize(
    "version", [MQTTProtocolVersion.MQTTv31, MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5]
)


@pytest.fixture
def paho_client(broker: Broker, name: str) -> Iterator[PahoFactory]:
    """`paho_client(version, filter)` gives a connected, subscribed client and the queue of its messages."""
    started: list[paho.Client] = []

    def connected(
        version: MQTTProtocolVersion, wanted: str = "", will: str = ""
    ) -> tuple[paho.Client, queue.Queue[Message]]:
        client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id=f"{name}p{len(started)}", protocol=version
        )
        messages: queue.Queue[Message] = queue.Queue()
        ready: queue.Queue[str] = queue.Queue()
        client.on_connect = lambda *_: ready.put("connected")
        client.on_subscribe = lambda *_: ready.put("subscribed")
        client.on_message = lambda _client, _data, message: messages.put(message)
        if will:
            client.will_set(will, b"gone", qos=1)
        client.connect("127.0.0.1", broker.port)
        client.loop_start()
        started.append(client)
        assert ready.get(timeout=TIMEOUT_S) == "connected"
        if wanted:
            client.subscribe(wanted, qos=2)
            assert ready.get(timeout=TIMEOUT_S) == "subscribed"
        return client, messages

    yield connected
    for client in started:
        client.disconnect()
        client.loop_stop()


@VERSIONS
def test_messages_of_every_qos_arrive(
    paho_client: PahoFactory, name: str, version: MQTTProtocolVersion
) -> None:
    subscriber, messages = paho_client(version, f"{name}/+/#")
    publisher, _ = paho_client(version)
    for number in range(30):
        publisher.publish(f"{name}/a/b", b"%d" % number, qos=number % 3).wait_for_publish(TIMEOUT_S)
    arrived = [messages.get(timeout=TIMEOUT_S) for _ in range(30)]
    assert sorted(int(message.payload) for message in arrived) == list(range(30))
    assert all(message.qos == int(message.payload) % 3 for message in arrived)
    assert subscriber.is_connected()


@VERSIONS
def test_retained_messages_and_wills_arrive(
    paho_client: PahoFactory, name: str, version: MQTTProtocolVersion
) -> None:
    publisher, _ = paho_client(version, will=f"{name}/will")
    publisher.publish(f"{name}/state", b"on", qos=1, retain=True).wait_for_publish(TIMEOUT_S)
    _, messages = paho_client(version, f"{name}/#")
    retained = messages.get(timeout=TIMEOUT_S)
    assert (retained.topic, retained.payload, retained.retain) == (f"{name}/state", b"on", True)
    connection = publisher.socket()
    assert connection is not None
    publisher.loop_stop()
    connection.close()
    assert messages.get(timeout=TIMEOUT_S).topic == f"{name}/will"


def test_v5_properties_arrive(paho_client: PahoFactory, name: str) -> None:
    _, messages = paho_client(MQTTProtocolVersion.MQTTv5, name)
    publisher, _ = paho_client(MQTTProtocolVersion.MQTTv5)
    properties: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.ContentType = "text/plain"
    properties.ResponseTopic = f"{name}/answer"
    properties.CorrelationData = b"\x01\x02"
    properties.UserProperty = [("b", "1"), ("a", "2"), ("b", "3")]
    publisher.publish(name, b"x", qos=2, properties=properties).wait_for_publish(TIMEOUT_S)
    arrived: Any = messages.get(timeout=TIMEOUT_S).properties
    assert (arrived.ContentType, arrived.ResponseTopic) == ("text/plain", f"{name}/answer")
    assert arrived.CorrelationData == b"\x01\x02"
    assert arrived.UserProperty == [("b", "1"), ("a", "2"), ("b", "3")]
