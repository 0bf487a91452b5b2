"""The receiver that one would write on paho-mqtt: what bench.spark_source compares with.

    python -m bench.paho_receiver PORT CLIENT_ID FOLDER      # until stdin ends

A callback per message, acknowledgements by hand; a segment in the schema of the source is written as an Arrow
file, flushed to the disk, and only then acknowledged.
"""

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pyarrow as pa
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from braidmq.spark.schema import ARROW_SCHEMA

SEGMENT_ROWS = 8_192
SEGMENT_AGE_S = 0.5


class PahoReceiver:
    def __init__(self, port: int, client_id: str, folder: Path) -> None:
        self.folder = folder
        self.subscriber = client_id
        self.broker = f"127.0.0.1:{port}"
        self.messages: list[mqtt.MQTTMessage] = []
        self.times_us: list[int] = []
        self.stored = 0
        self.began = 0.0
        self.client = mqtt.Client(
            CallbackAPIVersion.VERSION2, client_id, protocol=mqtt.MQTTv5, manual_ack=True
        )
        self.client.on_message = self.on_message
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 3600
        properties.ReceiveMaximum = 16_384
        self.client.connect("127.0.0.1", port, clean_start=False, properties=properties)

    def on_message(self, _client: mqtt.Client, _data: object, message: mqtt.MQTTMessage) -> None:
        if not self.messages:
            self.began = time.monotonic()
        self.messages.append(message)
        self.times_us.append(time.time_ns() // 1000)

    def columns(self) -> pa.RecordBatch:
        messages, rows = self.messages, len(self.messages)
        told = [message.properties for message in messages]
        columns: list[Any] = [
            [message.topic for message in messages],
            [message.payload for message in messages],
            [message.qos for message in messages],
            [bool(message.retain) for message in messages],
            [bool(message.dup) for message in messages],
            self.times_us,
            pa.nulls(rows, ARROW_SCHEMA.field("published_at").type),
            pa.repeat(self.broker, rows),
            pa.repeat(self.subscriber, rows),
            pa.array(range(self.stored, self.stored + rows)),
            [getattr(properties, "ContentType", None) for properties in told],
            [getattr(properties, "ResponseTopic", None) for properties in told],
            [getattr(properties, "CorrelationData", None) for properties in told],
            [getattr(properties, "UserProperty", []) for properties in told],
        ]
        arrays = [
            column if isinstance(column, pa.Array) else pa.array(column, field.type)
            for column, field in zip(columns, ARROW_SCHEMA, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)

    def store(self) -> None:
        batch = self.columns()
        path = self.folder / f"{self.stored}.arrow"
        with path.open("wb", buffering=0) as file:
            with pa.ipc.new_file(file, batch.schema) as writer:
                writer.write_batch(batch)
            os.fsync(file.fileno())
        for message in self.messages:
            self.client.ack(message.mid, message.qos)
        self.stored += len(self.messages)
        self.times_us, self.messages = [], []
        unfinished = self.folder / "rows.unfinished"
        unfinished.write_text(str(self.stored))
        unfinished.rename(self.folder / "rows")

    def run(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            self.client.loop(0.01)
            age_s = time.monotonic() - self.began
            if self.messages and (len(self.messages) >= SEGMENT_ROWS or age_s >= SEGMENT_AGE_S):
                self.store()


def main() -> None:
    receiver = PahoReceiver(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
    stopping = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stopping.set()), daemon=True).start()
    receiver.run(stopping)


if __name__ == "__main__":
    main()
