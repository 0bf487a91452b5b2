"""Where Spark looks for the format "mqtt": it registers every installed `pyspark_*` module by itself."""

from braidmq.spark.datasource import MqttDataSource as DefaultSource

__all__ = ["DefaultSource"]
