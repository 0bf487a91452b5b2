"""Every wrong, missing or contradictory option is refused by its name."""

import pytest

from braidmq.errors import ConfigError
from braidmq.spark.source_options import (
    SnapshotOptions,
    WalRangeOptions,
    means_stream,
    read_batch_options,
    read_stream_options,
)

RIGHT = {
    "brokers": "a.example,b.example:1884",
    "topicFilter": "sensors/#",
    "walLocation": "/wal",
    "group": "plant",
}


def test_what_is_not_said_has_a_sensible_value() -> None:
    read = read_stream_options(RIGHT)
    assert [str(broker) for broker in read.connection.brokers] == ["a.example:1883", "b.example:1884"]
    assert read.subscriptions == ("$share/plant/sensors/#",)
    assert [subscriber.name for subscriber in read.subscribers] == [
        "plant-a.example_1883-0",
        "plant-b.example_1884-0",
    ]
    assert (read.qos, read.fail_on_data_loss, read.starting, read.dedup) == (1, True, "earliest", "auto")


def test_names_are_read_whatever_their_case() -> None:
    shouted = {name.upper(): value for name, value in RIGHT.items()} | {
        "QOS": "2",
        "MAXOFFSETSPERTRIGGER": "7",
    }
    read = read_stream_options(shouted)
    assert (read.qos, read.limits.rows_max) == (2, 7)


def test_sizes_and_durations_have_units() -> None:
    chosen = {
        "walMaxBytes": "2g",
        "sessionExpiry": "1d",
        "segmentDelay": "250ms",
        "maxBytesPerTrigger": "64k",
    }
    read = read_stream_options(RIGHT | chosen)
    assert (read.wal_bytes_max, read.session_expiry_s) == (2 << 30, 86_400)
    assert (read.segment_delay_s, read.limits.bytes_max) == (0.25, 65_536)


def test_several_filters_and_subscribers() -> None:
    chosen = {"topicFilter": "a/+, b/#", "subscribersPerBroker": "2", "group": "g", "clientIdPrefix": "p"}
    read = read_stream_options(RIGHT | chosen)
    assert read.subscriptions == ("$share/g/a/+", "$share/g/b/#")
    assert [subscriber.name[-7:] for subscriber in read.subscribers] == [
        "_1883-0",
        "_1883-1",
        "_1884-0",
        "_1884-1",
    ]


def test_other_connectors_spellings_are_understood() -> None:
    given = {"brokerUrl": "tcp://h:1", "subscribe": "t", "walLocation": "/w", "group": "g"}
    read = read_stream_options(given)
    assert str(read.connection.brokers[0]) == "h:1"


def test_tls_by_scheme_or_by_option() -> None:
    by_scheme = read_stream_options(RIGHT | {"brokers": "mqtts://h"}).connection.brokers[0]
    by_option = read_stream_options(RIGHT | {"brokers": "h", "tls.ca": "/ca.pem", "tls": "true"}).connection
    assert (by_scheme.tls, by_scheme.port) == (True, 8883)
    assert (by_option.brokers[0].tls, by_option.tls.ca) == (True, "/ca.pem")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"brokers": ""}, "option brokers is required"),
        ({"brokers": "h,h:1883"}, "names one broker twice"),
        ({"brokers": "http://h"}, "option brokers"),
        ({"brokers": "h:0"}, "is no port"),
        ({"brokerUrl": "h"}, "brokers and brokerUrl mean the same"),
        ({"topicFilter": "a/#/b"}, "option topicFilter"),
        ({"topicFilter": "$share/g/a"}, "option group gives it"),
        ({"topicFilter": "a,,b"}, "empty entry"),
        ({"walLocation": "relative/path"}, "option walLocation must be an absolute path"),
        ({"walLocation": "s3://"}, "option walLocation has no path"),
        ({"group": "a/b"}, "option group"),
        ({"qos": "3"}, "option qos must be a whole number from 0 to 2, not '3'"),
        ({"qos": "one"}, "option qos"),
        ({"subscribersPerBroker": "0"}, "option subscribersPerBroker"),
        ({"subscribersPerBroker": "2", "shared": "false"}, "needs shared=true"),
        ({"maxOffsetsPerTrigger": "-1"}, "option maxOffsetsPerTrigger"),
        ({"maxBytesPerTrigger": "much"}, "option maxBytesPerTrigger must be a size"),
        ({"maxTriggerDelay": "5s"}, "needs option minOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "is over maxOffsetsPerTrigger"),
        ({"failOnDataLoss": "perhaps"}, "option failOnDataLoss must be one of true, false"),
        ({"dedupRedelivered": "sometimes"}, "option dedupRedelivered"),
        ({"dedupRedelivered": "true", "receiveMaximum": "60000"}, "receiveMaximum of at most"),
        ({"sessionExpiry": "0"}, "option sessionExpiry"),
        ({"sessionExpiry": "soon"}, "option sessionExpiry must be a duration"),
        ({"walMaxBytes": "1m"}, "option walMaxBytes"),
        ({"walMaxBytes": "20m"}, "each of 2 subscribers"),
        ({"password": "p"}, "password needs option username"),
        ({"tls": "false", "tls.ca": "/ca"}, "option tls is false"),
        ({"tls.ca": "/ca"}, "no broker is reached by TLS"),
        ({"tls": "true", "tls.key": "/k"}, "tls.key needs option tls.certificate"),
        ({"tls": "false", "brokers": "mqtts://h"}, "contradicts tls=false"),
        ({"tls": "true", "brokers": "mqtt://h"}, "contradicts tls=true"),
        ({"startingOffsets": "middle"}, "option startingOffsets"),
        ({"startingOffsets": '{"a": -1}'}, "option startingOffsets"),
        ({"endingOffsets": "latest"}, "option endingOffsets is for spark.read"),
        ({"snapshotQuiet": "1s"}, "option snapshotQuiet is for spark.read"),
        ({"metricsPort": "70000"}, "option metricsPort"),
        ({"topicFliter": "a"}, "unknown option topicfliter; did you mean topicFilter?"),
        ({"bogus": "1"}, "unknown option bogus"),
        ({"failWhenDisconnected": "never"}, "option failWhenDisconnected must be a duration"),
    ],
)
def test_a_fault_is_named(change: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_stream_options(RIGHT | change)
    assert named in str(refused.value)


@pytest.mark.parametrize("missing", sorted(RIGHT))
def test_what_is_required_is_named(missing: str) -> None:
    with pytest.raises(ConfigError, match=f"option {missing} is required"):
        read_stream_options({name: value for name, value in RIGHT.items() if name != missing})


def test_a_misspelt_option_is_recognised_where_it_is_missing() -> None:
    wrong = {"topicFliter" if name == "topicFilter" else name: value for name, value in RIGHT.items()}
    with pytest.raises(ConfigError, match=r"topicFilter is required; did you mean it by topicfliter\?"):
        read_stream_options(wrong)


def test_a_broker_may_be_away_for_as_long_as_the_user_says() -> None:
    assert read_stream_options(RIGHT).disconnected_s_max is None
    assert read_stream_options(RIGHT | {"failWhenDisconnected": "5m"}).disconnected_s_max == 300


def test_a_stream_is_told_from_a_batch_by_its_options() -> None:
    assert means_stream(RIGHT)
    assert means_stream({"brokerUrl": "h", "GROUP": "g"})
    assert not means_stream({"brokers": "h", "topicFilter": "#"})
    assert not means_stream({"walLocation": "/wal"})


def test_a_password_is_never_repeated() -> None:
    with pytest.raises(ConfigError) as refused:
        read_stream_options(RIGHT | {"password": "secret"})
    assert "secret" not in str(refused.value)


def test_a_batch_reads_the_log_or_what_is_retained() -> None:
    ranged = read_batch_options({"walLocation": "/wal", "startingOffsets": '{"s": 5}'})
    assert isinstance(ranged, WalRangeOptions)
    assert (ranged.starting, ranged.ending) == ({"s": 5}, "latest")
    assert isinstance(read_batch_options({"brokers": "h", "topicFilter": "#"}), SnapshotOptions)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"walLocation": "/wal", "brokers": "h"}, "option brokers contradicts walLocation"),
        ({"endingOffsets": "latest"}, "option walLocation is required"),
        ({"walLocation": "/wal", "startingOffsets": "latest"}, "leaves nothing to read"),
        ({"brokers": "h", "topicFilter": "#", "maxOffsetsPerTrigger": "1"}, "is for spark.readStream"),
        ({"brokers": "h"}, "option topicFilter is required"),
        ({"brokers": "h", "topicFilter": "#", "bogus": "1"}, "unknown option bogus"),
    ],
)
def test_a_fault_of_a_batch_is_named(given: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_batch_options(given)
    assert named in str(refused.value)
