"""Real nodes: processes of one cluster on 127.0.0.1, whose data directories outlive them."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.cli.program import command, environment
from tests.support.broker import free_port

SECRET = "a secret of sixteen bytes and more"
WAIT_S = 40.0
POLL_S = 0.02


def until(condition: Callable[[], object], what: str = "it") -> None:
    """Wait for a condition."""
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise AssertionError(f"{what} has not happened")
        time.sleep(POLL_S)


class LiveNode:
    """One node, which may be stopped and started again on its ports."""

    def __init__(
        self, directory: Path, name: str, *seeds: "LiveNode", secret: str = SECRET, failure_s: int = 2
    ) -> None:
        self.name = name
        self.port, self.link_port, self.admin_port = free_port(), free_port(), free_port()
        self.directory = directory
        self.log_path = directory / f"{name}.log"
        joins = [word for seed in seeds for word in ("--join", seed.address)]
        self.flags = [
            "--port", str(self.port), "--data-dir", str(directory / name), "--node-name", name,
            "--cluster-listen", self.address, "--admin-port", str(self.admin_port), *joins,
            # On a busy machine nodes are silent for a while, and SUBACKs take their time.
            "--set", f"cluster.failure_s={failure_s}", "--set", "cluster.suback_wait_ms=10000",
        ]  # fmt: skip
        self.env = {"BRAIDMQ_CLUSTER_SECRET": secret}
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.link_port}"

    def start(self, *more: str) -> "LiveNode":
        """Start it; `until(node.is_up)` waits until clients may come."""
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                command("serve", *self.flags, *more),
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env=environment(self.env),
            )
        return self

    def kill(self) -> None:
        """As a crash does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def ask(self, method: str, path: str) -> Any:
        return httpx.request(method, f"http://127.0.0.1:{self.admin_port}{path}", timeout=20).json()

    def is_up(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"{self.name} has ended:\n{self.log()}")
        try:
            return httpx.get(f"http://127.0.0.1:{self.admin_port}/ready", timeout=20).status_code == 200
        except httpx.TransportError:
            return False

    def states(self) -> dict[str, str]:
        """What it sees: name -> state."""
        return {node["name"]: node["state"] for node in self.ask("GET", "/cluster")["nodes"]}

    def sees(self, **states: str) -> bool:
        return states.items() <= self.states().items()


@contextmanager
def cluster_of(directory: Path, *names: str, failure_s: int = 2) -> Iterator[list[LiveNode]]:
    """Nodes that are up and see each other; all but the first were told of the first alone."""
    nodes: list[LiveNode] = []
    try:
        for name in names:
            nodes.append(LiveNode(directory, name, *nodes[:1], failure_s=failure_s).start())
        for node in nodes:
            until(node.is_up, f"{node.name} is up")
        meet(nodes)
        yield nodes
    finally:
        for node in nodes:
            if node.process is not None:
                node.stop()


def meet(nodes: list[LiveNode]) -> None:
    """Wait until all see all."""
    live = {node.name: "live" for node in nodes}
    for node in nodes:
        until(lambda node=node: node.sees(**live), f"{node.name} sees all")  # type: ignore[misc]
