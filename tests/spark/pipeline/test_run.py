"""The queries on a real Spark, fed from files: exactly once through crashes, and the right aggregates."""

import shutil
import statistics
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from braidmq.errors import BraidError, ConfigError
from braidmq.spark.pipeline.compact import compact
from braidmq.spark.pipeline.config import PipelineConfig
from braidmq.spark.pipeline.home import Home, open_home
from braidmq.spark.pipeline.query import QueryError, json_lines, run_query
from braidmq.spark.pipeline.reading import read_table
from braidmq.spark.pipeline.reprocess import migrate, refuse_unfinished, reprocess
from braidmq.spark.pipeline.run import Pipeline
from braidmq.spark.pipeline.status import read_status
from braidmq.spark.schema import spark_schema
from tests.spark.pipeline.samples import (
    AGGREGATES,
    HEAD,
    NOON_US,
    TELEMETRY,
    make_config,
    make_messages,
    telemetry,
    write_messages,
)

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]
MINUTE_MS = 60_000
NOON_MS = NOON_US // 1000
PLANT = HEAD + TELEMETRY


class Plant:
    """A pipeline whose messages come from a directory, one file a batch."""

    def __init__(self, spark: SparkSession, config: PipelineConfig, inbox: Path) -> None:
        inbox.mkdir()
        self.spark = spark
        self.inbox = inbox
        self.home: Home = open_home(config)
        self._next_offset = 0

    def receive(self, messages: list[tuple[str, bytes]]) -> None:
        table = make_messages(messages, first_offset=self._next_offset)
        number = len(list(self.inbox.iterdir()))
        self._next_offset += len(messages)
        pq.write_table(table, self.inbox / f"{number:04d}.parquet")

    def backfill(self) -> None:
        Pipeline(self.spark, self.home, self._messages).backfill()

    def _messages(self, spark: SparkSession) -> DataFrame:
        reader = spark.readStream.schema(spark_schema()).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.inbox))

    def offsets(self, *tables: str) -> list[int]:
        found = [read_table(self.spark, self.home, table).select("offset").toArrow() for table in tables]
        return sorted(pa.concat_tables(found)["offset"].to_pylist())

    def check(self) -> None:
        """Every message is in raw once, and once in clean or among the dead letters."""
        assert self.offsets("raw") == list(range(self._next_offset))
        assert self.offsets("telemetry", "dead_letters") == list(range(self._next_offset))


def forget_batch(home: Home, query: str, batch: int) -> None:
    """As if Spark had died after our commit and before its own."""
    commits = Path(home.checkpoint(query).path, "commits")
    (commits / str(batch)).unlink()
    (commits / f".{batch}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_every_message_is_in_the_tables_once(
    spark: SparkSession, tmp_path: Path, format: str, object_store: str, name: str
) -> None:
    """Delta in a directory; Parquet in an object store, since in a directory other tests have it."""
    text = PLANT.replace("[pipeline]", f'[pipeline]\nformat = "{format}"')
    if format == "parquet":
        text = text.replace('location = "data"', f'location = "{object_store}/{name}"\nwork = "work"')
    plant = Plant(spark, make_config(tmp_path, text), tmp_path / "inbox")
    plant.receive([telemetry(f"d{n % 3}", n) for n in range(40)] + [("lost", b""), telemetry("d1", "broken")])
    plant.receive([telemetry("d1", n) for n in range(20)])
    plant.backfill()
    plant.check()

    forget_batch(plant.home, "ingest", 1)
    plant.receive([telemetry("d2", 5)])
    plant.backfill()
    plant.check()

    shutil.rmtree(plant.home.checkpoint("ingest").path)
    plant.receive([telemetry("d2", 6), telemetry("d2", 7)])
    plant.backfill()
    plant.check()

    report = read_status(plant.home, now_ms=0)
    assert report.rows == {"raw": 65, "telemetry": 63, "dead_letters": 2}
    assert report.dead_letters == {"unmatched_topic": 1, "wrong_type": 1}
    assert report.is_well

    check_compaction(plant)
    check_queries(plant)
    other = text.replace('{ type = "double", min = -100, max = 500 }', '"string"')
    check_migration(plant, make_config(tmp_path, other))


def check_compaction(plant: Plant) -> None:
    arguments: dict[str, Any] = {"older_than_s": 0, "target_bytes": 10_000_000}
    early = arguments | {"older_than_s": 3_600}
    assert compact(plant.spark, plant.home, now=datetime(2026, 9, 22, 12, 30, tzinfo=UTC), **early) == []
    later = datetime(2026, 9, 22, 12, 30, tzinfo=UTC)  # the present hour
    done = compact(plant.spark, plant.home, now=later, **arguments)
    assert [part.table for part in done] == ["raw", "telemetry"]
    assert all(part.files_after == 1 < part.files_before for part in done)
    plant.check()
    assert compact(plant.spark, plant.home, now=later, **arguments) == []


def check_migration(plant: Plant, changed: PipelineConfig) -> None:
    """The one dead letter of a wrong type fits now, and the others no longer do."""
    plant.home = open_home(changed)
    with pytest.raises(ConfigError, match="column temperature was double and is to be string"):
        plant.backfill()
    rebuilt = dict(migrate(plant.spark, plant.home))
    assert rebuilt == {"telemetry": 1, "dead_letters": 64}
    plant.check()
    report = read_status(plant.home, now_ms=0)
    assert report.rows == {"raw": 65, "telemetry": 1, "dead_letters": 64}
    assert report.dead_letters == {"unmatched_topic": 1, "wrong_type": 63}
    plant.receive([telemetry("d2", "warm")])
    plant.backfill()
    plant.check()
    (row,) = read_table(plant.spark, plant.home, "telemetry").where("temperature = 'broken'").collect()
    assert row.event_time.timestamp() * 1_000 == NOON_MS


def check_queries(plant: Plant) -> None:
    sql = "SELECT device, count(*) AS n, max(event_time) AS last FROM telemetry GROUP BY 1 ORDER BY 1 LIMIT 1"
    columns, rows = run_query(plant.spark, plant.home, sql, 10)
    assert columns == ["device", "n", "last"]
    assert list(json_lines(rows)) == ['{"device": "d0", "n": 14, "last": "2026-09-22T12:00:00+00:00"}']
    with pytest.raises(QueryError, match="nothing"):
        run_query(plant.spark, plant.home, "SELECT nothing FROM raw", 10)


def test_older_files_are_read_as_wider_types_and_with_new_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    before = open_home(make_config(tmp_path, PLANT))
    write_messages(before, 0, telemetry("d1", count=7, env={"humidity": 0.5}))
    more = 'parts = { type = "object[]", optional = true, fields = { price = "decimal(8,2)" } }'
    wider = PLANT.replace('count = { type = "int"', 'count = { type = "long"').replace('"float"', '"double"')
    home = open_home(make_config(tmp_path, wider + more))
    write_messages(home, 1, telemetry("d1", count=2**40, parts=[{"price": "1.25"}]))
    rows = read_table(spark, home, "telemetry").orderBy("offset").collect()
    assert [(row["count"], row.humidity) for row in rows] == [(7, 0.5), (2**40, None)]
    assert [row.parts and str(row.parts[0].price) for row in rows] == [None, "1.25"]


def test_a_part_can_be_built_anew(spark: SparkSession, tmp_path: Path) -> None:
    """Of one schema, or since an hour: the rest stays as it is, and nothing is lost between them."""
    second = '[[schema]]\nname = "levels"\ntopic = "levels/{device}"\nfields = { level = "%s" }\n'
    home = open_home(make_config(tmp_path, PLANT + second % "int"))
    level = [("levels/d1", b'{"level": 1}'), ("levels/d1", b'{"level": "high"}'), ("lost", b"")]
    write_messages(home, 0, telemetry("d1"), telemetry("d1", "broken"), *level)
    write_messages(home, 5, telemetry("d2"), *level, received_us=NOON_US + 2 * 3_600_000_000)
    other = second.replace('"%s"', '{ type = "string", path = "name", optional = true }')
    home = open_home(make_config(tmp_path, PLANT + other.replace("level =", "title =")))

    def rows(table: str) -> list[int]:
        return sorted(row["offset"] for row in read_table(spark, home, table).collect())

    later = datetime(2026, 9, 22, 13, 30, tzinfo=UTC)
    assert dict(reprocess(spark, home, later, ["levels"])) == {"levels": 2, "dead_letters": 1}
    assert (rows("levels"), rows("dead_letters")) == ([2, 6, 7], [1, 3, 4, 8])
    assert read_status(home, 0).dead_letters == {"wrong_type": 2, "unmatched_topic": 2}
    assert dict(reprocess(spark, home, None, ["levels"])) == {"levels": 4, "dead_letters": 3}
    assert (rows("levels"), rows("dead_letters"), rows("telemetry")) == ([2, 3, 6, 7], [1, 4, 8], [0, 5])
    report = read_status(home, 0)
    assert report.rows == {"raw": 9, "telemetry": 2, "levels": 4, "dead_letters": 3}
    assert report.dead_letters == {"wrong_type": 1, "unmatched_topic": 2}
    moved = other.replace("levels/{device}", "lost").replace("level =", "title =")
    with pytest.raises(BraidError, match="topics have moved"):
        reprocess(spark, open_home(make_config(tmp_path, PLANT + moved)), None, ["levels"])
    refuse_unfinished(home)  # nothing was changed by that


def test_aggregates_are_those_of_the_messages(spark: SparkSession, tmp_path: Path) -> None:
    plant = Plant(spark, make_config(tmp_path, PLANT + AGGREGATES), tmp_path / "inbox")
    first = [
        telemetry(f"d{n % 2}", n, ts_ms=NOON_MS - 5 * MINUTE_MS + n * 1_000, count=n) for n in range(120)
    ]
    plant.receive(first)
    plant.receive([first[3], first[50], telemetry("d0", 7, ts_ms=NOON_MS)])  # equal ones count; time goes on
    plant.backfill()  # which closes the last window by the clock
    plant.receive([telemetry("d0", -50, ts_ms=NOON_MS - 5 * MINUTE_MS)])  # too late for its window
    plant.backfill()
    plant.check()

    expected = expected_windows()
    check_windows(plant, expected)
    (aggregates,) = [query for query in read_status(plant.home, 0).queries if query.name == "aggregates"]
    assert aggregates.late == 1

    reprocess(spark, plant.home)  # in which nothing is late
    plant.backfill()
    plant.check()
    expected[NOON_MS - 5 * MINUTE_MS, "d0", "temperature"].append(-50)
    check_windows(plant, expected)


def expected_windows() -> dict[tuple[int, str, str], list[float]]:
    expected: dict[tuple[int, str, str], list[float]] = defaultdict(list)
    for n in range(120):
        start = NOON_MS - 5 * MINUTE_MS + n // 60 * MINUTE_MS
        expected[start, f"d{n % 2}", "temperature"].append(n)
        expected[start, f"d{n % 2}", "count"].append(n)
    for n in (3, 50):
        expected[NOON_MS - 5 * MINUTE_MS, f"d{n % 2}", "temperature"].append(n)
        expected[NOON_MS - 5 * MINUTE_MS, f"d{n % 2}", "count"].append(n)
    expected[NOON_MS, "d0", "temperature"].append(7)
    return expected


def check_windows(plant: Plant, expected: dict[tuple[int, str, str], list[float]]) -> None:
    rows = read_table(plant.spark, plant.home, "aggregates").toArrow().to_pylist()
    found = {
        (round(row["window_start"].timestamp() * 1e3), row["device"], row["metric"]): row for row in rows
    }
    assert len(found) == len(rows)
    assert set(found) == set(expected)
    for key, values in expected.items():
        row = found[key]
        assert (row["count"], row["min"], row["max"]) == (len(values), min(values), max(values))
        assert row["mean"] == pytest.approx(statistics.fmean(values))
        ranks = [sum(value <= row[name] for value in values) / len(values) for name in ("p50", "p95", "p99")]
        assert ranks == pytest.approx([0.5, 0.95, 0.99], abs=1 / len(values))
