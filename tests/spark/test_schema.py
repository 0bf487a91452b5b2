from pyspark.sql.pandas.types import to_arrow_schema

from braidmq.spark.schema import ARROW_SCHEMA, spark_schema


def test_what_spark_makes_of_the_schema_is_what_our_record_batches_have() -> None:
    assert to_arrow_schema(spark_schema(), timezone="UTC") == ARROW_SCHEMA
