"""The tables as DataFrames, for queries and for the pipeline itself.

On a file system that Spark reaches, Spark reads the files. On an object store pyarrow does, in tasks of
Spark: it is what wrote them, it is there, and needs no jars.
"""

from collections.abc import Iterator
from datetime import date
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DateType, IntegerType, StructType

from braidmq.spark.pipeline.home import Home
from braidmq.spark.pipeline.places import Place, open_place
from braidmq.spark.pipeline.tables import user_tables

FILES_A_TASK = 16
ROWS_A_BATCH = 50_000


def read_table(spark: SparkSession, home: Home, table: str) -> DataFrame:
    """A table with the columns that the configuration gives it; empty before its first commit."""
    place = home.table(table)
    files = files_of(home, place)
    if files and place.is_local and home.config.pipeline.format == "parquet":
        return spark.read.schema(spark_schema(home, table)).parquet(place.uri)  # it lists by itself, faster
    return read_files(spark, home, table, files)


def read_files(spark: SparkSession, home: Home, table: str, files: list[str]) -> DataFrame:
    """Some files of a table, given by their paths in its directory."""
    schema = spark_schema(home, table)
    place = home.table(table)
    if not files:
        return spark.createDataFrame([], schema)
    if place.is_local:
        reader = spark.read.schema(schema).option("basePath", place.uri)
        return reader.parquet(*(place.at(file).uri for file in files))
    tasks = max(1, len(files) // FILES_A_TASK)
    names = spark.createDataFrame([(file,) for file in files], "file string").repartition(tasks)
    return names.mapInArrow(_read_task(place.uri, user_tables(home.config)[table]), schema)


def _read_task(location: str, columns: pa.Schema) -> Any:
    """What reads files in a task: their names in, their rows out."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        place = open_place(location)
        for batch in batches:
            for file in batch.column("file").to_pylist():
                yield from _rows_of(place, file, columns)

    return run


def _rows_of(place: Place, file: str, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    parts = dict(part.split("=", 1) for part in PurePosixPath(file).parent.parts)
    day, hour = date.fromisoformat(parts["day"]), int(parts["hour"])
    with place.files.open_input_file(place.at(file).path) as stream:
        for batch in pq.ParquetFile(stream).iter_batches(ROWS_A_BATCH):
            rows = batch.num_rows
            arrays = [
                batch.column(field.name).cast(field.type)
                if field.name in batch.schema.names
                else pa.nulls(rows, field.type)
                for field in columns
            ]
            arrays += [pa.repeat(pa.scalar(day), rows), pa.repeat(pa.scalar(hour, pa.int32()), rows)]
            yield pa.RecordBatch.from_arrays(arrays, [*columns.names, "day", "hour"])


def files_of(home: Home, place: Place) -> list[str]:
    """The files that are in a table now, by their paths in its directory."""
    listed = [
        str(PurePosixPath(info.path).relative_to(place.path))
        for info in place.list(recursive=True)
        if info.base_name.endswith(".parquet") and "_delta_log" not in info.path
    ]
    if home.config.pipeline.format != "delta" or not listed:
        return listed
    current = {PurePosixPath(uri).name for uri in DeltaTable(place.uri).file_uris()}
    return [file for file in listed if PurePosixPath(file).name in current]


def spark_schema(home: Home, table: str) -> StructType:
    """The columns of a table for Spark, those of its partitions last."""
    columns = from_arrow_schema(user_tables(home.config)[table])
    return columns.add("day", DateType()).add("hour", IntegerType())
