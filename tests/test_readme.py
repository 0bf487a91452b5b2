"""The README's program does what the README shows."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support.broker import start_braidmq

README = Path(__file__).parent.parent / "README.md"


def test_the_python_of_the_readme_runs() -> None:
    [program] = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert "localhost:1883" in program
    broker = start_braidmq()
    try:
        here = program.replace("localhost:1883", f"127.0.0.1:{broker.port}")
        done = subprocess.run([sys.executable, "-c", here], capture_output=True, timeout=60, check=False)
    finally:
        broker.stop()
    assert (done.stdout, done.stderr) == (b"plant/line-1/temperature 21.5\n", b"")
