"""The whole way: a broker, the source, the tables, and alerts back over MQTT."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from braidmq.client import BlockingClient
from braidmq.errors import BraidError
from braidmq.spark.pipeline.home import Home, open_home
from braidmq.spark.pipeline.propose import propose, sample, to_toml
from braidmq.spark.pipeline.reading import read_table
from braidmq.spark.pipeline.run import Pipeline
from braidmq.spark.pipeline.sources import read_messages
from braidmq.spark.pipeline.status import StatusReport, read_status
from tests.spark.pipeline.samples import make_config
from tests.spark.waiting import wait_for

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]

LIVE = """
[pipeline]
location = "data"
trigger_s = 0.5
[[source]]
brokers = ["{address}"]
group = "{name}"
subscribers_per_broker = 2
[[schema]]
name = "telemetry"
topic = "{name}/{{device}}/telemetry"
[schema.fields]
temperature = "double"
[alerts]
topic = "{name}-alerts/{{rule}}/{{device}}"
trigger_s = 1
[[rule]]
name = "hot"
metric = "temperature"
above = 80
[[rule]]
name = "silent"
silent_s = 5
"""


@contextmanager
def running(spark: SparkSession, home: Home) -> Iterator[None]:
    """A pipeline in a thread of this process."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            Pipeline(spark, home, lambda session: read_messages(session, home)).run(stop)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert failures == []


def rows(home: Home) -> dict[str, int]:
    return read_status(home, 0).rows


def next_alert(client: BlockingClient) -> dict[str, Any]:
    batch = client.receive_batch(1, 90.0)
    assert len(batch), "no alert came"
    told: dict[str, Any] = json.loads(bytes(batch[0].payload))
    assert batch[0].topic.endswith(f"-alerts/{told['rule']}/{told['device']}")
    return told


def test_messages_become_rows_and_alerts(
    spark: SparkSession, address: str, name: str, tmp_path: Path
) -> None:
    home = open_home(make_config(tmp_path, LIVE.format(address=address, name=name)))
    topic = f"{name}/d1/telemetry"
    with BlockingClient(address) as client:
        client.subscribe(f"{name}-alerts/#", qos=1)
        with running(spark, home):
            wait_for(lambda: client.publish(topic, b"{}", qos=1).reason == 0, "the receivers")
            client.publish_many([(topic, b'{"temperature": 20}')] * 100 + [(topic, b'{"temperature": 99}')])
            told = [next_alert(client) for _ in range(2)]
            assert [(alert["rule"], alert["state"]) for alert in told] == [
                ("hot", "raised"),
                ("silent", "raised"),
            ]
            assert (told[0]["device"], told[0]["metric"], told[0]["value"]) == ("d1", "temperature", 99)
            client.publish(topic, b'{"temperature": 30}', qos=1)
            cleared = {next_alert(client)["rule"] for _ in range(2)}
            assert cleared == {"hot", "silent"}
            with pytest.raises(BraidError, match="another process is at work there"):
                Pipeline(spark, home, lambda session: read_messages(session, home)).backfill()
        check_tables(spark, home)


def check_tables(spark: SparkSession, home: Home) -> None:
    report: StatusReport = read_status(home, 0)
    assert {query.name: query.state for query in report.queries} == {"ingest": "stopped", "alerts": "stopped"}
    assert report.rows["raw"] == report.rows["telemetry"] + report.rows["dead_letters"]
    assert report.rows["telemetry"] == 102
    assert set(report.dead_letters) == {"missing_field"}
    found = read_table(spark, home, "alerts").orderBy("at").collect()
    assert len(found) >= 4
    assert len({row["id"] for row in found}) == len(found)


def test_a_schema_is_proposed_from_live_messages(address: str, name: str, tmp_path: Path) -> None:
    with BlockingClient(address) as client:
        for device in ("a", "b", "c"):
            payload = {"ts": 1_790_000_000_123, "temp": 20.5, "env": {"on": True}} | (
                {"n": 1} if device == "a" else {}
            )
            client.publish(f"{name}/plant/{device}", json.dumps(payload), qos=1, retain=True)
    samples = sample(address, f"{name}/+/+", 3, 30.0)
    proposal = propose(f"{name}/+/+", samples)
    text = "[pipeline]\nlocation = 'x'\n[[source]]\nbrokers = ['b']\ngroup = 'g'\n" + to_toml(proposal)
    (schema,) = make_config(tmp_path, text).schemas
    assert schema.topic == f"{name}/{{level_2}}/{{device}}"
    assert schema.event_time == "ts"
    kinds = {field: (spec.type, spec.path, spec.optional) for field, spec in schema.specs.items()}
    assert kinds == {
        "ts": ("timestamp_ms", None, False),
        "temp": ("double", None, False),
        "on": ("boolean", "env.on", False),
        "n": ("int", None, True),
    }
