"""Topic filters: what may be subscribed to, and what they match."""

import pytest
from hypothesis import given

from braidmq.errors import ProtocolError
from braidmq.topics import matches, split_shared, validate_filter
from tests.topics.strategies import filters, topics

TOPIC_FILTER_INVALID = 0x8F


@pytest.mark.parametrize(
    "filter",
    [
        *("a", "#", "+", "/", "+/+", "/+", "+/", "a/#", "+/#", "/#", "a//b", "a/+/b/#", "$SYS/#"),
        *("$share", "$share/g/a", "$share/g/#", "$share/g//", "$share/g/+/b", "$share/g/$SYS/x"),
        *("$shared/+/x", "$SHARE/+/x"),
    ],
)
def test_a_wildcard_stands_alone_and_hash_is_last(filter: str) -> None:
    validate_filter(filter)
    validate_filter(filter.encode())


@given(filters)
def test_generated_filters_are_filters(filter: bytes) -> None:
    validate_filter(filter)


@pytest.mark.parametrize(
    ("filter", "fault"),
    [
        ("", "empty"),
        ("a\0", "U.0000"),
        (b"\xc0\x80", "UTF-8"),
        ("a+", "whole level"),
        ("+a/b", "whole level"),
        ("++", "whole level"),
        ("a/b#", "whole level"),
        ("##", "whole level"),
        ("a/+#", "whole level"),
        ("#/a", "last level"),
        ("#/", "last level"),
        ("a/#/#", "last level"),
        ("$share/", "group is empty"),
        ("$share//a", "group is empty"),
        ("$share/g", "no filter"),
        ("$share/g/", "no filter"),
        ("$share/+/a", "group has no wildcards"),
        ("$share/g#/a", "group has no wildcards"),
        ("$share/g/a+", "whole level"),
        ("$share/g/#/a", "last level"),
        ("a" * 65_536, "bytes"),
    ],
)
def test_a_fault_is_named_with_its_reason(filter: str | bytes, fault: str) -> None:
    with pytest.raises(ProtocolError, match=fault) as raised:
        validate_filter(filter)
    assert raised.value.reason == TOPIC_FILTER_INVALID


def test_the_limit_of_levels_is_for_the_shared_filter_itself() -> None:
    validate_filter("$share/g/a/b", levels_max=2)
    with pytest.raises(ProtocolError, match="3 levels, more than 2"):
        validate_filter("$share/g/a/b/c", levels_max=2)
    with pytest.raises(ProtocolError, match="12 bytes, more than 11"):
        validate_filter("$share/g/a/b", bytes_max=11)


def test_a_shared_filter_is_split_in_the_type_it_came() -> None:
    assert split_shared("$share/g/a/+") == ("g", "a/+")
    assert split_shared(b"$share/g//a") == (b"g", b"/a")
    assert split_shared("a/$share/g") == (None, "a/$share/g")
    assert split_shared(b"$share") == (None, b"$share")


@pytest.mark.parametrize(
    ("filter", "topic", "expected"),
    [
        ("a/b", "a/b", True),
        ("a/b", "a/B", False),
        ("a/b", "a", False),
        ("a", "a/b", False),
        ("a", "/a", False),
        ("a/#", "a", True),
        ("a/#", "a/", True),
        ("a/#", "a/b/c", True),
        ("a/#", "ab", False),
        ("a/b/#", "a", False),
        ("#", "a/b/c", True),
        ("#", "/", True),
        ("+", "a", True),
        ("+", "a/b", False),
        ("+", "/", False),
        ("+/+", "/", True),
        ("/+", "/a", True),
        ("+", "/a", False),
        ("a/+", "a/", True),
        ("a/+", "a", False),
        ("a/+/c", "a/b/c", True),
        ("a/+/c", "a/b/b/c", False),
        ("a/+/#", "a", False),
        ("a/+/#", "a/b", True),
        ("a//b", "a//b", True),
        ("a//b", "a/b", False),
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/x", False),
        ("+/#", "$SYS/x", False),
        ("$SYS/#", "$SYS/x", True),
        ("$SYS/+", "$SYS/x", True),
        ("a/#", "a/$SYS", True),
        ("+/+", "a/$x", True),
        ("/+/é", "/漢/é", True),
    ],
)
def test_matching_follows_the_rules(filter: str, topic: str, expected: bool) -> None:
    assert matches(filter, topic) is expected
    assert matches(filter.encode(), topic.encode()) is expected


@given(topics)
def test_a_topic_matches_itself_and_its_generalisations(topic: bytes) -> None:
    levels = topic.split(b"/")
    assert matches(topic, topic)
    assert matches(topic + b"/#", topic)
    hidden = topic.startswith(b"$")
    assert matches(b"#", topic) is not hidden
    assert matches(b"/".join([b"+"] * len(levels)), topic) is not hidden
    assert matches(b"/".join([levels[0], *[b"+"] * (len(levels) - 1)]), topic)


def test_a_topic_of_very_many_levels_is_no_problem() -> None:
    deep = "/".join(["a"] * 30_000)
    validate_filter(deep)
    assert matches("/".join(["+"] * 30_000), deep)
    assert not matches("/".join(["+"] * 29_999), deep)
