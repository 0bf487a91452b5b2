"""What one worker of `serve --workers N` is told by its supervisor (`workers`), and what that makes of its
configuration: a node of its own, in a cluster of the N, with its share of what they have together."""

import contextlib
import os
import select
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from braidmq.config import ClusterConfig, Config, StoreConfig, WorkersConfig
from braidmq.limits import MIB, Limits

VARIABLE: Final = "BRAIDMQ_WORKER"  # which tells a worker what it is
SHARED_LIMITS: Final = ("connections_max", "connecting_max", "sessions_max", "sessions_per_user_max")


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """Descriptors are inherited from the supervisor, which keeps them open for the next start."""

    index: int
    count: int
    listeners: tuple[int, ...]  # sockets at which clients connect, the same for all
    link: int  # the socket at which siblings connect
    siblings: tuple[str, ...]  # the addresses of these sockets, its own included
    doors: str  # the directory in which clients are passed from one to another
    secret: str
    ready: int  # a pipe: in which it tells where it listens, once it does
    lifeline: int  # a pipe that ends with the supervisor

    @property
    def name(self) -> str:
        return f"worker-{self.index}"

    def config_of(self, whole: Config) -> Config:
        """What this worker does of a configuration."""
        return msgspec.structs.replace(
            whole,
            limits=self._limits_of(whole.limits),
            store=self._store_of(whole.store),
            cluster=ClusterConfig(
                name="workers",
                secret=self.secret,
                listen=self.siblings[self.index],
                join=self.siblings,
                node_name=self.name,
            ),
            admin=whole.admin if self.index == 0 else msgspec.structs.replace(whole.admin, port=None),
            workers=WorkersConfig(),
        )

    def _limits_of(self, whole: Limits) -> Limits:
        shares = {name: -(-getattr(whole, name) // self.count) for name in SHARED_LIMITS}
        return msgspec.structs.replace(whole, **shares)

    def _store_of(self, whole: StoreConfig) -> StoreConfig:
        if whole.directory is None:
            return whole
        memory_bytes = max(MIB, whole.queue_memory_bytes_max // self.count)
        directory = str(whole.directory / self.name)
        return msgspec.structs.replace(whole, data_dir=directory, queue_memory_bytes_max=memory_bytes)

    def tell_ready(self, addresses: list[str]) -> None:
        """Let the supervisor know that clients may come."""
        with os.fdopen(self.ready, "wb") as pipe:
            pipe.write(msgspec.json.encode(addresses) + b"\n")

    def sweep(self) -> None:
        """The last of those whose supervisor was killed removes what it has left behind."""
        gone, _, _ = select.select([self.lifeline], [], [], 0)
        if gone:
            with contextlib.suppress(OSError):  # others are still there
                Path(self.doors).rmdir()


def worker_of(environment: Mapping[str, str]) -> Worker | None:
    """What this process is as a worker; None: it is none."""
    told = environment.get(VARIABLE)
    return msgspec.json.decode(told, type=Worker) if told is not None else None
