"""The commands of docs/operating.md make a cluster, word for word but for the ports."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests.cli.program import environment
from tests.cluster.live.nodes import until
from tests.support.broker import free_port

PAGE = Path(__file__).parents[3] / "docs" / "operating.md"
PORTS = ("1883", "1884", "1885", "7883", "9883")
TIMEOUT_S = 60.0


class Shell:
    """Runs lines of a page in a directory, with other ports."""

    def __init__(self, directory: Path) -> None:
        self.ports = {port: str(free_port()) for port in PORTS}
        self.running: list[subprocess.Popen[bytes]] = []
        self._directory = directory
        self._env = environment()

    def run(self, line: str) -> subprocess.Popen[bytes] | None:
        words = re.sub(r"\b(1883|1884|1885|7883|9883)\b", lambda found: self.ports[found[0]], line)
        words = re.sub(r"^braidmq ", f"exec {sys.executable} -m braidmq ", words)
        if words.startswith("export "):
            name, _, value = words.removeprefix("export ").partition("=")
            self._env[name] = value
        elif words.endswith(" &"):
            self.running.append(self._start(words.removesuffix(" &")))
            return self.running[-1]
        else:
            assert self._start(words).wait(TIMEOUT_S) == 0, line
        return None

    def _start(self, words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["/bin/sh", "-c", words], cwd=self._directory, env=self._env, stdout=subprocess.PIPE
        )

    def ask(self, path: str) -> list[dict[str, str]]:
        try:
            found = httpx.get(f"http://127.0.0.1:{self.ports['9883']}{path}", timeout=20)
        except httpx.TransportError:
            return []
        nodes: list[dict[str, str]] = found.json()["nodes"]
        return nodes

    def stop(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.terminate()
            process.communicate(timeout=TIMEOUT_S)


def blocks(heading: str) -> Iterator[list[str]]:
    text = PAGE.read_text().partition(heading)[2].partition("\n### ")[0]
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        yield block.replace("\\\n", " ").splitlines()


def test_three_nodes_by_hand(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    start, use = blocks("### Three nodes by hand")
    try:
        for line in start:
            if "cluster status" in line:
                until(
                    lambda: [node["state"] for node in shell.ask("/cluster")] == ["live"] * 3, "all are there"
                )
            shell.run(line)
        subscriber = shell.run(use[0])
        assert subscriber is not None
        until(lambda: shell.ask("/cluster/routes?topic=plant/news"), "somebody has subscribed")
        shell.run(use[1])
        assert subscriber.communicate(timeout=TIMEOUT_S)[0] == b"hello\n"
    finally:
        shell.stop()


def test_certificates_by_hand_fit_together(tmp_path: Path) -> None:
    from braidmq.config import ClusterConfig
    from braidmq.net.tls import link_contexts

    shell = Shell(tmp_path)
    (lines,) = blocks("### On several machines")
    for line in lines:
        shell.run(line)
    names = {"certificate": "node.pem", "key": "node.key", "ca": "cluster-ca.pem"}
    (tmp_path / "node.key").chmod(0o600)
    files = {key: str(tmp_path / name) for key, name in names.items()}
    assert link_contexts(ClusterConfig(**files)) is not None  # type: ignore[arg-type]
