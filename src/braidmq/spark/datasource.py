"""The format "mqtt" as Spark sees it: one class that makes readers and writers.

Spark makes such an object in several short-lived processes only to ask for one of its parts, so nothing is
connected or started here.
"""

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from braidmq.spark.sink import MqttStreamWriter, MqttWriter


class MqttDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "mqtt"

    def writer(self, schema: StructType, overwrite: bool) -> MqttWriter:
        return MqttWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> MqttStreamWriter:  # noqa: N802 (Spark's name)
        return MqttStreamWriter(self.options, schema)
