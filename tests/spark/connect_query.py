"""The source over Spark Connect, in a process of its own: its server shares none with another session.

python -m tests.spark.connect_query ADDRESS FOLDER      # prints the payloads that came
"""

import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from braidmq.client import BlockingClient

MESSAGES = 20
WAIT_S = 150.0


def main() -> None:
    address, folder = sys.argv[1], Path(sys.argv[2])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    spark = SparkSession.builder.remote("local[2]").config("spark.log.level", "ERROR").getOrCreate()
    reader = spark.readStream.format("mqtt").option("brokers", address).option("topicFilter", "connect/#")
    messages = reader.option("group", "connect").option("walLocation", str(folder / "wal")).load()
    writer = messages.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.start(str(folder / "out"))
    with BlockingClient(address) as client:
        while client.publish("connect/0", b"0", qos=1).reason:
            time.sleep(0.1)
        client.publish_many((("connect/0", str(n)) for n in range(1, MESSAGES)), qos=1)
    rows = []
    deadline = time.monotonic() + WAIT_S
    while len(rows) < MESSAGES and time.monotonic() < deadline:
        query.processAllAvailable()
        rows = spark.read.parquet(str(folder / "out")).collect()
    query.stop()
    spark.stop()
    print("received", sorted(int(row.payload) for row in rows))


if __name__ == "__main__":
    main()
