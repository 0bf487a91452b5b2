"""One Spark session and one broker for all tests of the room. Starting a JVM costs seconds, so it is shared.

Every test that uses `spark` belongs to xdist's group "spark": then a single worker runs them all, and there
is one JVM at a time.
"""

import itertools
import os
import shutil
import sys
from collections.abc import Iterator

import pytest
from moto.server import ThreadedMotoServer
from pyarrow.fs import FileSystem
from pyspark.sql import SparkSession

from tests.support.broker import Broker, start_braidmq

# Tests read what was published when all of it is.
ROOM = {"queue_messages_max": 100_000, "queue_bytes_max": 512 * 1024 * 1024}

_serial = itertools.count(1)


def java_is_there() -> bool:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=f"{home}/bin" if home else None) is not None


@pytest.fixture(scope="session")
def object_store() -> Iterator[str]:
    """A server that speaks S3, with a bucket; everybody finds it in the environment."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    os.environ.update(
        AWS_ACCESS_KEY_ID="test",
        AWS_SECRET_ACCESS_KEY="test",
        AWS_REGION="eu-central-1",
        AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}",
        AWS_ALLOW_HTTP="true",
    )
    maker, _ = FileSystem.from_uri("s3://plant/?allow_bucket_creation=true")
    maker.create_dir("plant")
    yield "s3://plant"
    server.stop()


@pytest.fixture(scope="session")
def spark(object_store: str) -> Iterator[SparkSession]:
    """Its workers have the environment in which it starts, so the object store comes first."""
    if not java_is_there():
        pytest.skip("no Java runtime, 17 or newer (Debian: apt-get install openjdk-17-jre-headless)")
    # Spark's own children start this Python, in which the package is installed.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2,4]").appName("braidmq-tests")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "OFF",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    running = start_braidmq({"limits": ROOM})
    yield running
    running.stop()


@pytest.fixture
def address(broker: Broker) -> str:
    return f"127.0.0.1:{broker.port}"


@pytest.fixture
def name() -> str:
    """A word that no other test has, for topics and client ids."""
    return f"t{next(_serial)}"
