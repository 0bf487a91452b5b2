"""Where other nodes are: what was named, what a name resolves to, and which of it is this node itself."""

import asyncio

from braidmq.config import Place
from braidmq.net.discovery import Seeds, address_towards, is_of_this_machine, resolved

NAMES = {"brokers": ["192.0.2.10", "192.0.2.11", "127.0.0.1"], "here": ["127.0.0.1"], "far": ["192.0.2.12"]}


async def resolve(place: Place) -> list[Place]:
    if place.host not in NAMES:
        raise OSError(-2, "Name or service not known")
    return [Place(host, place.port) for host in NAMES[place.host]]


def find(seeds: Seeds) -> list[str]:
    return asyncio.run(seeds.find())


def test_the_places_that_were_named_are_found_by_their_names() -> None:
    seeds = Seeds(["far:7883", "absent:7883"], None, [Place("127.0.0.1", 7883)], resolve)
    assert find(seeds) == ["far:7883", "absent:7883"]
    assert not seeds.includes_us


def test_this_node_is_no_seed_of_its_own_however_it_is_named() -> None:
    for named in ("127.0.0.1:7883", "here:7883"):
        seeds = Seeds([named, "far:7883"], None, [Place("127.0.0.1", 7883)], resolve)
        assert find(seeds) == ["far:7883"]
        assert seeds.includes_us


def test_another_port_of_this_machine_is_another_node() -> None:
    seeds = Seeds(["here:7884"], None, [Place("127.0.0.1", 7883)], resolve)
    assert find(seeds) == ["here:7884"]
    assert not seeds.includes_us


def test_what_is_advertised_is_this_node_too() -> None:
    seeds = Seeds(["far:7883"], None, [Place("10.0.0.1", 1), Place("far", 7883)], resolve)
    assert find(seeds) == []
    assert seeds.includes_us


def test_a_name_stands_for_all_its_addresses_but_our_own() -> None:
    seeds = Seeds([], Place("brokers", 7883), [Place("127.0.0.1", 7883)], resolve)
    assert find(seeds) == ["192.0.2.10:7883", "192.0.2.11:7883"]
    assert seeds.includes_us


def test_a_name_that_cant_be_resolved_is_nobody_for_now() -> None:
    assert find(Seeds([], Place("absent", 7883), [Place("127.0.0.1", 7883)], resolve)) == []


def test_the_system_resolves_names_and_knows_its_own_addresses() -> None:
    assert Place("127.0.0.1", 7883) in asyncio.run(resolved(Place("localhost", 7883)))
    assert is_of_this_machine("127.0.0.1")
    assert not is_of_this_machine("192.0.2.1")
    assert address_towards("127.0.0.1") == "127.0.0.1"
