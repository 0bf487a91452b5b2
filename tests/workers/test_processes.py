"""Workers come and go: what is left of sessions, of connections and of processes."""

import os
import signal
from pathlib import Path

import pytest

from tests.cli.program import braidmq
from tests.workers.processes import (
    client_id_of,
    comes_back,
    connected,
    doors_of,
    end,
    is_gone,
    start,
    until,
    workers_of,
)


def test_a_killed_worker_comes_back_with_its_sessions_and_the_other_does_not_notice(tmp_path: Path) -> None:
    broker = start(tmp_path / "run", "--data-dir", "data")
    try:
        ids = [client_id_of(owner, "steady") for owner in (0, 1)]
        staying, lost = (connected(broker.port, client_id, expiry_s=300) for client_id in ids)
        for client in (staying, lost):
            client.subscribe("news/#", qos=1)
        killed = workers_of(broker)[1]
        os.kill(killed, signal.SIGKILL)
        lost.expect_closed()
        staying.publish("news/1", b"for both", qos=1)
        staying.take(topic="news/1")
        back = comes_back(broker.port, ids[1])
        back.take(topic="news/1", payload=b"for both")
        back.publish("news/2", b"again", qos=1)
        staying.take(topic="news/2")
        back.take(topic="news/2")
        assert workers_of(broker)[1] != killed
        everybody = [broker.pid, *workers_of(broker).values()]
        doors = doors_of(broker)
        broker.process.terminate()
        assert broker.process.wait(60) == 0
        assert all(map(is_gone, everybody))
        assert not doors.exists()
        for client in (staying, back):
            client.close()
        _is_only_for_two(tmp_path / "run" / "data")
    finally:
        broker.stop()


def test_all_start_again_with_what_they_had_for_each_other(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    ids = [client_id_of(owner, "lasting") for owner in (0, 1)]
    first = start(tmp_path / "first", "--data-dir", data)
    try:
        publisher, absent = (connected(first.port, client_id, expiry_s=300) for client_id in ids)
        absent.subscribe("t/#", "$share/group/s/#", qos=2)
        absent.disconnect()
        for topic, qos in (("t/1", 2), ("s/1", 1)):
            publisher.publish(topic, b"kept", qos=qos)
        publisher.publish("r/1", b"kept", qos=1, retain=True)
        publisher.disconnect()
    finally:
        assert first.stop() == 0
    second = start(tmp_path / "second", "--data-dir", data)
    try:
        back = comes_back(second.port, ids[1])
        assert sorted((back.take().topic, back.take().topic)) == ["s/1", "t/1"]
        back.subscribe("r/#")
        back.take(topic="r/1", retain=True)
        back.close()
    finally:
        assert second.stop() == 0


def _is_only_for_two(directory: Path) -> None:
    """A data directory belongs to its number of workers."""
    for count in ("1", "3"):
        done = braidmq("serve", "--port", "0", "--data-dir", str(directory), "--workers", count)
        assert done.returncode == 1
        told = done.stderr.decode()
        assert f"is of --workers 2, not {count}" in " ".join(told.split())
        assert "another --data-dir" in " ".join(told.split())


def test_a_directory_of_a_single_broker_is_not_taken_by_several(tmp_path: Path) -> None:
    (tmp_path / "something").touch()
    done = braidmq("serve", "--port", "0", "--data-dir", str(tmp_path), "--workers", "2")
    assert done.returncode == 1
    assert "is of --workers 1, not 2" in " ".join(done.stderr.decode().split())
    assert [one.name for one in tmp_path.iterdir()] == ["something"]


def test_workers_end_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    broker = start(tmp_path / "run", "--in-memory")
    pids, doors = list(workers_of(broker).values()), doors_of(broker)
    try:
        assert len(pids) == 2
        broker.process.kill()
        until(lambda: all(map(is_gone, pids)))
        assert not doors.exists()
    finally:
        end(pids)
        broker.stop()


def test_a_worker_that_cannot_start_ends_all_and_says_why(tmp_path: Path) -> None:
    running = start(tmp_path / "run", "--data-dir", "data")
    try:
        data = tmp_path / "run" / "data"
        done = braidmq("serve", "--port", "0", "--data-dir", str(data), "--workers", "2")
        assert done.returncode == 1
        assert "worker-" in done.stderr.decode()
    finally:
        running.stop()


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--cluster-listen", "127.0.0.1:0"), "and [cluster] can't be had together yet"),
        (("--set", "listener.protocol=websocket"), "needs plain listeners"),
        (("--set", "listener.proxy_protocol=true"), "needs plain listeners"),
    ],
)
def test_what_workers_cannot_do_yet_is_refused(flags: tuple[str, ...], why: str) -> None:
    env = {"BRAIDMQ_CLUSTER_SECRET": "sixteen bytes and more"}
    done = braidmq("serve", "--port", "0", "--in-memory", "--workers", "2", *flags, env=env)
    assert done.returncode != 0
    assert why in " ".join(done.stderr.decode().split())
