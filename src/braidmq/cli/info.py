"""`braidmq info`: what is installed here, for a bug report or a quick look."""

import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

import braidmq

PACKAGE = Path(braidmq.__file__).parent
LIBRARIES = ("uvloop", "msgspec", "cyclopts", "rich", "structlog")


JsonFlag = Annotated[bool, Parameter(name="--json", negative=(), help="Print JSON.")]


def info(*, as_json: JsonFlag = False) -> None:
    """Show the version, the interpreter and the compiled modules."""
    facts = collect()
    if as_json:
        print(msgspec.json.encode(facts).decode())
        return
    for name, value in facts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {version}" for key, version in value.items())
        elif isinstance(value, list):
            value = ", ".join(value) or "none"
        print(f"{name:<10} {value}")


def collect() -> dict[str, str | list[str] | dict[str, str]]:
    """The facts, by name."""
    return {
        "braidmq": braidmq.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "program": sys.executable,
        "package": str(PACKAGE),
        "compiled": sorted(compiled_modules()),
        "libraries": {name: metadata.version(name) for name in LIBRARIES},
    }


def compiled_modules() -> Iterator[str]:
    """The dotted names of the modules that this interpreter finds compiled."""
    for suffix in EXTENSION_SUFFIXES:
        for file in PACKAGE.rglob(f"*{suffix}"):
            bare = file.with_name(file.name.removesuffix(suffix))
            if "." not in bare.name:
                yield ".".join(("braidmq", *bare.relative_to(PACKAGE).parts))
