"""The import rule over Cython: import-linter reads no .pyx or .pxd, so this holds them to its contracts."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
LAYERS = next(contract["layers"] for contract in CONTRACTS if contract["type"] == "layers")
FORBIDDEN = next(contract for contract in CONTRACTS if contract["type"] == "forbidden")

# Where C keeps what the cores must not know.
C_MODULES = {"libc.time", "posix.time", "posix.unistd", "cpython.pythread"}

IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+c?import\b|c?import\s+([\w., ]+))", re.MULTILINE)


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def imports(text: str) -> Iterator[str]:
    for one, several in IMPORT.findall(text):
        if one:
            yield one
        else:
            yield from (name.split(" as ")[0].strip() for name in several.split(","))


def rooms() -> dict[str, int]:
    """Each room of the layers contract, and how far down it is."""
    return {
        room.strip(" ()"): depth for depth, layer in enumerate(LAYERS) for room in re.split(r"[|:]", layer)
    }


def room_of(module: str, known: dict[str, int]) -> str | None:
    fitting = [room for room in known if module == room or module.startswith(f"{room}.")]
    return max(fitting, key=len) if fitting else None


def breaches(module: str, text: str) -> list[str]:
    """What a Cython file imports against the rule: from above, or from a neighbour."""
    known = rooms()
    room = room_of(module, known)
    found = []
    for name in imports(text):
        other = room_of(name, known)
        if room and other and other != room and known[other] <= known[room]:
            found.append(f"{module} imports {name}")
    if any(module.startswith(core) for core in FORBIDDEN["source_modules"]):
        secret = {*FORBIDDEN["forbidden_modules"], *C_MODULES}
        found += [f"{module} imports {name}" for name in imports(text) if name in secret]
    return found


def test_cython_keeps_to_the_layers() -> None:
    files = [path for kind in ("*.pyx", "*.pxd") for path in SOURCE.rglob(kind)]
    assert len(files) > 50
    assert [breach for path in files for breach in breaches(module_name(path), path.read_text())] == []


def test_every_room_with_cython_has_a_layer() -> None:
    known = rooms()
    modules = {module_name(path) for kind in ("*.pyx", "*.pxd") for path in SOURCE.rglob(kind)}
    assert [module for module in modules if room_of(module, known) is None] == []


def test_a_breach_is_found() -> None:
    text = "from braidmq.broker.hub cimport Hub\nfrom libc.time cimport time\nimport socket\n"
    found = [breach.split()[-1] for breach in breaches("braidmq.wire.scan", text)]
    assert found == ["braidmq.broker.hub", "libc.time", "socket"]
    assert breaches("braidmq.topics.trie", "from braidmq.wire.scan cimport utf8") != []
    assert breaches("braidmq.broker.lane", "from braidmq.wire.scan cimport utf8\nimport os") == []
