"""A streaming query in a Spark of its own, to be killed: MQTT to Parquet until stdin ends.

python -m tests.spark.spark_query FOLDER      # options.json in FOLDER; rows in FOLDER/out
"""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.pollingDelay": "100ms",
    "spark.log.level": "ERROR",
    "spark.driver.memory": "1g",
}


def main() -> None:
    folder = Path(sys.argv[1])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2,8]").appName("attacked")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    options = json.loads((folder / "options.json").read_text()) | {"walLocation": str(folder / "wal")}
    messages = spark.readStream.format("mqtt").options(**options).load()
    writer = messages.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(processingTime="200 milliseconds").start(str(folder / "out"))
    sys.stdin.read()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
