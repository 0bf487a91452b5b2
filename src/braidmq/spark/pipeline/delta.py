"""Delta tables without Spark's Delta jars: files that are written already are entered into the table's log.

No data passes through the driver. A commit carries a number under a name (an application transaction of the
Delta protocol), so that entering it a second time is noticed and left.
"""

import json
import time
from typing import NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction, RemoveAction

from braidmq.spark.pipeline.config import PARTITION_COLUMNS
from braidmq.spark.pipeline.places import Place
from braidmq.spark.pipeline.writing import StagedFile


def delta_schema(schema: pa.Schema) -> pa.Schema:
    """With the columns that the directories spell."""
    return schema.append(pa.field("day", pa.date32())).append(pa.field("hour", pa.int32()))


class DeltaEntry(NamedTuple):
    """Files that come into a table at their places, and files that leave it."""

    added: list[tuple[StagedFile, str]]
    removed: list[str]
    data_change: bool  # else the same rows in other files
    replaces_all: bool  # whatever is there leaves, and the columns may be others


def enter(table: Place, schema: pa.Schema, entry: DeltaEntry, writer: str, number: int) -> None:
    """Enters it in one transaction; nothing if it was done before."""
    columns = delta_schema(schema)
    log = DeltaTable.create(table.uri, columns, mode="ignore", partition_by=list(PARTITION_COLUMNS))
    known = log.transaction_version(writer)
    if known is not None and known >= number:
        return
    now_ms = time.time_ns() // 1_000_000
    actions: list[AddAction | RemoveAction] = [
        _add(file, path, now_ms, data_change=entry.data_change) for file, path in entry.added
    ]
    if not entry.replaces_all:
        actions += [_remove(path, now_ms, data_change=entry.data_change) for path in entry.removed]
    log.create_write_transaction(
        actions,
        mode="overwrite" if entry.replaces_all else "append",
        schema=columns,
        partition_by=list(PARTITION_COLUMNS),
        commit_properties=CommitProperties(app_transactions=[Transaction(writer, number)]),
    )


def _add(file: StagedFile, path: str, now_ms: int, *, data_change: bool) -> AddAction:
    values = {"day": file.day, "hour": str(int(file.hour or 0))}
    stats = json.dumps({"numRecords": file.rows})
    return AddAction(path, file.bytes, values, now_ms, data_change, stats)


def _remove(path: str, now_ms: int, *, data_change: bool) -> RemoveAction:
    return RemoveAction(path, data_change, deletion_timestamp=now_ms)
