"""What a segment file holds, and what Spark gets of it.

A file stores only what differs from row to row: the broker is written once, in the schema's metadata; the
subscriber and the numbers follow from where the file is; columns that no message of the segment fills are
left out. Executors add all that back (`unpack`), so that storing stays cheap for the one process that
receives. `packet_id`, `digest` and the stored deliveries in the metadata are for the receiver alone: they let
it know repeats after a crash.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from braidmq.spark._columns import Buffer, ColumnBuilder
from braidmq.spark.schema import ARROW_SCHEMA

DELIVERIES = "deliveries"
RETAIN = 0x01
DUP = 0x08

_STORED_ONLY = {"flags": pa.uint8(), "packet_id": pa.uint16(), "digest": pa.uint64()}
_MAP = ARROW_SCHEMA.field("user_properties").type


def pack(builder: ColumnBuilder, broker: str, deliveries: str = "") -> pa.RecordBatch:
    """The messages of a builder as one batch to be stored; `deliveries` are all that are stored with it."""
    buffers = {name: list(map(_arrow_buffer, parts)) for name, parts in builder.buffers().items()}
    keys, items = buffers.pop("keys", None), buffers.pop("items", None)
    arrays = {}
    for name, parts in buffers.items():
        if name == "user_properties":
            pairs = _pairs(keys, items)
            arrays[name] = pa.Array.from_buffers(_MAP, builder.rows, parts, children=[pairs])
        else:
            arrays[name] = pa.Array.from_buffers(_stored_type(name), builder.rows, parts)
    told = {"broker": broker, DELIVERIES: deliveries}
    schema = pa.schema([(name, array.type) for name, array in arrays.items()], metadata=told)
    return pa.RecordBatch.from_arrays(list(arrays.values()), schema=schema)


def deliveries_of(stored: pa.RecordBatch) -> str:
    """Which deliveries were stored when this batch was, itself included; empty if that isn't known."""
    found: bytes = (stored.schema.metadata or {}).get(DELIVERIES.encode(), b"")
    return found.decode()


def _arrow_buffer(part: Buffer | None) -> Any:
    if part is None:
        return None
    return pa.py_buffer(part if len(part) else b"")  # Arrow ends the process for a buffer without an address


def _stored_type(name: str) -> Any:
    return _STORED_ONLY.get(name) or ARROW_SCHEMA.field(name).type


def _pairs(keys: list[Any] | None, items: list[Any] | None) -> pa.Array:
    assert keys is not None
    assert items is not None
    count = keys[1].size // 4 - 1
    children = [pa.Array.from_buffers(pa.string(), count, parts) for parts in (keys, items)]
    return pa.StructArray.from_arrays(children, fields=[_MAP.key_field, _MAP.item_field])


def unpack(stored: pa.RecordBatch, subscriber: str, first: int) -> pa.RecordBatch:
    """Stored rows in the schema of the source; `first` is the number of the first of them."""
    rows = stored.num_rows
    flags = stored.column("flags").to_numpy(zero_copy_only=False)
    derived = {
        "qos": lambda: pa.array((flags >> 1 & 3).astype(np.int32)),
        "retain": lambda: pa.array(flags & RETAIN != 0),
        "dup": lambda: pa.array(flags & DUP != 0),
        "broker": lambda: pa.repeat(pa.scalar(stored.schema.metadata[b"broker"].decode()), rows),
        "subscriber": lambda: pa.repeat(pa.scalar(subscriber), rows),
        "offset": lambda: pa.array(np.arange(first, first + rows, dtype=np.int64)),
        "user_properties": lambda: _empty_maps(rows),
    }
    arrays = []
    for field in ARROW_SCHEMA:
        if field.name in stored.schema.names:
            arrays.append(stored.column(field.name))
        elif field.name in derived:
            arrays.append(derived[field.name]())
        else:
            arrays.append(pa.nulls(rows, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def _empty_maps(rows: int) -> pa.Array:
    nothing = pa.StructArray.from_arrays(
        [pa.array([], pa.string()), pa.array([], pa.string())], fields=[_MAP.key_field, _MAP.item_field]
    )
    zeros = pa.py_buffer(bytes(4 * (rows + 1)))
    return pa.Array.from_buffers(_MAP, rows, [None, zeros], children=[nothing])
