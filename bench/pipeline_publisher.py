"""A publishing process of the pipeline's benchmark: some connections, paced or as fast as they are taken.

    python -m bench.pipeline_publisher     # the task as one line of JSON on stdin, the result on stdout

Every message says when it was due; paced, that is the plan's time and not when it got out, so that a stall is
charged to all the messages that it held up. Messages are JSON, filled up to the size that is asked for.
"""

import sys
import time

import msgspec

from braidmq.client import BlockingClient, publish_patiently
from braidmq.errors import BraidError
from braidmq.wire import Publish

AT_US_DIGITS = slice(9, 25)  # where the time stands in a payload
BURST = 100  # messages at once of a connection that isn't paced
TICK_S = 0.01
PATIENCE_S = 60.0


class PublisherTask(msgspec.Struct, frozen=True, kw_only=True):
    broker: str
    name: str
    connections: int
    seconds: float
    start_us: int
    rate_per_s: float | None  # of the process; None: as fast as possible
    payload_bytes: int
    qos: int = 1


class PublisherResult(msgspec.Struct, frozen=True, kw_only=True):
    acknowledged: int
    refused: int
    seconds: float
    behind_s: float  # at the end, of a paced one


def payload(at_us: int, size_bytes: int) -> bytes:
    body = b'{"at_us":%d,"value":21.5,"pad":"' % at_us
    return body + b"x" * (size_bytes - len(body) - 2) + b'"}'


class Publisher:
    def __init__(self, task: PublisherTask) -> None:
        self._task = task
        self._clients = [BlockingClient(task.broker) for _ in range(task.connections)]
        self._sent = self._refused = 0

    def run(self) -> PublisherResult:
        for client in self._clients:
            client.open()
        task = self._task
        time.sleep(max(0.0, task.start_us / 1e6 - time.time()))
        began = time.monotonic()
        if task.rate_per_s is None:
            self._flood(began + task.seconds)
        else:
            self._keep_pace(task.rate_per_s)
        seconds = time.monotonic() - began
        for client in self._clients:
            client.close()
        return PublisherResult(
            acknowledged=self._sent - self._refused,
            refused=self._refused,
            seconds=seconds,
            behind_s=max(0.0, seconds - task.seconds) if task.rate_per_s else 0.0,
        )

    def _flood(self, until: float) -> None:
        while time.monotonic() < until:
            for number, client in enumerate(self._clients):
                now_us = time.time_ns() // 1_000
                self._publish(client, number, [now_us] * BURST)

    def _keep_pace(self, rate_per_s: float) -> None:
        task = self._task
        total = int(rate_per_s * task.seconds)
        while self._sent < total:
            due = min(total, int((time.time() - task.start_us / 1e6) * rate_per_s))
            if due <= self._sent:
                time.sleep(TICK_S)
                continue
            stamps = [task.start_us + int(n / rate_per_s * 1e6) for n in range(self._sent, due)]
            share = -(-len(stamps) // len(self._clients))
            for number, client in enumerate(self._clients):
                self._publish(client, number, stamps[number * share : (number + 1) * share])

    def _publish(self, client: BlockingClient, number: int, stamps: list[int]) -> None:
        task = self._task
        topic = f"bench/{task.name}-{number}"
        packets = [Publish(topic, payload(at_us, task.payload_bytes), task.qos) for at_us in stamps]
        outcomes = publish_patiently(client, packets, PATIENCE_S)
        self._sent += len(packets)
        self._refused += sum(isinstance(outcome, BraidError) for outcome in outcomes)


if __name__ == "__main__":
    wanted = msgspec.json.decode(sys.stdin.buffer.readline(), type=PublisherTask)
    sys.stdout.buffer.write(msgspec.json.encode(Publisher(wanted).run()) + b"\n")
