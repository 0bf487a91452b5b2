"""Kills, restarts and cuts at random, then counts: Spark, its workers, receivers, brokers and the network.

    python -m tests.spark.soak --seconds 3600 --seed 1 --broker braidmq      # or mosquitto, or all
    make soak

Two brokers, each behind a network that can be cut; a real Spark into Parquet with two receivers a broker, and
beside it a second query with a group of its own. The publishers are foreign clients (paho), every second
message says the same, and they wait for all acknowledgements before anything happens to a broker. So with our
broker each acknowledged message must be there exactly once, with Mosquitto at least once. Every pair of
victims comes up: the order is shuffled, and begins anew when all were there.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement
from pathlib import Path

from tests.faults import FaultProxy, FaultProxyThread
from tests.spark.query import AttackedQuery, AttackedSparkQuery, DurableBroker, Publisher, expect

EACH_MAX = 2_000
SETTLE_S = 600.0
PAUSE_S_MAX = 3.0


class Soak:
    def __init__(self, kind: str, seed: int, folder: Path) -> None:
        self.kind = kind
        self.random = random.Random(seed)
        self.brokers = [DurableBroker(kind) for _ in range(2)]
        self.networks = [FaultProxyThread("127.0.0.1", broker.port).__enter__() for broker in self.brokers]
        self.publishers = [Publisher(f"soak/{number}") for number in range(2)]
        self.attacks: Counter[str] = Counter()
        self.spark = AttackedSparkQuery(self._folder(folder, "spark"), **self._options("spark"))
        self.beside = AttackedQuery(self._folder(folder, "beside"), **self._options("beside"))

    def _folder(self, root: Path, name: str) -> Path:
        (root / name).mkdir()
        return root / name

    def _options(self, group: str) -> dict[str, object]:
        return {
            "brokers": ",".join(network.address for network in self.networks),
            "topicFilter": "soak/#",
            "group": group,
            "subscribersPerBroker": 2,
            "receiveMaximum": 2_000,
            "maxOffsetsPerTrigger": 20_000,
        }

    @property
    def victims(self) -> dict[str, Callable[[], object]]:
        return {
            "receivers": lambda: (self.spark.kill_receivers(), self.beside.kill_receivers()),
            "workers": self.spark.kill_workers,
            "spark": lambda: (self.spark.kill_driver(), self.spark.start()),
            "driver": lambda: (self.beside.kill_driver(), self.beside.start()),
            "broker": self.kill_brokers,
            "restart": self.restart_brokers,
            "network": self.cut,
        }

    def kill_brokers(self) -> None:
        for broker in self.brokers:
            broker.kill()
            broker.start()

    def restart_brokers(self) -> None:
        for broker in self.brokers:
            broker.restart()

    def cut(self) -> None:
        for network in self.networks:
            network.call(lambda faults: faults.cut_after(to_server=self.random.randrange(600, 5_000)))
            network.call(FaultProxy.cut)
            time.sleep(self.random.random())
            network.call(lambda faults: faults.cut_after(to_server=None))
            network.call(FaultProxy.cut)

    def run(self, seconds: float) -> None:
        self.beside.wait_until_receiving(4, SETTLE_S)
        self.spark.wait_until_receiving(4, SETTLE_S)
        deadline = time.monotonic() + seconds
        pairs = self.pairs()
        while time.monotonic() < deadline:
            for broker, publisher in zip(self.brokers, self.publishers, strict=True):
                qos = self.random.choice((1, 2))
                publisher.publish(broker.address, self.random.randrange(1, EACH_MAX), qos)
            self.attack(*next(pairs))
            time.sleep(self.random.random() * PAUSE_S_MAX)

    def pairs(self) -> Iterator[tuple[str, str]]:
        while True:
            every = list(combinations_with_replacement(self.victims, 2))
            self.random.shuffle(every)
            yield from every

    def attack(self, *chosen: str) -> None:
        self.attacks["+".join(dict.fromkeys(chosen))] += 1
        began = time.time()
        for victim in dict.fromkeys(chosen):
            self.victims[victim]()
        if self.kind == "mosquitto" and {"broker", "restart"} & set(chosen):
            # It forgets shared subscriptions; what comes before they are there again reaches nobody.
            self.spark.wait_until_receiving(4, SETTLE_S, since=began)
            self.beside.wait_until_receiving(4, SETTLE_S, since=began)

    def check(self) -> int:
        """AssertionError unless everything is there; how many messages that is."""
        wanted = self.publishers[0].wanted + self.publishers[1].wanted
        for query in (self.spark, self.beside):
            expect(query, wanted, exact=self.kind == "braidmq", timeout_s=SETTLE_S)
        return wanted.total()

    def stop(self) -> None:
        self.spark.stop()
        self.beside.stop()
        for network in self.networks:
            network.__exit__(None, None, None)
        for broker in self.brokers:
            broker.stop()


def soak(kind: str, seed: int, seconds: float) -> bool:
    with tempfile.TemporaryDirectory(prefix="braidmq-soak-") as folder:
        under_attack = Soak(kind, seed, Path(folder))
        try:
            under_attack.run(seconds)
            count = under_attack.check()
        except AssertionError as fault:
            print(f"{kind}: {fault}; attacks: {dict(under_attack.attacks)}")
            return False
        finally:
            under_attack.stop()
    promise = "each once" if kind == "braidmq" else "none lost"
    print(f"{kind}: {count} messages, {under_attack.attacks.total()} attacks, two queries: {promise}")
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--broker", choices=["braidmq", "mosquitto", "all"], default="all")
    asked = parser.parse_args()
    kinds = ["braidmq", "mosquitto"] if asked.broker == "all" else [asked.broker]
    results = [soak(kind, asked.seed, asked.seconds / len(kinds)) for kind in kinds]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
