"""One trial, live: a broker, a process for each member, and a publisher that keeps to the planned times."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from sys import executable
from typing import Final

import msgspec

from braidmq.client import Client, ClientError
from braidmq.errors import BraidError
from braidmq.load.balance import records
from braidmq.load.balance.brokers import STOP_S, broker, stop
from braidmq.load.balance.member import READY, MemberSpec, precise_loop, sleep_until
from braidmq.load.balance.outcome import Run
from braidmq.load.balance.plan import Contender, Trial

TOPIC: Final = "balance/work"
GROUP: Final = "workers"
LEAD_S: Final = 0.3  # from everybody being ready to the first message
READY_S: Final = 30.0
POLL_S: Final = 0.1
QUIET_S: Final = 4.0  # what has not been worked on when nothing was for so long is lost
DRAIN_MAX_S: Final = 60.0


def run_trial(trial: Trial, contender: Contender) -> Run:
    with asyncio.Runner(loop_factory=precise_loop) as runner:
        return runner.run(_run(trial, contender))


async def _run(trial: Trial, contender: Contender) -> Run:
    with tempfile.TemporaryDirectory(prefix="braidmq-balance-") as directory:
        paths = [Path(directory, f"member-{index}") for index in range(len(trial.scenario.members))]
        for path in paths:
            path.touch()
        async with AsyncExitStack() as stack:
            address = await stack.enter_async_context(broker(contender))
            specs = [_spec(trial, contender, address, index, path) for index, path in enumerate(paths)]
            crew = [await stack.enter_async_context(_member(spec)) for spec in specs]
            async with asyncio.timeout(READY_S):
                await asyncio.gather(*(_ready(process) for process in crew))
            publisher = await stack.enter_async_context(Client(address, client_id="publisher", status=None))
            start_s = asyncio.get_running_loop().time() + LEAD_S
            for process in crew:
                _tell(process, f"{start_s!r}\n".encode())
            sent_s = await _publish(publisher, trial, contender.qos, start_s)
            await _drained(paths, len(sent_s))
        noted = [records.unpack(path.read_bytes()) for path in paths]
    return Run(start_s, sent_s, noted)


def _spec(trial: Trial, contender: Contender, address: str, index: int, path: Path) -> MemberSpec:
    return MemberSpec(
        address=address,
        client_id=f"member-{index}",
        filter=f"$share/{GROUP}/{TOPIC}",
        qos=contender.qos,
        model=trial.scenario.members[index],
        record_path=str(path),
        status=contender.status,
        session_expiry_s=trial.session_expiry_s,
        dies_after_s=next((death.after_s for death in trial.deaths if death.member == index), None),
    )


@asynccontextmanager
async def _member(spec: MemberSpec) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        executable, "-m", "braidmq.load.balance.member",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        _tell(process, msgspec.json.encode(spec) + b"\n")
        yield process
        assert process.stdin is not None
        process.stdin.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), STOP_S)
    finally:
        await stop(process)


def _tell(process: asyncio.subprocess.Process, line: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(line)


async def _ready(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    if await process.stdout.readline() != READY:
        raise BraidError("a member of the group did not start")


async def _publish(client: Client, trial: Trial, qos: int, start_s: float) -> list[float]:
    """When each message was handed to the socket. No answer is waited for before the next one goes out."""
    now = asyncio.get_running_loop().time
    sent_s: list[float] = []
    answers: list[asyncio.Task[object]] = []
    for number, planned_s in enumerate(trial.scenario.publish_s):
        await sleep_until(start_s + planned_s)
        sent_s.append(now())
        answers.append(asyncio.create_task(client.publish(TOPIC, records.payload(number), qos=qos)))
    for answer in await asyncio.gather(*answers, return_exceptions=True):
        if isinstance(answer, BaseException) and not isinstance(answer, ClientError):
            raise answer  # a message that the broker refused counts as lost
    return sent_s


async def _drained(paths: Sequence[Path], messages: int) -> None:
    """Until every message was worked on, or nothing has happened for a while."""
    now = asyncio.get_running_loop().time
    until_s, quiet_since_s, before = now() + DRAIN_MAX_S, now(), -1
    while now() < until_s and now() - quiet_since_s < QUIET_S:
        done = sum(path.stat().st_size for path in paths) // records.RECORD_BYTES
        if done >= messages and len(_numbers(paths)) >= messages:
            return
        if done != before:
            before, quiet_since_s = done, now()
        await asyncio.sleep(POLL_S)


def _numbers(paths: Sequence[Path]) -> set[int]:
    return {record.number for path in paths for record in records.unpack(path.read_bytes())}
