"""How much memory the process has, as the operating system counts it."""

import resource
import sys
from pathlib import Path
from typing import Final

STATM: Final = Path("/proc/self/statm")  # sizes in pages: of the address space, then of what is in memory
PAGE_BYTES: Final = resource.getpagesize()
PEAK_UNIT_BYTES: Final = 1 if sys.platform == "darwin" else 1024


def memory_use() -> tuple[int, int]:
    """Bytes in memory now (0 where the system doesn't tell), and the most there ever were."""
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * PEAK_UNIT_BYTES
    try:
        pages = int(STATM.read_text().split()[1])
    except OSError:
        return 0, peak_bytes
    return pages * PAGE_BYTES, peak_bytes
