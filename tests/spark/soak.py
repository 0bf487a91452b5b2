"""Kills at random for some minutes, then counts: Spark, its workers, receivers and brokers.

    python -m tests.spark.soak --seconds 120 --seed 1 --broker braidmq      # or mosquitto, or all
    make soak

Two brokers, two receivers each, a real Spark into Parquet. Publishers wait for all acknowledgements and pause
while a broker is being killed, so that each acknowledged message must be in the table exactly once.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.spark.query import AttackedSparkQuery, DurableBroker, Publisher
from tests.spark.waiting import wait_for

EACH_MAX = 4_000
SETTLE_S = 300.0
VICTIMS = (
    "nobody",
    "receivers",
    "workers",
    "driver",
    "broker",
    "receivers+broker",
    "driver+broker",
    "everything",
)


class Soak:
    def __init__(self, kind: str, seed: int, folder: Path) -> None:
        self.random = random.Random(seed)
        self.brokers = [DurableBroker(kind) for _ in range(2)]
        self.publishers = [Publisher(f"soak/{number}") for number in range(2)]
        self.killed: Counter[str] = Counter()
        self.query = AttackedSparkQuery(
            folder,
            brokers=",".join(broker.address for broker in self.brokers),
            topicFilter="soak/#",
            subscribersPerBroker=2,
            receiveMaximum=2_000,
            maxOffsetsPerTrigger=20_000,
        )

    def run(self, seconds: float) -> None:
        self.wait_for_subscribers()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for broker, publisher in zip(self.brokers, self.publishers, strict=True):
                publisher.publish(broker.address, self.random.randrange(1, EACH_MAX), qos=1)
            self.attack(self.random.choice(VICTIMS))
            time.sleep(self.random.random() * 3)

    def wait_for_subscribers(self) -> None:
        for broker, publisher in zip(self.brokers, self.publishers, strict=True):
            publisher.wait_for_subscribers(broker.address, SETTLE_S)

    def attack(self, victims: str) -> None:
        self.killed[victims] += 1
        if "receivers" in victims or victims == "everything":
            self.query.kill_receivers()
        if "workers" in victims or victims == "everything":
            self.query.kill_workers()
        if "driver" in victims or victims == "everything":
            self.query.kill_driver()
            self.query.start()
        if "broker" in victims or victims == "everything":
            for broker in self.brokers:
                broker.kill()
                broker.start()
            self.wait_for_subscribers()

    def wanted(self) -> set[tuple[str, bytes]]:
        return {(publisher.topic, payload) for publisher in self.publishers for payload in publisher.wanted()}

    def verdict(self) -> str:
        """Empty if every message is there once."""
        wanted = self.wanted()
        wait_for(lambda: wanted <= self.query.rows().keys(), "every message", SETTLE_S)
        time.sleep(3.0)  # what came twice may still be on its way
        rows = self.query.rows()
        doubled = {row: count for row, count in rows.items() if count > 1}
        strange = rows.keys() - wanted
        return (
            f"doubled {len(doubled)}: {list(doubled)[:5]}; strange {len(strange)}"
            if doubled or strange
            else ""
        )

    def stop(self) -> None:
        self.query.stop()
        for broker in self.brokers:
            broker.stop()


def soak(kind: str, seed: int, seconds: float) -> bool:
    with tempfile.TemporaryDirectory(prefix="braidmq-soak-") as folder:
        under_attack = Soak(kind, seed, Path(folder))
        try:
            under_attack.run(seconds)
            fault = under_attack.verdict()
            attacks = dict(under_attack.killed)
            print(f"{kind}: {len(under_attack.wanted())} messages, {attacks}: {fault or 'each once'}")
        finally:
            under_attack.stop()
    return not fault


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--broker", choices=["braidmq", "mosquitto", "all"], default="all")
    asked = parser.parse_args()
    kinds = ["braidmq", "mosquitto"] if asked.broker == "all" else [asked.broker]
    results = [soak(kind, asked.seed, asked.seconds / len(kinds)) for kind in kinds]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
