"""The generator in a process of its own, pinned to its core: an Errand as JSON in, a Result as JSON out.

python -m bench.worker < errand.json
"""

import os
import sys
from pathlib import Path

import msgspec

from braidmq.errors import BraidError
from braidmq.load.case import Case
from braidmq.load.generator import run

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Errand(msgspec.Struct, frozen=True):
    """A load, and the processes whose use of the machine is to be noted."""

    case: Case
    broker_pid: int
    other_pids: tuple[int, ...] = ()  # of other nodes; what is noted of the n-th has :n behind its name


def process_use(pid: int) -> dict[str, float]:
    """CPU time, time spent waiting for a CPU, and memory of a process, from the kernel's own counts."""
    cpu_ns = waited_ns = 0
    for schedule in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        on_cpu, waiting, _ = schedule.read_text().split()
        cpu_ns += int(on_cpu)
        waited_ns += int(waiting)
    resident_pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return {"cpu_s": cpu_ns / 1e9, "waited_s": waited_ns / 1e9, "resident_bytes": resident_pages * PAGE_BYTES}


def probe(errand: Errand) -> dict[str, float]:
    own = process_use(os.getpid())
    found = process_use(errand.broker_pid) | {"generator_waited_s": own["waited_s"]}
    for number, pid in enumerate(errand.other_pids):
        found |= {f"{name}:{number}": value for name, value in process_use(pid).items()}
    return found


def main() -> int:
    errand = msgspec.json.decode(sys.stdin.buffer.read(), type=Errand)
    try:
        result = run(errand.case, lambda: probe(errand))
    except (BraidError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
