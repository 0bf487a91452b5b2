"""The retained messages of a broker, as record batches.

A client of its own, without a session, subscribes and takes what is retained. MQTT does not say where
retained messages end, so the snapshot ends when nothing came for `quiet_s`. What is published meanwhile is
left out: it comes without the retain flag.
"""

import time
from collections.abc import Iterator
from uuid import uuid4

import numpy as np
import pyarrow as pa

from braidmq.client import BlockingClient, MessageBatch
from braidmq.spark._columns import ColumnBuilder, identify
from braidmq.spark.options import BrokerAddress
from braidmq.spark.segments import RETAIN, pack, unpack
from braidmq.spark.source_options import SnapshotOptions

BATCH_MESSAGES_MAX = 10_000


def read_retained(options: SnapshotOptions, broker: BrokerAddress) -> Iterator[pa.RecordBatch]:
    name = f"{options.client_id_prefix}-snapshot-{uuid4().hex[:12]}"
    choices = options.connection.client_choices(broker)
    offset = 0
    with BlockingClient([str(broker)], **(choices | {"client_id": name})) as client:
        client.subscribe(*options.filters, qos=options.qos)
        while len(batch := client.receive_batch(BATCH_MESSAGES_MAX, timeout_s=options.quiet_s)):
            rows = _retained_rows(batch, str(broker))
            if rows.num_rows:
                yield unpack(rows, name, offset)
            offset += rows.num_rows


def _retained_rows(batch: MessageBatch, broker: str) -> pa.RecordBatch:
    identity = identify(batch)
    live = np.frombuffer(memoryview(identity[0]), np.uint8) & RETAIN == 0
    builder = ColumnBuilder()
    builder.add(batch, time.time_ns() // 1000, identity, live.astype(np.uint8))
    return pack(builder, broker)
