"""When a query has to end because its receivers don't receive."""

from pathlib import Path

import pytest

from braidmq.client.options import TlsFiles
from braidmq.errors import ConfigError
from braidmq.spark.health import DisconnectedError, Health, RefusedError, SessionTakenError, unsettled
from braidmq.spark.options import BrokerAddress, Connection
from braidmq.spark.preflight import check_connection
from braidmq.spark.tasks import Report


def told(health: Health, report: Report, now: float) -> None:
    health.note([report], now)
    health.check([report], now)


def test_a_broker_may_be_away_for_ever_unless_the_user_says_otherwise() -> None:
    absent = Report(subscriber="s", state="connecting", error="refused by 127.0.0.1")
    told(Health(None), absent, 1e9)
    health = Health(300.0)
    for now in (0.0, 300.0):
        told(health, absent, now)
    with pytest.raises(DisconnectedError, match=r"receiver s has had no connection for 301 s.*refused by"):
        told(health, absent, 301.0)
    drained = Report(subscriber="s", state="connecting", draining=True, refused=True)
    told(health, drained, 302.0)  # of a broker that was taken out of service, perhaps


def test_the_time_is_counted_from_the_last_connection_also_during_a_long_batch() -> None:
    health = Health(10.0)
    told(health, Report(subscriber="s", state="connecting"), 0.0)
    for now in range(1, 100):
        health.note([Report(subscriber="s", state="full")], now)  # nobody asks for a batch
    told(health, Report(subscriber="s", state="failed"), 109.0)
    with pytest.raises(DisconnectedError, match="it is failed"):
        told(health, Report(subscriber="s", state="failed"), 110.0)


def test_a_session_that_another_client_has_is_an_error_by_name() -> None:
    taken = Report(subscriber="s", state="taken", error="another client connected as s to h:1")
    with pytest.raises(SessionTakenError, match="connected as s to h:1: another query uses the same group"):
        Health(None).check([taken], 0.0)


def test_a_refusal_from_the_start_is_an_error_and_a_later_one_is_waited_for() -> None:
    refused = Report(subscriber="s", state="connecting", error="BAD_USER_NAME_OR_PASSWORD", refused=True)
    with pytest.raises(RefusedError, match="s: BAD_USER_NAME_OR_PASSWORD"):
        told(Health(None), refused, 0.0)
    health = Health(None)
    told(health, Report(subscriber="s", state="receiving"), 0.0)
    told(health, refused, 1.0)


def test_who_is_not_there_is_named() -> None:
    absent = Report(subscriber="b", state="connecting", error="no")
    reports = [Report(subscriber="a", state="drained"), absent]
    assert unsettled(reports) == ["b: no"]


def test_missing_files_and_unknown_hosts_are_told_before_anything_starts(tmp_path: Path) -> None:
    here = BrokerAddress("127.0.0.1", 1, False)
    check_connection(Connection(brokers=(here,)))
    with pytest.raises(ConfigError, match=r"option tls\.ca: there is no file"):
        check_connection(Connection(brokers=(here,), tls=TlsFiles(ca=str(tmp_path / "ca.pem"))))
    unknown = BrokerAddress("no such host.invalid", 1883, False)
    with pytest.raises(ConfigError, match=r"the host no such host\.invalid is unknown"):
        check_connection(Connection(brokers=(unknown,)))
