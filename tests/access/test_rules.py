"""Rules: which one applies, what the placeholders stand for, and which files are refused."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braidmq.access.rules import Rule, Rules, covers, overlap, parse_rules
from braidmq.errors import ConfigError
from braidmq.topics import matches

TOPICS = [
    "/".join(levels)
    for size in (1, 2, 3, 4)
    for levels in itertools.product(("a", "b", "", "$s"), repeat=size)
]
levels = st.lists(st.sampled_from(["a", "b", "", "+", "$s"]), min_size=0, max_size=3)


@st.composite
def filters(draw: st.DrawFn) -> str:
    parts = draw(levels) + draw(st.sampled_from([[], ["#"]]))
    return "/".join(parts or ["a"]) or "+"


@given(filters(), filters())
def test_covering_and_overlapping_are_what_the_topics_say(one: str, two: str) -> None:
    in_one = {topic for topic in TOPICS if matches(one, topic)}
    in_two = {topic for topic in TOPICS if matches(two, topic)}
    assert overlap(one, two) == overlap(two, one) == bool(in_one & in_two)
    if covers(one, two):
        assert in_two <= in_one


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        ("#", "#", True),
        ("#", "a/+/b", True),
        ("a/#", "a", True),
        ("a/+", "a/+", True),
        ("a/+", "a/b", True),
        ("+/+", "+/b", True),
        ("a/+", "a/#", False),
        ("a/b", "a/+", False),
        ("a", "a/#", False),
        ("#", "$SYS/#", False),
        ("$SYS/#", "$SYS/x", True),
    ],
)
def test_what_covers_what(one: str, two: str, expected: bool) -> None:
    assert covers(one, two) is expected


def test_without_a_rule_nothing_is_allowed_and_the_first_that_applies_decides() -> None:
    rules = Rules(
        [
            Rule("secret/#", deny=("read", "write", "subscribe")),
            Rule("#", allow=("read", "subscribe")),
            Rule("in/#", allow=("write",), user="ada"),
            Rule("in/x", allow=("write",), client="c-1"),
        ]
    )
    assert rules.may_read(None, "c", "a/b")
    assert not rules.may_read("ada", "c", "secret/x")
    assert not rules.may_read(None, "c", "$SYS/x")
    assert rules.may_write("ada", "c", "in/y")
    assert not rules.may_write("bob", "c", "in/y")
    assert rules.may_write("bob", "c-1", "in/x")
    assert not rules.may_write("ada", "c", "out")


def test_a_filter_that_reaches_into_what_is_denied_is_denied() -> None:
    rules = Rules([Rule("secret/#", deny=("subscribe",)), Rule("#", allow=("subscribe",))])
    assert rules.may_subscribe(None, "c", "open/#")
    for filter in ("secret", "secret/x", "#", "+/x", "+"):
        assert not rules.may_subscribe(None, "c", filter)


def test_a_filter_wider_than_what_is_allowed_is_denied() -> None:
    rules = Rules([Rule("a/+/c", allow=("subscribe",))])
    assert rules.may_subscribe(None, "c", "a/b/c")
    assert rules.may_subscribe(None, "c", "a/+/c")
    assert not rules.may_subscribe(None, "c", "a/#")
    assert not rules.may_subscribe(None, "c", "a/b")


def test_placeholders_stand_for_the_client() -> None:
    rules = Rules([Rule("home/%u/dev-%c/#", allow=("write",))])
    assert rules.may_write("ada", "7", "home/ada/dev-7/x")
    assert not rules.may_write("bob", "7", "home/ada/dev-7/x")
    assert not rules.may_write("ada", "8", "home/ada/dev-7/x")
    assert not rules.may_write(None, "7", "home//dev-7/x")


@pytest.mark.parametrize("name", ["+", "#", "a/b", "/", "ada/+", "x#", ""])
def test_a_name_that_could_be_more_than_one_level_is_refused(name: str) -> None:
    allowing = Rules([Rule("u/%u/x", allow=("write", "subscribe")), Rule("c/%c", allow=("read",))])
    for topic in ("u/a/b/x", f"u/{name}/x", "u/ada/x"):
        assert not allowing.may_write(name, "c", topic)
    assert not allowing.may_subscribe(name, "c", "u/+/x")
    assert not allowing.may_subscribe(name, "c", f"u/{name}/x")
    assert not allowing.may_read("ada", name, "c/a")
    denying = Rules([Rule("u/%u/x", deny=("write",)), Rule("#", allow=("write",))])
    assert not denying.may_write(name, "c", f"u/{name}/x")
    assert not denying.may_write(name, "c", "u/a")
    assert denying.may_write(name, "c", "other")


def test_a_percent_sign_in_a_name_is_no_placeholder() -> None:
    rules = Rules([Rule("u/%u/%c", allow=("write",))])
    assert rules.may_write("%c", "7", "u/%c/7")
    assert not rules.may_write("%c", "7", "u/7/7")


def test_a_file_of_rules() -> None:
    rules = parse_rules('[[rule]]\nuser = "ada"\nallow = ["read", "subscribe"]\ntopic = "a/#"\n', "f")
    assert rules.may_read("ada", "c", "a/x")
    assert not rules.may_read("bob", "c", "a/x")


GOOD = '[[rule]]\nallow = ["read"]\ntopic = "a"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f: there is no .*rule"),
        ("# nothing\n", "f: there is no .*rule"),
        ("rule = []\n", "f: there is no .*rule"),
        ("[rule]\n", "f: there is no .*rule"),
        ("[[rule]]\n[extra]\n", "f:2: unknown 'extra'"),
        ("\nrule = [{topic = 'a'}]\n", "f:2: rule 1: a rule needs either allow or deny"),
        ("nonsense", "f:1: not valid TOML"),
        (GOOD + "[other]\n", "f:4: unknown 'other'"),
        (GOOD + '\n[[rule]]\nallow = ["read"]\n', r"f:5: .*topic"),
        ('[[rule]]\ntopic = "a"\n', "f:1: rule 1: a rule needs either allow or deny"),
        ('[[rule]]\ntopic = "a"\noverflow = "refuse"\n', "f:1: rule 1: overflow is about all"),
        ('[[rule]]\noverflow = "drop"\n', "f:1: rule 1: .*drop"),
        ('[[rule]]\ntopic = "a"\nallow = []\n', "f:1: rule 1: a rule needs either allow or deny"),
        (GOOD + 'deny = ["write"]\n', "f:1: rule 1: a rule needs either allow or deny"),
        (GOOD + 'usr = "ada"\n', "f:1: rule 1: .*usr"),
        (GOOD + 'user = ""\n', "f:1: rule 1: an empty user"),
        (GOOD + "user = 7\n", "f:1: rule 1: "),
        ('[[rule]]\nallow = ["reed"]\ntopic = "a"\n', "f:1: rule 1: .*reed"),
        ('[[rule]]\nallow = ["read"]\ntopic = "a/#/b"\n', "f:1: rule 1: 'a/#/b' is no topic filter"),
        ('[[rule]]\nallow = ["read"]\ntopic = ""\n', "f:1: rule 1: '' is no topic filter"),
        ('[[rule]]\nallow = ["read"]\ntopic = "a/%x"\n', "f:1: rule 1: %x means nothing"),
        ('[[rule]]\nallow = ["read"]\ntopic = "100%"\n', "f:1: rule 1: % means nothing"),
        ('[[rule]]\nallow = ["read"]\ntopic = "$share/g/a"\n', "f:1: rule 1: leave "),
    ],
)
def test_a_doubtful_file_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_rules(text, "f")
