"""The pipeline's benchmark: what it reads out of a table, and what it says about it."""

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.pipeline import latency_case, notes, setup_cases
from bench.pipeline_case import Measured, Observer
from bench.pipeline_publisher import payload


def test_a_payload_has_its_size_and_says_when_it_was_due(tmp_path: Path) -> None:
    now_us = time.time_ns() // 1_000
    table = tmp_path / "raw" / "hour=1"
    table.mkdir(parents=True)
    observer = Observer(tmp_path / "raw")
    for number in range(2):
        due = [now_us - 3_000_000, now_us - 1_000_000]
        payloads = [payload(at_us, 200) for at_us in due]
        assert {len(one) for one in payloads} == {200}
        pq.write_table(pa.table({"payload": pa.array(payloads, pa.binary())}), table / f"{number}.parquet")
        observer.look()
        observer.look()
    assert (observer.rows, observer.commits) == (4, 2)
    assert len(observer.latencies_ms(now_us - 2_000_000)) == 2
    assert observer.latencies_ms(0).min() >= 1_000


def test_the_four_set_ups_are_those_of_the_paper() -> None:
    cases = setup_cases(30, 5, qos=1)
    counts = {case.name: (case.brokers, case.brokers * case.subscribers_per_broker) for case in cases}
    assert counts == {"SGL-SGL": (1, 1), "SGL-SHD": (1, 2), "MLT-SGL": (2, 2), "MLT-SHD": (2, 4)}
    assert {(case.publishers, case.payload_bytes) for case in cases} == {(8, 600)}


def measured(rows: int, p99_ms: float, behind_s: float) -> Measured:
    return Measured(
        case=latency_case(30, 5, 10_000), published=1_000, refused=0, rows=rows, publish_per_s=1.0,
        table_per_s=1.0, latency_ms={"p99": p99_ms}, publisher_behind_s=behind_s, cpu_s_per_million={},
    )  # fmt: skip


def test_what_is_wrong_with_a_run_is_said() -> None:
    assert notes([measured(1_000, 2_000, 0.0)]) == ["latency: p99 2,000 ms, goal 3,000 ms: reached"]
    told = notes([measured(999, 4_000, 2.0)])
    assert "999 rows for 1,000" in told[0]
    assert "2.0 s late" in told[1]
    assert told[2].endswith("short")
