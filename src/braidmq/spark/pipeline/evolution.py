"""What a changed configuration means for tables that are there: compared before anything is written.

A new column is added, and is null in older rows. A column that is no longer asked for stays in the older
files. A wider type (int to long, float to double) is read out of the older files where the format can do
that; Parquet can, Delta tables can't without a feature that few readers have. Any other change would make the
table unreadable, with the new file or with the old one: it is refused by name. `compare` is pure.
"""

import base64
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.schema import Schema as DeltaSchema

from braidmq.errors import ConfigError
from braidmq.spark.pipeline.config import PARTITION_COLUMNS
from braidmq.spark.pipeline.home import Home
from braidmq.spark.pipeline.places import Place
from braidmq.spark.pipeline.tables import user_tables

WIDER: Final = {
    (pa.int32(), pa.int64()),
    (pa.int32(), pa.float64()),
    (pa.float32(), pa.float64()),
}


class Refusal(NamedTuple):
    """A column that can't become what it is to be."""

    table: str
    column: str
    before: pa.DataType
    after: pa.DataType

    def __str__(self) -> str:
        return f"table {self.table}: column {self.column} was {self.before} and is to be {self.after}"


class Evolution(NamedTuple):
    """What becomes of one table: its columns from now on, which of them are new, and what can't be."""

    columns: pa.Schema
    added: tuple[str, ...]
    refused: tuple[Refusal, ...]


class _Record(msgspec.Struct, frozen=True):
    """The columns of every table as they were last written, each a schema of Arrow in base64."""

    tables: dict[str, str]


def compare(table: str, before: pa.Schema, after: pa.Schema, *, widens: bool) -> Evolution:
    columns = {field.name: field.type for field in before}
    added, refused = [], []
    for field in after:
        was = columns.get(field.name)
        if was is None:
            added.append(field.name)
        elif was != field.type and not (widens and (was, field.type) in WIDER):
            refused.append(Refusal(table, field.name, was, field.type))
        columns[field.name] = field.type
    return Evolution(pa.schema(list(columns.items())), tuple(added), tuple(refused))


def find_refusals(home: Home) -> list[Refusal]:
    return [refusal for _, evolution in _evolutions(home) for refusal in evolution.refused]


def check_tables(home: Home) -> None:
    """ConfigError if the tables can't be what the configuration asks for."""
    refused = find_refusals(home)
    if refused:
        raise ConfigError(
            f"{'; '.join(map(str, refused))}. The rows that are there can't be read as that: "
            "`braidmq pipeline migrate` writes the tables anew from raw, or give the schema another name"
        )


def evolve(home: Home) -> None:
    """Makes the tables ready for the configuration; `check_tables` has found that it can be done."""
    evolutions = list(_evolutions(home))
    for table, evolution in evolutions:
        if evolution.added and table in home.delta_tables():
            _add_delta_columns(home.table(table), evolution)
    note_tables(home, {table: evolution.columns for table, evolution in evolutions})


def note_tables(home: Home, tables: dict[str, pa.Schema]) -> None:
    """Remembers the columns of these tables."""
    known = _known(home) | tables
    encoded = {name: base64.b64encode(schema.serialize()).decode() for name, schema in known.items()}
    home.internal.make().at("tables.json").write_struct(_Record(encoded))


def _evolutions(home: Home) -> list[tuple[str, Evolution]]:
    known = _known(home)
    is_delta = home.config.pipeline.format == "delta"
    return [
        (table, compare(table, known.get(table, pa.schema([])), schema, widens=not is_delta))
        for table, schema in user_tables(home.config).items()
    ]


def _known(home: Home) -> dict[str, pa.Schema]:
    record = home.internal.at("tables.json").read_struct(_Record)
    if record is not None:
        return {
            name: pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
            for name, text in record.tables.items()
        }
    found = {table: _columns_found(home.table(table)) for table in user_tables(home.config)}
    return {table: schema for table, schema in found.items() if schema is not None}


def _columns_found(table: Place) -> pa.Schema | None:
    """The columns of the newest file: for tables that are older than the record."""
    files = [info for info in table.list(recursive=True) if info.base_name.endswith(".parquet")]
    if not files:
        return None
    newest = max(files, key=lambda info: info.mtime_ns or 0)
    return pq.read_schema(newest.path, filesystem=table.files).remove_metadata()


def _add_delta_columns(place: Place, evolution: Evolution) -> None:
    if not DeltaTable.is_deltatable(place.uri):
        return
    log = DeltaTable(place.uri)
    there = {field.name for field in log.schema().fields}
    wanted = DeltaSchema.from_arrow(evolution.columns)
    missing = [f for f in wanted.fields if f.name not in there and f.name not in PARTITION_COLUMNS]
    if missing:
        log.alter.add_columns(missing)
