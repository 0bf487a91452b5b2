"""Hold the stubs of the compiled modules to the modules themselves, with mypy's stubtest.

`python -m tools.check_stubs`, as `make check` does. What stubtest can't see in a Cython module is excused
below, with the reason.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).parent.parent / "src"

OPTIONS: Final = (
    "--concise", "--ignore-missing-stub", "--ignore-positional-only", "--ignore-disjoint-bases",
    "--ignore-unused-allowlist",
)

# Regular expressions of names.
EXCUSED: Final = {
    r".*\.__init__": "Cython shows no signature of __cinit__",
    r".*\.__buffer__": "a slot of the type, which has no name before Python 3.12",
    r"braidmq\.broker\.router\.(FilterListener|Remote)": "a type for the checker alone",
    r"braidmq\.broker\.publishing\.Remote": "a type for the checker alone",
    r"braidmq\.broker\.peer_lane\.Joint": "a type for the checker alone",
    r"braidmq\.wire\.scan\.PublishScan": "a type for the checker alone",
    r"braidmq\.spark\._columns\.Identity": "a type for the checker alone",
}


def compiled_modules() -> list[str]:
    stubs = sorted(SOURCE.rglob("*.pyi"))
    return [".".join(stub.relative_to(SOURCE).with_suffix("").parts) for stub in stubs]


def main() -> int:
    with tempfile.NamedTemporaryFile("w", suffix=".allow") as allowed:
        allowed.write("\n".join(EXCUSED))
        allowed.flush()
        stubtest = [sys.executable, "-m", "mypy.stubtest", *OPTIONS, "--allowlist", allowed.name]
        return subprocess.run([*stubtest, *compiled_modules()], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
