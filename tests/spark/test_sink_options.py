"""Options of the sink: read without regard to case, refused by name."""

import pytest

from braidmq.client import TlsFiles
from braidmq.errors import ConfigError
from braidmq.spark.sink_options import TABLE, parse_sink_options

GOOD = {"brokers": "a,b:1884"}


def test_what_is_written_becomes_typed() -> None:
    options = parse_sink_options(
        {"BROKERS": "a,b:1884", "topic": "x/{y}", "Qos": "2", "RETAIN": "True", "messageexpiry": "60"}
        | {"marks": "false"}
    )
    assert options.brokers == ("a:1883", "b:1884")
    assert (options.topic, options.qos, options.retain, options.message_expiry_s) == ("x/{y}", 2, True, 60)
    assert not options.marks


def test_with_tls_the_port_and_the_files_follow() -> None:
    assert parse_sink_options({"brokers": "a", "tls": "true"}).brokers == ("a:8883",)
    files = parse_sink_options({"brokers": "a", "tls.ca": "ca.pem", "tls.verify": "false"})
    assert files.brokers == ("a:8883",)
    assert files.tls == TlsFiles(ca="ca.pem", verify=False)


def test_what_spark_adds_is_no_mistake_of_the_user() -> None:
    added = {"checkpointLocation": "somewhere", "path": "x"}
    assert parse_sink_options(GOOD | added) == parse_sink_options(GOOD)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "brokers"),
        ({"brokers": ""}, "brokers"),
        ({"brokers": "a:port"}, "brokers"),
        ({"brokers": "http://a"}, "brokers"),
        (GOOD | {"qos": "3"}, "qos"),
        (GOOD | {"qos": "one"}, "qos"),
        (GOOD | {"retain": "yes"}, "retain"),
        (GOOD | {"messageExpiry": "-1"}, "messageExpiry"),
        (GOOD | {"window": "0"}, "window"),
        (GOOD | {"connectTimeout": "nan"}, "connectTimeout"),
        (GOOD | {"requestTimeout": "soon"}, "requestTimeout"),
        (GOOD | {"topic": ""}, "topic"),
        (GOOD | {"topic": "a", "topicColumn": "b"}, "topicColumn"),
        (GOOD | {"tls": "false", "tls.ca": "x"}, "tls"),
        (GOOD | {"topicFilter": "a/#"}, "topicFilter"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(given: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        parse_sink_options(given)


def test_a_password_is_never_shown() -> None:
    with pytest.raises(ConfigError) as refused:
        parse_sink_options(GOOD | {"password": ""})
    assert "password is empty" in str(refused.value)


def test_no_two_options_are_the_same_but_for_case() -> None:
    assert len({name.lower() for name in TABLE}) == len(TABLE)
