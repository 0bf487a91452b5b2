"""The broker processes: ours with a policy, or Mosquitto, each on a free port of this machine."""

import asyncio
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from braidmq.config import ENVIRONMENT_PREFIX
from braidmq.errors import BraidError, ConfigError
from braidmq.load.balance.plan import Contender

START_S: Final = 20.0
STOP_S: Final = 10.0
POLL_S: Final = 0.02
QUEUE_MESSAGES: Final = 100_000  # more than any trial has: what is lost is not lost for want of room

BRAIDMQ_CONFIG: Final = """\
[groups]
policy = "{policy}"
messages_max = {queue}

[limits]
queue_messages_max = {queue}
"""
MOSQUITTO_CONFIG: Final = """\
listener {port} 127.0.0.1
allow_anonymous true
persistence false
log_dest none
set_tcp_nodelay true
max_queued_messages {queue}
"""


def find_mosquitto() -> str | None:
    """Debian puts it where an ordinary user's PATH does not lead."""
    places = [os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]
    return shutil.which("mosquitto", path=os.pathsep.join(places))


@asynccontextmanager
async def broker(contender: Contender) -> AsyncIterator[str]:
    """Runs the contender's broker; where it listens."""
    with tempfile.TemporaryDirectory(prefix="braidmq-balance-") as directory:
        config = Path(directory, "broker.conf")
        port = _free_port()
        if contender.broker == "mosquitto":
            config.write_text(MOSQUITTO_CONFIG.format(port=port, queue=QUEUE_MESSAGES))
            command = [_mosquitto(), "-c", str(config)]
        else:
            config.write_text(BRAIDMQ_CONFIG.format(policy=contender.policy, queue=QUEUE_MESSAGES))
            command = [sys.executable, "-m", "braidmq", "serve", "--in-memory", "--port", str(port),
                       "--config", str(config)]  # fmt: skip
        async with _running(command, port, Path(directory, "log")):
            yield f"127.0.0.1:{port}"


def _mosquitto() -> str:
    program = find_mosquitto()
    if program is None:
        raise ConfigError("mosquitto isn't installed. On Debian: apt-get install mosquitto")
    return program


@asynccontextmanager
async def _running(command: Sequence[str], port: int, log: Path) -> AsyncIterator[None]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)}
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output, env=env
        )
    try:
        await _until_open(process, port, log)
        yield
    finally:
        await stop(process)


async def _until_open(process: asyncio.subprocess.Process, port: int, log: Path) -> None:
    try:
        async with asyncio.timeout(START_S):
            while process.returncode is None:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(POLL_S)
                else:
                    writer.transport.abort()
                    return
    except TimeoutError:
        pass
    raise BraidError(f"the broker didn't start: {log.read_text(errors='replace').strip()}")


async def stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_S)
    except TimeoutError:
        process.kill()
        await process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
