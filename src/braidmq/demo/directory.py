"""Where the demo leaves its tables: made anew at every run, and never in the place of something else."""

import shutil
from pathlib import Path
from typing import Final

from braidmq.errors import ConfigError

MARKER: Final = ".braidmq-demo"


def prepare(directory: Path) -> Path:
    """An empty directory that is ours; ConfigError if there is something that isn't."""
    if directory.exists() and not directory.is_dir():
        raise ConfigError(f"{directory} is no directory")
    if directory.is_dir() and any(directory.iterdir()):
        if not (directory / MARKER).exists():
            raise ConfigError(f"{directory} holds something that no demo has made; --data-dir names another")
        shutil.rmtree(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / MARKER).touch()
    return directory
