"""Plug-ins for tests: packages as pip would leave them, without pip."""

from pathlib import Path


def install(directory: Path, group: str, module: str, entries: str, code: str) -> None:
    """A module, and what its package offers in an entry point group: `name = module:attribute` lines."""
    (directory / f"{module}.py").write_text(code)
    information = directory / f"{module}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[{group}]\n{entries}\n")
