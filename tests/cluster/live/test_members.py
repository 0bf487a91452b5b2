"""Three processes become one cluster, lose a member and get it back; mistakes are told in one line."""

import shutil
from pathlib import Path

from tests.cli.program import braidmq
from tests.cluster.live.nodes import LiveNode, cluster_of, meet, until


def test_three_nodes_of_one_seed_lose_one_and_get_it_back(tmp_path: Path) -> None:
    with cluster_of(tmp_path, "north", "east", "west") as (north, east, west):
        east.kill()
        for node in (north, west):
            until(lambda node=node: node.sees(east="dead"), "east is dead")  # type: ignore[misc]
        status = braidmq("cluster", "status", "--admin-port", str(north.admin_port))
        assert status.returncode == 1
        assert "2 of 3 nodes work together" in status.stdout.decode()
        east.start()
        until(east.is_up, "east is up")
        meet([north, east, west])
        status = braidmq("cluster", "status", "--admin-port", str(west.admin_port))
        assert status.returncode == 0, status.stdout.decode()
        assert "braidmq_cluster_size 3.0" in metrics_of(north)


def metrics_of(node: LiveNode) -> str:
    import httpx

    return httpx.get(f"http://127.0.0.1:{node.admin_port}/metrics", timeout=20).text


def test_nodes_that_list_each_other_start_together_and_one_by_one(tmp_path: Path) -> None:
    north, east = LiveNode(tmp_path, "north"), LiveNode(tmp_path, "east")
    everybody = ["--join", north.address, "--join", east.address]
    try:
        north.start(*everybody)
        until(north.is_up, "the first is up without the other")
        east.start(*everybody)
        until(east.is_up, "the other is up")
        meet([north, east])
        assert "this node is the first" in north.log()
    finally:
        for node in (north, east):
            if node.process is not None:
                node.stop()


def test_two_that_know_only_each_other_dont_wait_for_ever(tmp_path: Path) -> None:
    north = LiveNode(tmp_path, "north")
    east = LiveNode(tmp_path, "east", north)
    try:
        east.start()
        north.start("--join", east.address)
        for node in (north, east):
            until(node.is_up, f"{node.name} is up")
        meet([north, east])
    finally:
        for node in (north, east):
            if node.process is not None:
                node.stop()


def test_another_secret_and_a_copied_directory_arent_let_in(tmp_path: Path) -> None:
    with cluster_of(tmp_path, "north") as (north,):
        stranger = LiveNode(tmp_path, "stranger", north, secret="another secret than the others'").start()
        twin = LiveNode(tmp_path, "twin", north)
        shutil.copytree(tmp_path / "north", tmp_path / "twin", ignore=shutil.ignore_patterns("lock"))
        twin.start()
        try:
            for node, told in ((stranger, "another cluster name or secret"), (twin, "remove node.json")):
                assert node.process is not None
                assert node.process.wait(60) == 1
                last = node.log().strip().splitlines()[-1]
                assert last.startswith("braidmq: [cluster] not let in: "), node.log()
                assert told in last
            assert north.states() == {"north": "live"}
        finally:
            stranger.stop()
            twin.stop()


def test_a_secret_that_is_missing_is_told_before_anything_is_touched(tmp_path: Path) -> None:
    refused = braidmq("serve", "--join", "127.0.0.1:1", cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.decode().count("\n") == 1
    assert "--cluster-secret-file" in refused.stderr.decode()
    assert list(tmp_path.iterdir()) == []
