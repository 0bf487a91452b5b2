"""The driver's side of a query with real receivers, without Spark: members, ends, losses, metrics."""

import os
import shutil
import signal
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from braidmq.access.passwords import hash_password
from braidmq.client import BlockingClient, TlsFiles
from braidmq.spark.driver import DataLossError, StreamDriver, UnavailableError
from braidmq.spark.files import ClaimError
from braidmq.spark.health import RefusedError, SessionTakenError
from braidmq.spark.metrics import serve_metrics
from braidmq.spark.offsets import Offsets, Segment
from braidmq.spark.plan import TriggerLimits
from braidmq.spark.reading import read_slices
from braidmq.spark.source_options import read_stream_options
from braidmq.spark.wal import Wal
from tests.net.certificates import Authority
from tests.net.running import serving
from tests.spark.waiting import wait_for

NO_LIMITS = TriggerLimits()
Start = Callable[..., StreamDriver]


@pytest.fixture
def location(tmp_path: Path) -> str:
    return str(tmp_path / "wal")


@pytest.fixture
def start(address: str, name: str, location: str) -> Iterator[Start]:
    """Drivers of one query; each is stopped in the end."""
    started: list[StreamDriver] = []

    def begin(**changes: object) -> StreamDriver:
        chosen = {"brokers": address, "topicFilter": f"{name}/#", "group": name, "walLocation": location}
        driver = StreamDriver(
            read_stream_options(chosen | {key: str(value) for key, value in changes.items()})
        )
        started.append(driver)
        return driver

    yield begin
    for driver in started:
        driver.stop()


def states(driver: StreamDriver) -> dict[str, str]:
    return {report.subscriber: report.state for report in driver.supervisor.reports()}


def receiving(driver: StreamDriver, count: int) -> Callable[[], bool]:
    return lambda: list(states(driver).values()).count("receiving") == count


def stored(driver: StreamDriver) -> int:
    latest = driver.report_latest() or {}
    return sum(end for name, end in latest.items() if not name.startswith("#"))


def publish(address: str, name: str, first: int, count: int) -> None:
    with BlockingClient(address) as client:
        client.publish_many(((f"{name}/0", str(n)) for n in range(first, first + count)), qos=1)


def read(driver: StreamDriver, location: str, start: Offsets, end: Offsets) -> list[int]:
    return sorted(
        int(payload)
        for pieces in driver.plan(start, end)
        for batch in read_slices(location, pieces, skip_missing=False)
        for payload in batch.column("payload").to_pylist()
    )


def test_fewer_subscribers_than_before_lose_nothing(
    start: Start, address: str, name: str, location: str
) -> None:
    driver = start(subscribersPerBroker=3)
    position = driver.latest(driver.initial(), NO_LIMITS)
    wait_for(receiving(driver, 3), "three receivers")
    driver.stop()
    publish(address, name, 0, 300)  # to all three sessions
    driver = start(subscribersPerBroker=1)
    rows: list[int] = []

    def collect() -> bool:
        nonlocal position
        end = driver.latest(position, NO_LIMITS)
        rows.extend(read(driver, location, position, end))
        position = end
        return len(rows) >= 300 and sorted(states(driver).values()) == ["drained", "drained", "receiving"]

    wait_for(collect, "the rest of the members that left")
    driver.latest(position, NO_LIMITS)
    assert sorted(rows) == list(range(300))
    assert sorted(member.drained for member in Wal(location).members()) == [False, True, True]
    driver.stop()
    again = start(subscribersPerBroker=1)
    again.latest(position, NO_LIMITS)
    assert len(states(again)) == 1


def test_what_brokers_have_kept_is_what_is_available_now(
    start: Start, address: str, name: str, location: str
) -> None:
    first = start()
    first.latest({}, NO_LIMITS)
    wait_for(receiving(first, 1), "the receiver")
    first.stop()
    publish(address, name, 0, 500)
    driver = start(availableNowQuiet="500ms")
    driver.prepare_available_now()
    end = driver.latest({}, NO_LIMITS)
    publish(address, name, 500, 10)
    wait_for(lambda: stored(driver) > sum(end.values()), "more rows")
    assert driver.latest(end, NO_LIMITS) == end
    assert read(driver, location, {}, end) == list(range(500))


def test_a_broker_that_is_away_is_no_error(start: Start, name: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        driver = start(brokers=f"127.0.0.1:{taken.getsockname()[1]}")
        wait_for(lambda: driver.latest({}, NO_LIMITS) == {} and _reason(driver) != "", "the reason")


def test_a_broker_that_does_not_let_us_in_ends_the_query_with_its_reason(
    start: Start, tmp_path: Path
) -> None:
    passwords = tmp_path / "passwords"
    passwords.write_text(f"ada:{hash_password(b'right', b'salt' * 4).text()}\n")
    with serving([{}], f'[auth]\npassword_file = "{passwords}"\n') as (_, (port,)):
        for begin in (lambda driver: driver.latest({}, NO_LIMITS), StreamDriver.prepare_available_now):
            driver = start(brokers=f"127.0.0.1:{port}", username="ada", password="wrong")
            with pytest.raises(RefusedError, match=r"receiver .*: .*refused.*0x8[67]"):
                wait_for(lambda driver=driver, begin=begin: begin(driver) is Ellipsis, "the refusal")
            driver.stop()


def test_what_could_not_be_fetched_fails_a_query_that_reads_what_is_there(
    start: Start, tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        chosen = {"brokers": f"127.0.0.1:{taken.getsockname()[1]}", "availableNowTimeout": "500ms"}
        with pytest.raises(UnavailableError, match=r"what waits for .* is not read"):
            start(**chosen).prepare_available_now()
        start(**chosen, failWhenUnavailable="false", walLocation=tmp_path / "other").prepare_available_now()


def test_receivers_end_quietly_when_they_are_told_to(
    start: Start, location: str, capfd: pytest.CaptureFixture[str]
) -> None:
    driver = start()
    driver.latest({}, NO_LIMITS)
    wait_for(receiving(driver, 1), "the receiver")
    for pid in driver.supervisor.pids().values():
        os.kill(pid or 0, signal.SIGTERM)
    wait_for(lambda: sum(driver.supervisor.restarts().values()) > 0, "its end")
    driver.stop()
    assert capfd.readouterr().err == ""
    state = Wal(location).state()
    assert state is not None
    assert [report.state for report in state.receivers] == ["stopped"]


def _reason(driver: StreamDriver) -> str:
    return driver.supervisor.reports()[0].error


def test_missing_rows_end_the_query_or_are_passed_over(start: Start, location: str) -> None:
    offsets = ({"gone": 5}, {"gone": 10})
    with pytest.raises(DataLossError, match=r"rows 5 to 9 of gone are not in .*failOnDataLoss=false"):
        start().plan(*offsets)
    assert start(failOnDataLoss="false").plan(*offsets) == []


def test_a_log_that_was_deleted_under_its_checkpoint_is_noticed(
    start: Start, address: str, name: str, location: str
) -> None:
    driver = start()
    driver.latest({}, NO_LIMITS)
    wait_for(receiving(driver, 1), "the receiver")
    publish(address, name, 0, 5)
    wait_for(lambda: driver.latest({}, NO_LIMITS) != {}, "rows")
    position = driver.latest({}, NO_LIMITS)
    driver.stop()
    shutil.rmtree(location)
    wait_for(lambda: _seconds_since(position) >= 1, "the next second")
    driver = start()
    wait_for(
        lambda: driver.latest(position, NO_LIMITS) == position and receiving(driver, 1)(), "the receiver"
    )
    publish(address, name, 5, 5)
    wait_for(lambda: driver.latest(position, NO_LIMITS) != position, "rows")
    with pytest.raises(DataLossError):
        driver.plan(position, driver.latest(position, NO_LIMITS))


def _seconds_since(position: Offsets) -> float:

    return time.time() - max(position.values()) / 1e6


def test_two_queries_do_not_share_a_log(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("braidmq.spark.driver.CLAIM_PATIENCE_S", 0.2)
    start().latest({}, NO_LIMITS)
    with pytest.raises(ClaimError, match="another process"):
        start().latest({}, NO_LIMITS)


def test_a_second_query_with_the_same_group_is_an_error_of_the_first(start: Start, tmp_path: Path) -> None:
    first = start()
    first.latest({}, NO_LIMITS)
    wait_for(receiving(first, 1), "the receiver")
    second = start(walLocation=tmp_path / "another")
    second.latest({}, NO_LIMITS)
    wait_for(receiving(second, 1), "the other receiver")
    wait_for(lambda: "taken" in states(first).values(), "the first to notice")
    with pytest.raises(SessionTakenError, match="another query uses the same group"):
        first.latest({}, NO_LIMITS)
    assert list(states(second).values()) == ["receiving"]


def test_what_is_committed_is_deleted_but_for_the_newest(start: Start, location: str, name: str) -> None:
    driver = start()
    driver.latest({}, NO_LIMITS)
    wait_for(receiving(driver, 1), "the receiver")
    (subscriber,) = states(driver)
    folder = Path(location) / subscriber
    for number in range(4):
        (folder / Segment(number * 20_000, 20_000, 10).name).touch()
    driver.commit({subscriber: 80_000})
    assert [segment.first for segment in Wal(location).log(subscriber)] == [60_000]


def test_prometheus_can_ask_for_the_receivers(start: Start, address: str, name: str) -> None:
    driver = start()
    driver.latest({}, NO_LIMITS)
    wait_for(receiving(driver, 1), "the receiver")
    publish(address, name, 0, 25)
    port = serve_metrics(driver.supervisor, "127.0.0.1", 0)

    def page() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            return str(answer.read().decode())

    (subscriber,) = states(driver)
    label = f'{{subscriber="{subscriber}"}}'
    wait_for(lambda: f"braidmq_spark_receiver_rows_total{label} 25.0" in page(), "25 rows")
    assert f"braidmq_spark_receiver_connected{label} 1.0" in page()


def test_brokers_are_reached_by_tls_with_a_certificate_of_ones_own(
    start: Start, name: str, location: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    server, own = authority.issue("server", "localhost"), authority.issue("client", common_name="ada")
    tls = {"certificate": str(server.certificate), "key": str(server.key), "client_ca": str(authority.path)}
    files = {"tls.ca": authority.path, "tls.certificate": own.certificate, "tls.key": own.key}
    with serving([tls]) as (_, (port,)):
        driver = start(brokers=f"mqtts://localhost:{port}", **files)
        driver.latest({}, NO_LIMITS)
        wait_for(receiving(driver, 1), f"the receiver: {driver.supervisor.reports()}")
        own_files = TlsFiles(ca=str(authority.path), certificate=str(own.certificate), key=str(own.key))
        with BlockingClient(f"localhost:{port}", tls=own_files) as client:
            client.publish(f"{name}/0", b"7", qos=1)
        wait_for(lambda: driver.latest({}, NO_LIMITS) != {}, "the row")
        assert read(driver, location, {}, driver.latest({}, NO_LIMITS)) == [7]
        driver.stop()
