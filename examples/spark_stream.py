"""MQTT messages as a stream of Spark: counts what comes, by topic.

    pip install "braidmq[spark]"      # and a Java runtime, 17 or newer
    braidmq serve &
    python spark_stream.py &
    braidmq pub -t sensors/kitchen -m 21.5 -q 1
"""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark's workers need braidmq too
here = Path("spark-stream").absolute()

spark = (
    SparkSession.builder.master("local[*,4]")
    .config("spark.sql.shuffle.partitions", 4)  # 200 are for clusters
    .config("spark.log.level", "ERROR")
    .getOrCreate()
)
messages = (
    spark.readStream.format("mqtt")
    .option("brokers", "localhost:1883")
    .option("topicFilter", "sensors/#")
    .option("group", "readings")
    .option("walLocation", str(here / "wal"))
    .load()
)
counts = messages.groupBy("topic").count()
query = (
    counts.writeStream.format("console")
    .outputMode("complete")
    .option("checkpointLocation", str(here / "checkpoint"))
    .start()
)
query.awaitTermination(float(sys.argv[1]) if len(sys.argv) > 1 else None)
