"""How a node comes into its cluster: whom it waits for, for how long, and what it says if nobody is there."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from braidmq import clustering
from braidmq.clustering import Clustering, identity_of, open_cluster, settings_of
from braidmq.config import ClusterConfig, Config, GroupsConfig, Place, StoreConfig
from braidmq.errors import ConfigError
from braidmq.net.identity import NodeId
from braidmq.net.sockets import Poller
from braidmq.net.stream import Turn
from braidmq.net.tls import link_contexts
from tests.broker.world import World
from tests.net.certificates import Authority
from tests.support.broker import free_port
from tests.support.raw import TIMEOUT_S

SECRET = "sixteen bytes and more"


def config_of(directory: Path, name: str, **cluster: Any) -> Config:
    (directory / name).mkdir(exist_ok=True)
    told = {"listen": "127.0.0.1:0", "secret": SECRET, "node_name": name, "failure_s": 1} | cluster
    return Config(store=StoreConfig(data_dir=str(directory / name)), cluster=ClusterConfig(**told))


@asynccontextmanager
async def opened(config: Config) -> AsyncIterator[Clustering]:
    """A node without listeners for clients; it has yet to join."""
    turn = Turn(World().broker, asyncio.get_running_loop())
    poller = Poller(turn, 0.0)
    node = await open_cluster(config, turn, poller, link_contexts(config.cluster), lambda: None)
    try:
        yield node
    finally:
        await node.close()
        poller.close()
        turn.stop()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():
            await asyncio.sleep(0.01)


def names(node: Clustering) -> set[str]:
    """Who works together, as the node sees it."""
    return {each.name for each in node.operator.status().nodes if each.state == "live"}


async def test_who_has_no_seed_starts_and_who_has_one_finds_it(tmp_path: Path) -> None:
    async with opened(config_of(tmp_path, "north")) as north:
        await north.join()
        assert north.operator.why_not_ready is None
        async with opened(config_of(tmp_path, "east", join=(north.addresses[0],))) as east:
            assert east.operator.why_not_ready == "the node is joining"
            await east.join()
            await until(lambda: names(north) == names(east) == {"north", "east"})


@pytest.mark.parametrize(("ack", "waits"), [("local", False), ("peers", True)])
async def test_publishers_wait_for_other_nodes_where_the_configuration_says_so(
    tmp_path: Path, ack: str, waits: bool
) -> None:
    async with opened(config_of(tmp_path, "north", ack=ack)) as north:
        assert north.node.broker.hub.awaits_peers is waits


async def test_nodes_find_each_other_over_tls_with_certificates_on_both_sides(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.issue("node", "node.example")
    tls = {"certificate": str(files.certificate), "key": str(files.key), "ca": str(authority.path)}
    async with opened(config_of(tmp_path, "north", **tls)) as north:
        await north.join()
        async with opened(config_of(tmp_path, "east", join=(north.addresses[0],), **tls)) as east:
            await east.join()
            await until(lambda: names(north) == names(east) == {"north", "east"})


async def test_who_remembers_somebody_doesnt_wait_for_them(tmp_path: Path) -> None:
    async with opened(config_of(tmp_path, "north")) as north:
        await north.join()
        seed = north.addresses[0]
        async with opened(config_of(tmp_path, "east", join=(seed,))) as east:
            await east.join()
            await until(lambda: names(north) == {"north", "east"})
    async with opened(config_of(tmp_path, "east", join=(seed,))) as east:
        await east.join()  # nobody is there
        assert east.operator.status().nodes[0].boot == 2
        assert [(node.name, node.state) for node in east.operator.status().nodes[1:]] == [
            ("north", "dialling")
        ]


async def test_who_finds_its_own_address_among_the_seeds_may_be_the_first(tmp_path: Path) -> None:
    mine, other = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    async with opened(config_of(tmp_path, "north", listen=mine, join=(mine, other))) as north:
        await asyncio.wait_for(north.join(), TIMEOUT_S)
        assert names(north) == {"north"}
        async with opened(config_of(tmp_path, "east", listen=other, join=(mine, other))) as east:
            await east.join()
            await until(lambda: names(north) == names(east) == {"north", "east"})


async def test_nobody_at_the_seeds_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clustering, "JOIN_S", 0.2)
    seed = f"127.0.0.1:{free_port()}"
    async with opened(config_of(tmp_path, "north", join=(seed,))) as north:
        with pytest.raises(
            ConfigError, match=rf"nobody was met at {seed} .*; start one of them, or this node as"
        ):
            await north.join()
    async with opened(config_of(tmp_path, "east", discover="dns:no.such.host.invalid:7883")) as east:
        with pytest.raises(ConfigError, match=r"dns:no\.such\.host\.invalid:7883, which has no address"):
            await east.join()


async def test_a_name_is_asked_for_seeds(tmp_path: Path) -> None:
    async with opened(config_of(tmp_path, "north")) as north:
        await north.join()
        port = north.addresses[0].rpartition(":")[2]
        async with opened(config_of(tmp_path, "east", discover=f"dns:localhost:{port}")) as east:
            await east.join()
            await until(lambda: names(north) == {"north", "east"})


def test_a_node_is_known_by_its_name_and_where_it_can_be_reached() -> None:
    config = Config(cluster=ClusterConfig(listen="127.0.0.1:0"))
    me = identity_of(config, NodeId(0xABCD << 48, 7), [Place("127.0.0.1", 7883)])
    assert (me.boot, me.addresses, me.client_address, me.keeps) == (
        7,
        ("127.0.0.1:7883",),
        "127.0.0.1:1883",
        True,
    )
    assert me.name.endswith("-abcd")
    named = ClusterConfig(node_name="north", advertise="north.example:1", client_address="mqtt.example:1883")
    me = identity_of(Config(cluster=named), NodeId(1, 1), [Place("0.0.0.0", 7883)])
    assert (me.name, me.addresses, me.client_address) == ("north", ("north.example:1",), "mqtt.example:1883")
    me = identity_of(Config(), NodeId(1, 1), [Place("0.0.0.0", 7883)])
    assert not me.addresses[0].startswith("0.0.0.0")


async def test_rules_that_are_reloaded_are_compared_with_those_of_others(tmp_path: Path) -> None:
    async with opened(config_of(tmp_path, "north")) as north:
        await north.join()
        config = config_of(tmp_path, "east", join=(north.addresses[0],))
        async with opened(config) as east:
            await east.join()
            await until(lambda: names(north) == {"north", "east"})
            other = msgspec.structs.replace(config, groups=GroupsConfig(overflow="refuse"))
            east.rules_changed(other)
            await until(lambda: north.operator.status().warnings)
            north.rules_changed(other)
            await until(lambda: not north.operator.status().warnings + east.operator.status().warnings)


def test_other_rules_and_group_settings_have_another_digest(tmp_path: Path) -> None:
    config = Config(cluster=ClusterConfig(secret=SECRET))
    digest = settings_of(config).digest
    assert settings_of(config).digest == digest
    groups = msgspec.structs.replace(config, groups=GroupsConfig(policy="random"))
    assert settings_of(groups).digest != digest
