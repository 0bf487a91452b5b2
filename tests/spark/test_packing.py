"""Messages that fill only some of the optional columns are packed like any others."""

import pytest

from braidmq.client import BlockingClient
from braidmq.spark._columns import ColumnBuilder, identify
from braidmq.spark.segments import pack, unpack
from braidmq.wire import Properties

SILENCE_S = 20.0


@pytest.mark.parametrize(
    "told",
    [
        Properties(),
        Properties(content_type="text"),
        Properties(response_topic="r"),
        Properties(correlation_data=b""),
        Properties(user_properties=(("", ""),)),
        Properties(user_properties=(("k", "v"),)),
    ],
)
def test_any_set_of_properties_comes_back(address: str, name: str, told: Properties) -> None:
    with BlockingClient(address) as client:
        client.subscribe(name, qos=1)
        client.publish(name, b"", qos=1, properties=told)
        batch = client.receive_batch(1, SILENCE_S)
        builder = ColumnBuilder()
        builder.add(batch, 0, identify(batch))
        [row] = unpack(pack(builder, "b:1"), "s", 0).to_pylist()
    assert row["payload"] == b""
    assert (row["content_type"], row["response_topic"]) == (told.content_type, told.response_topic)
    assert row["correlation_data"] == told.correlation_data
    assert row["user_properties"] == list(told.user_properties)
