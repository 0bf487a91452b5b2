"""What a changed schema means for tables that are there: added, widened, or refused by name."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from braidmq.errors import BraidError, ConfigError
from braidmq.spark.pipeline.evolution import check_tables, compare
from braidmq.spark.pipeline.home import open_home
from braidmq.spark.pipeline.reprocess import MARKER, refuse_unfinished
from tests.spark.pipeline.samples import HEAD, TELEMETRY, make_config, telemetry, write_messages


def test_columns_are_added_kept_widened_or_refused() -> None:
    before = pa.schema([("a", pa.int32()), ("b", pa.string()), ("gone", pa.int64())])
    after = pa.schema([("a", pa.int64()), ("b", pa.string()), ("new", pa.float64())])
    evolution = compare("t", before, after, widens=True)
    assert (evolution.added, evolution.refused) == (("new",), ())
    assert evolution.columns.names == ["a", "b", "gone", "new"]
    (refusal,) = compare("t", before, after, widens=False).refused
    assert str(refusal) == "table t: column a was int32 and is to be int64"
    back = compare("t", evolution.columns, pa.schema([("a", pa.int32()), ("gone", pa.string())]), widens=True)
    assert [refusal.column for refusal in back.refused] == ["a", "gone"]


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_a_new_field_enters_the_table_and_a_changed_type_is_refused(tmp_path: Path, format: str) -> None:
    head = HEAD.replace("[pipeline]", f'[pipeline]\nformat = "{format}"')
    write_messages(open_home(make_config(tmp_path, head + TELEMETRY)), 0, telemetry("d1", count=1))
    more = TELEMETRY + 'level = { type = "double", optional = true }'
    home = open_home(make_config(tmp_path, head + more))
    write_messages(home, 1, telemetry("d1", level=0.5))
    if format == "delta":
        rows = DeltaTable(home.table("telemetry").uri).to_pyarrow_table().to_pylist()
        assert sorted((row["count"], row["level"]) for row in rows if row["count"]) == [(1, None)]
        assert [row["level"] for row in rows if not row["count"]] == [0.5]
    changed = open_home(make_config(tmp_path, head + more.replace('"int"', '"string"')))
    with pytest.raises(ConfigError, match=r"telemetry: column count was int32 and is to be string.*migrate"):
        check_tables(changed)
    wider = open_home(make_config(tmp_path, head + more.replace('"int"', '"long"')))
    if format == "delta":
        with pytest.raises(ConfigError, match="was int32 and is to be int64"):
            check_tables(wider)
    else:
        check_tables(wider)


def test_tables_that_are_older_than_the_record_are_looked_at(tmp_path: Path) -> None:
    home = open_home(make_config(tmp_path, HEAD + TELEMETRY))
    write_messages(home, 0, telemetry("d1"))
    Path(home.internal.at("tables.json").path).unlink()
    check_tables(home)
    changed = TELEMETRY.replace('"int"', '"string"')
    with pytest.raises(ConfigError, match="column count was int32"):
        check_tables(open_home(make_config(tmp_path, HEAD + changed)))


def test_a_reprocess_that_did_not_end_keeps_the_pipeline_from_starting(tmp_path: Path) -> None:
    home = open_home(make_config(tmp_path, HEAD + TELEMETRY))
    refuse_unfinished(home)
    Path(home.internal.make().at(MARKER).path).write_text('{"began": "2026-09-22T12:00:00Z"}')
    with pytest.raises(BraidError, match="did not end: run it again"):
        refuse_unfinished(home)
