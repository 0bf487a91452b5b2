"""Where a key is written in a TOML file, and what was meant by a wrong name."""

import pytest

from braidmq.config.toml import Keys, line_of, nearest

TEXT = """\
limits.inflight_max = 1
"a b" = 2
[[schema]]          # the first
name = "x"
[schema.fields]
temperature = "double"
[[schema]]
rules = [
  ["a"],
]
fields.humidity = "double"
[[schema.part]]
[[schema.part]]
size = 1
[groups.override."orders/a.b"]
policy = "random"
"""


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (("limits",), ":1"),
        (("limits", "inflight_max"), ":1"),
        (("a b",), ":2"),
        (("schema",), ":3"),
        (("schema", 0, "name"), ":4"),
        (("schema", 0, "fields", "temperature"), ":6"),
        (("schema", 0, "fields", "absent"), ":5"),
        (("schema", 1, "name"), ":7"),
        (("schema", 1, "fields", "humidity"), ":11"),
        (("schema", 1, "part", 1, "size"), ":14"),
        (("groups", "override", "orders/a.b", "policy"), ":16"),
        (("absent",), ""),
    ],
)
def test_the_innermost_key_that_is_written_is_found(keys: Keys, line: str) -> None:
    assert line_of(TEXT, keys) == line


def test_a_wrong_name_is_answered_with_the_nearest_or_with_a_short_list() -> None:
    assert nearest("topicfliter", ["topicFilter", "qos"]) == "; did you mean topicFilter?"
    assert nearest("x", ["alpha", "beta"]) == "; known are alpha, beta"
    assert nearest("x", [f"name-{number}" for number in range(13)]) == ""
