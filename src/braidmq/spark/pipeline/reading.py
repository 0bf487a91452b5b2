"""The tables as DataFrames, for queries and for the pipeline itself."""

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DateType, IntegerType, StructType

from braidmq.spark.pipeline.home import Home
from braidmq.spark.pipeline.tables import user_tables


def read_table(spark: SparkSession, home: Home, table: str) -> DataFrame:
    """A table with the columns that the configuration gives it; empty before its first commit."""
    schema = spark_schema(home, table)
    place = home.table(table)
    if not any(info.base_name.endswith(".parquet") for info in place.list(recursive=True)):
        return spark.createDataFrame([], schema)
    reader = spark.read.schema(schema).option("basePath", place.uri)
    if home.config.pipeline.format == "delta":
        return reader.parquet(*DeltaTable(place.uri).file_uris())
    return reader.parquet(place.uri)


def spark_schema(home: Home, table: str) -> StructType:
    """The columns of a table for Spark, those of its partitions last."""
    columns = from_arrow_schema(user_tables(home.config)[table])
    return columns.add("day", DateType()).add("hour", IntegerType())
