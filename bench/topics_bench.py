"""What a match costs in a trie of up to a million filters, against a trie of dicts; and what finds cost.

H is a hierarchy of buildings: site(50)/bld(20)/floor(10)/room(40)/dev(50)/metric(10); half of the filters are
plain, 30 % have `+` in one or two levels, 20 % end in `#` after one to five levels. Topics are plain paths.
R has one to eight levels out of 200 words each, `+` in every tenth level and `#` after every tenth filter;
its topics are filters with their wildcards filled in. Filters are distinct. Each filter's value is an object
of its own, so that a match pays for touching it, and more topics are asked for than the caches can hold.
Times are CPU times, calls from Python included; memory is without the values.

python bench/topics_bench.py [--filters 1000000] [--json FILE]
"""

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from braidmq.topics import FilterTrie, TopicTree

H_LEVELS = {"site": 50, "bld": 20, "floor": 10, "room": 40, "dev": 50, "metric": 10}
R_WORDS, R_LEVELS_MAX = 200, 8
SIZES = (6_000, 100_000, 1_000_000)
TOPICS = 20_000
RETAINED = 100_000
FINDS = (b"#", b"+/+/+/+/+/+", b"+/+/+/+/dev1/metric1", b"site1/#", b"site1/+/floor1/room1/+/metric1")
ROUNDS = 9


def hierarchy_path(rng: random.Random) -> list[str]:
    return [f"{name}{rng.randrange(count)}" for name, count in H_LEVELS.items()]


def hierarchy_filter(rng: random.Random, index: int) -> str:
    path, kind = hierarchy_path(rng), index % 10
    if kind < 3:
        for level in rng.sample(range(len(path)), rng.randint(1, 2)):
            path[level] = "+"
    elif kind < 5:
        path[rng.randint(1, 5) :] = ["#"]
    return "/".join(path)


def hierarchy_topic(rng: random.Random, filters: list[bytes]) -> bytes:
    return "/".join(hierarchy_path(rng)).encode()


def random_filter(rng: random.Random, index: int) -> str:
    levels = rng.randint(1, R_LEVELS_MAX)
    path = ["+" if rng.random() < 0.1 else f"w{rng.randrange(R_WORDS)}" for _ in range(levels)]
    return "/".join(path + ["#"] * (index % 10 == 0))


def random_topic(rng: random.Random, filters: list[bytes]) -> bytes:
    levels = rng.choice(filters).split(b"/")
    return b"/".join(b"w%d" % rng.randrange(R_WORDS) if level in b"+#" else level for level in levels)


WORKLOADS = {"H": (hierarchy_filter, hierarchy_topic), "R": (random_filter, random_topic)}


def distinct_filters(make: Callable[[random.Random, int], str], size: int, rng: random.Random) -> list[bytes]:
    found: dict[str, None] = {}
    while len(found) < size:
        found[make(rng, len(found))] = None
    return [text.encode() for text in found]


class DictTrie:
    """The usual trie of dicts, for comparison; under None it has its value."""

    def __init__(self) -> None:
        self.root: dict[bytes | None, Any] = {}

    def set(self, filter: bytes, value: object) -> None:
        node = self.root
        for level in filter.split(b"/"):
            node = node.setdefault(level, {})
        node[None] = value

    def match(self, topic: bytes) -> list[Any]:
        nodes, result = [self.root], []
        for level in topic.split(b"/"):
            result += [node[b"#"][None] for node in nodes if b"#" in node]
            nodes = [node[key] for node in nodes for key in (level, b"+") if key in node]
        result += [node[None] for node in nodes if None in node]
        return result + [node[b"#"][None] for node in nodes if b"#" in node]

    @property
    def memory_bytes(self) -> int:
        memory_bytes, nodes = 0, [self.root]
        while nodes:
            node = nodes.pop()
            levels = [level for level in node if level is not None]
            memory_bytes += sys.getsizeof(node) + sum(map(sys.getsizeof, levels))
            nodes += [node[level] for level in levels]
        return memory_bytes


def median_ns(run: Callable[[], object], times: int) -> float:
    """Nanoseconds for one of the `times` things that a run does, the median of several runs."""
    rounds = []
    for _ in range(ROUNDS):
        started = time.process_time_ns()
        run()
        rounds.append((time.process_time_ns() - started) / times)
    return statistics.median(rounds)


def measure_trie(trie: Any, filters: list[bytes], topics: list[bytes]) -> dict[str, float]:
    def match_all() -> int:
        found = 0
        for topic in topics:
            found += len(trie.match(topic))
        return found

    started = time.process_time_ns()
    for filter in filters:
        trie.set(filter, filter)
    return {
        "set_ns": (time.process_time_ns() - started) / len(filters),
        "match_ns": median_ns(match_all, len(topics)),
        "matches_mean": match_all() / len(topics),
        "bytes_per_filter": trie.memory_bytes / len(filters),
    }


def measure_size(workload: str, size: int, seed: int, *, with_dicts: bool) -> dict[str, Any]:
    """FilterTrie, and a trie of dicts if wanted, with `size` filters of a workload."""
    rng = random.Random(seed)
    make_filter, make_topic = WORKLOADS[workload]
    filters = distinct_filters(make_filter, size, rng)
    topics = [make_topic(rng, filters) for _ in range(TOPICS)]
    result: dict[str, Any] = {"workload": workload, "filters": size}
    result["trie"] = measure_trie(FilterTrie(), filters, topics)
    if with_dicts:
        result["dict_trie"] = measure_trie(DictTrie(), filters, topics)
    return result


def measure_tree(size: int, seed: int) -> dict[str, Any]:
    """TopicTree with `size` topics of workload H."""
    rng = random.Random(seed)
    topics = distinct_filters(lambda rng, _: "/".join(hierarchy_path(rng)), size, rng)
    tree = TopicTree()
    for topic in topics:
        tree.set(topic, topic)
    finds = [
        {"filter": filter.decode(), "found": len(tree.find(filter)), "find_us": find_us}
        for filter in FINDS
        for find_us in [median_ns(lambda filter=filter: tree.find(filter), 1) / 1e3]  # type: ignore[misc]
    ]
    return {"topics": size, "bytes_per_topic": tree.memory_bytes / size, "finds": finds}


def measure(filters_max: int = SIZES[-1], seed: int = 1, *, with_dicts: bool = True) -> dict[str, Any]:
    """Everything, for tries of up to `filters_max` filters."""
    sizes = sorted({*(size for size in SIZES if size < filters_max), filters_max})
    runs = [(workload, size) for workload in WORKLOADS for size in sizes]
    return {
        "tries": [measure_size(workload, size, seed, with_dicts=with_dicts) for workload, size in runs],
        "tree": measure_tree(min(RETAINED, filters_max), seed),
    }


def table(figures: dict[str, Any]) -> str:
    lines = [f"{'':12}{'filters':>10}{'match':>10}{'set':>10}{'matches':>9}{'memory':>14}"]
    for run in figures["tries"]:
        for name in ("trie", "dict_trie"):
            if name in run:
                row = run[name]
                match_us, set_us = row["match_ns"] / 1e3, row["set_ns"] / 1e3
                lines.append(
                    f"{run['workload']} {name:10}{run['filters']:10,}{match_us:7.2f} µs{set_us:7.2f} µs"
                    f"{row['matches_mean']:9.1f}{row['bytes_per_filter']:5.0f} B/filter"
                )
    tree = figures["tree"]
    lines.append(f"\nTopicTree, {tree['topics']:,} topics, {tree['bytes_per_topic']:.0f} B/topic")
    lines += [f"{find['filter']:32}{find['found']:9,}{find['find_us']:12,.1f} µs" for find in tree["finds"]]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filters", type=int, default=SIZES[-1], help="size of the largest trie")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    figures = measure(options.filters)
    print(table(figures))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
