"""`-D COMMAND IDENTIFIER [NAME] VALUE`."""

import pytest

from braidmq.cli.properties import CommandProperties, parse_properties
from braidmq.errors import ConfigError
from braidmq.wire import Properties


def test_properties_are_gathered_by_packet_and_user_properties_keep_their_order() -> None:
    words = ["publish", "content-type", "text"]
    for value in ("v", "w"):
        words += ["PUBLISH", "user-property", "k", value]
    assert parse_properties([*words, "connect", "receive-maximum", "5"]) == CommandProperties(
        publish=Properties(content_type="text", user_properties=(("k", "v"), ("k", "w"))),
        connect=Properties(receive_maximum=5),
    )


def test_every_type_is_read() -> None:
    words = ["publish", "correlation-data", "ab", "connect", "request-problem-information", "0",
             "subscribe", "subscription-identifier", "7", "will", "will-delay-interval", "3"]  # fmt: skip
    assert parse_properties(words) == CommandProperties(
        publish=Properties(correlation_data=b"ab"),
        connect=Properties(request_problem_information=False),
        subscribe=Properties(subscription_identifiers=(7,)),
        will=Properties(will_delay_s=3),
    )


def test_nothing_given_is_nothing() -> None:
    assert parse_properties([]) == CommandProperties()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("publsh content-type x", "did you mean publish"),
        ("publish contenttype x", "did you mean content-type"),
        ("publish topic-alias many", "must be a whole number"),
        ("connect request-problem-information 7", "must be 0 or 1"),
        ("publish", "a value is missing after publish"),
        ("publish content-type", "a value is missing after content-type"),
        ("publish user-property k", "a value is missing"),
        ("publish content-type a publish content-type b", "given twice"),
    ],
)
def test_a_mistake_is_named(words: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_properties(words.split())
