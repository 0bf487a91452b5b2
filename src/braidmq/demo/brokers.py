"""The demo's brokers: two nodes of a cluster, of which one is killed in the middle and comes back."""

import os
import secrets
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, Self

from braidmq.demo.processes import Child, broker_process, free_port

SECRET_FILE: Final = "cluster.secret"
# A killed broker comes back within this, so the other one waits for it: nothing it holds is given to others.
FAILURE_S: Final = 60


class DemoBroker:
    """A broker process, at the same address and with the same directory each time it is started."""

    def __init__(self, directory: Path, name: str, links: list[int], number: int) -> None:
        self.name = name
        self._log = directory / f"{name}.log"
        self._port = free_port()
        others = [f"127.0.0.1:{port}" for port in links[:number]]
        self._flags = [
            *("--port", str(self._port), "--data-dir", str(directory / name), "--node-name", name),
            # The check holds the tables to what was acknowledged: a full group has to say no, not to drop.
            *("--set", "groups.overflow=refuse"),
            *("--cluster-listen", f"127.0.0.1:{links[number]}"),
            *("--cluster-secret-file", str(directory / SECRET_FILE)),
            *("--set", f"cluster.failure_s={FAILURE_S}"),
            *(flag for other in others for flag in ("--join", other)),
        ]
        self._running = AsyncExitStack()
        self._process: Child | None = None
        self.address = ""

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self._running.aclose()

    async def _start(self) -> None:
        process = broker_process(self.name, self._log, *self._flags)
        self.address, self._process = await self._running.enter_async_context(process)

    async def crash(self) -> None:
        """It is killed, without a word to anybody."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        await self._running.aclose()

    async def come_back(self) -> None:
        """It starts again from what it has kept."""
        await self._start()


def make_brokers(directory: Path, count: int) -> list[DemoBroker]:
    """Brokers that know of each other and share a secret, none of them started."""
    secret = directory / SECRET_FILE
    secret.touch(0o600)
    secret.write_text(secrets.token_hex(32))
    links = [free_port() for _ in range(count)]
    return [DemoBroker(directory, f"broker-{number + 1}", links, number) for number in range(count)]
