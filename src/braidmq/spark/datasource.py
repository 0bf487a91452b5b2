"""The format "mqtt" as Spark sees it: one class that makes readers and writers.

Spark makes such an object in several short-lived processes only to ask for one of its parts, so nothing is
connected or started here.
"""

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from braidmq.spark.schema import spark_schema
from braidmq.spark.sink import MqttStreamWriter, MqttWriter
from braidmq.spark.source import MqttStreamReader, batch_reader, check_read_options, stream_reader


class MqttDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "mqtt"

    def schema(self) -> StructType:
        """Asked for by `load()`: the place where a wrong option can be told in our own words."""
        check_read_options(self.options)
        return spark_schema()

    def streamReader(self, schema: StructType) -> MqttStreamReader:  # noqa: N802 (Spark's name)
        return stream_reader(self.options, schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return batch_reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> MqttWriter:
        return MqttWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> MqttStreamWriter:  # noqa: N802 (Spark's name)
        return MqttStreamWriter(self.options, schema)
