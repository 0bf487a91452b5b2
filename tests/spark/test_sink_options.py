"""Options of the sink: read without regard to case, refused by name."""

import pytest

from braidmq.client import TlsFiles
from braidmq.errors import ConfigError
from braidmq.spark.sink_options import parse_sink_options

GOOD = {"brokers": "a,b:1884"}


def test_what_is_written_becomes_typed() -> None:
    options = parse_sink_options(
        {"BROKERS": "a,b:1884", "topic": "x/{y}", "Qos": "2", "RETAIN": "True", "messageexpiry": "60"}
        | {"marks": "false"}
    )
    assert [str(broker) for broker in options.connection.brokers] == ["a:1883", "b:1884"]
    assert (options.topic, options.qos, options.retain, options.message_expiry_s) == ("x/{y}", 2, True, 60)
    assert not options.marks


def test_with_tls_the_port_and_the_files_follow() -> None:
    connection = parse_sink_options(
        {"brokers": "a", "tls": "true", "tls.ca": "ca.pem", "tls.verify": "false"}
    ).connection
    assert str(connection.brokers[0]) == "a:8883"
    assert connection.client_choices(connection.brokers[0])["tls"] == TlsFiles(ca="ca.pem", verify=False)


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
        (GOOD | {"topicFilter": "a/#"}, "unknown option topicfilter"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(given: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        parse_sink_options(given)
