"""What a pipeline file may say, and how it is told what is wrong with it."""

from pathlib import Path

import pytest

from braidmq.errors import ConfigError
from braidmq.spark.pipeline.config import load_pipeline
from braidmq.spark.pipeline.tables import directory_of, user_tables
from tests.spark.pipeline.samples import EVERYTHING, HEAD, OTHERS, RULES, TELEMETRY, make_config


def test_the_tables_follow_from_the_file(tmp_path: Path) -> None:
    config = make_config(tmp_path, EVERYTHING)
    tables = user_tables(config)
    assert list(tables) == [
        "raw", "telemetry", "packed", "compact", "pictures", "dead_letters", "aggregates", "alerts",
    ]  # fmt: skip
    assert tables["telemetry"].names[:3] == ["topic", "device", "site"]
    assert tables["telemetry"].names[-4:] == ["ts", "temperature", "humidity", "count"]
    assert directory_of(config, "telemetry") == "clean/telemetry"
    assert config.schema("telemetry").metric_names == ("temperature", "humidity", "count")


def test_a_relative_location_is_beside_the_file(tmp_path: Path) -> None:
    assert make_config(tmp_path, EVERYTHING).pipeline.location == str(tmp_path / "data")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[pipeline]\n", ": the file: source is missing|location is missing"),
        ("= 3", "not valid TOML"),
        (
            HEAD.replace("location", "locatoin") + TELEMETRY,
            r":3: \[pipeline\] locatoin: unknown key; did you mean location",
        ),
        (HEAD + "qos = 3\n" + TELEMETRY, r":8: \[source\] qos: Invalid enum value 3"),
        (
            HEAD + 'topics = ["a/#/b"]\n' + TELEMETRY,
            r":8: \[source\] topics: 'a/#/b': # must be the last level",
        ),
        (HEAD + 'topics = ["$share/g/a"]\n' + TELEMETRY, "the group is a key of its own"),
        (
            HEAD + '[[schema]]\nname = "raw"\ntopic = "a"\nformat = "raw"',
            r":9: \[schema\] name: 'raw' is the name",
        ),
        (
            HEAD + '[[schema]]\nname = "a"\ntopic = "a/{offset}"\nformat = "raw"',
            "can't be the name of a column",
        ),
        (HEAD + '[[schema]]\nname = "a"\ntopic = "a"', r"\[schema\] fields: a schema has to have fields"),
        (
            HEAD + TELEMETRY + OTHERS + '[[schema]]\nname = "packed"\ntopic = "b"\nformat = "raw"',
            "'packed' is there already",
        ),
        (
            HEAD + TELEMETRY + 'speed = "fast"',
            r":18: \[schema\] fields.speed: unknown type 'fast'; known are boolean",
        ),
        (HEAD + TELEMETRY + 'topic = "string"', "a column of every clean table"),
        (HEAD + TELEMETRY + 'site = "string"', "a level of the topic"),
        (HEAD + TELEMETRY + 'x = { type = "string", min = 3 }', "min and max are for numbers"),
        (HEAD + TELEMETRY + 'x = { type = "int", min = 3, max = 2 }', "min is above max"),
        (HEAD + TELEMETRY + 'x = { type = "int", path = "temperature.x" }', "leads through a value"),
        (
            HEAD + TELEMETRY.replace('event_time = "ts"', 'event_time = "count"'),
            "'count' is no field of type timestamp",
        ),
        (
            HEAD + TELEMETRY + "[aggregates]\nwindow_s = 10\nslide_s = 20",
            r"\[aggregates\] slide_s: is above window_s",
        ),
        (
            HEAD + TELEMETRY + "[aggregates]\npercentiles = [50]",
            r"\[aggregates\] percentiles: Expected `float` < 1",
        ),
        (
            HEAD.replace("[pipeline]", "[pipeline]\nclock_ahead_s_max = 120") + TELEMETRY + "[aggregates]",
            r"\[pipeline\] clock_ahead_s_max: has to be below watermark_s of \[aggregates\] \(120\)",
        ),
        (
            HEAD + TELEMETRY + "[aggregates]\nclose_after_s = 60",
            r"\[aggregates\] close_after_s: is below watermark_s",
        ),
        (HEAD + TELEMETRY + '[[rule]]\nname = "x"', "one of above, below and silent_s"),
        (HEAD + TELEMETRY + '[[rule]]\nname = "x"\nmetric = "no"\nabove = 1', "no schema has a metric 'no'"),
        (HEAD + TELEMETRY + '[[rule]]\nname = "x"\nschema = "no"\nsilent_s = 1', "there is no schema 'no'"),
        (HEAD + TELEMETRY + RULES + '[alerts]\ntopic = "a/{site}"', "can be filled in"),
        (HEAD + TELEMETRY + RULES + '[alerts]\ntopic = "a/+"', "no topic to publish to"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as told:
        make_config(tmp_path, text)
    assert str(told.value).startswith(str(tmp_path / "pipeline.toml"))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: No such file"):
        load_pipeline(tmp_path / "none.toml")


def test_the_example_is_good() -> None:
    config = load_pipeline(Path(__file__).parents[3] / "examples" / "pipeline.toml")
    assert [schema.name for schema in config.schemas] == ["telemetry", "meters", "pictures"]
    assert config.schema("telemetry").metric_names == ("temperature", "humidity", "battery", "sequence")
