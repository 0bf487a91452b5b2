"""TOML files that people write: their text, the line of a key, and the name that was meant by a wrong one.

Every file of settings is read with these, so that a mistake is told in the same words everywhere.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from braidmq.errors import ConfigError

Keys = tuple[str | int, ...]  # the way to a value; ("listener", 1, "port") is that of the second [[listener]]

SUGGESTIONS_MAX: Final = 12  # more names than this help nobody in an error message
_KEY: Final = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_DOTTED: Final = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER: Final = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]\]?\s*(?:#.*)?$")
_ASSIGNMENT: Final = re.compile(rf"\s*({_DOTTED})\s*=")


def read_text(path: Path) -> str:
    """The text of a file. ConfigError if it can't be read or is no text."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    return utf8_text(data, str(path))


def utf8_text(data: bytes, path: str) -> str:
    """The text in the bytes of a file. ConfigError names the line where it stops to be one."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 text (byte {error.start} of the file)") from error


def parse_toml(text: str, path: str) -> dict[str, Any]:
    """What a TOML file holds. ConfigError names the line that is wrong."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = int(found[1]) if found else text.count("\n") + 1  # else it says: at the end of the document
        raise ConfigError(f"{path}:{line}: not valid TOML: {error}") from error


def nearest(word: str, known: Sequence[str]) -> str:
    """The end of a complaint about an unknown name: what may have been meant, or what there is."""
    spelling = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), spelling, n=1)
    if close:
        return f"; did you mean {spelling[close[0]]}?"
    return f"; known are {', '.join(known)}" if len(known) <= SUGGESTIONS_MAX else ""


def line_of(text: str, keys: Keys) -> str:
    """`:line` of the innermost of `keys` that is written in the file; empty when none is.

    tomllib keeps no positions. This looks at line beginnings only, so that a key inside a multi-line string
    can mislead it by some lines; the table and key in the message are right in any case.
    """
    found, depth = "", 0
    for number, written in _keys_by_line(text):
        shared = _shared(written, keys)
        if shared > depth:
            found, depth = f":{number}", shared
    return found


def _shared(written: Keys, wanted: Keys) -> int:
    """How many keys two ways have in common before they part."""
    same = (one == other for one, other in zip(written, wanted, strict=False))
    return next((index for index, equal in enumerate(same) if not equal), min(len(written), len(wanted)))


def _keys_by_line(text: str) -> Iterator[tuple[int, Keys]]:
    """Each line that begins a table or a value, with the whole way to it."""
    table: Keys = ()
    counts: dict[Keys, int] = {}  # how many [[table]] there were by now, by the way to it
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = _numbered(_names(header[2]), counts, is_entry=header[1] == "[[")
            yield number, table
        elif assignment := _ASSIGNMENT.match(line):
            yield number, (*table, *_names(assignment[1]))


def _names(dotted: str) -> list[str]:
    return [name.strip("\"'") for name in re.findall(_KEY, dotted)]


def _numbered(names: list[str], counts: dict[Keys, int], *, is_entry: bool) -> Keys:
    """The way to a table, with the number of the entry behind each name of a repeated one."""
    keys: Keys = ()
    for position, name in enumerate(names, start=1):
        keys = (*keys, name)
        if is_entry and position == len(names):
            counts[keys] = counts.get(keys, 0) + 1
        if keys in counts:
            keys = (*keys, counts[keys] - 1)
    return keys
