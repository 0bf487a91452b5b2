"""How many sockets the operating system's limit of open files leaves room for.

Some files are kept back: the store must be able to begin a new log, and operators to ask, however many
clients come.
"""

import contextlib
import resource
from typing import Final

FILES_KEPT_BACK: Final = 128  # logs of the store, call-outs, the admin API, the interpreter's own


def raise_file_limit() -> None:
    """Use all that the system grants."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def files_granted() -> int | None:
    """How many files the process may have open, once it has raised its limit; None: as many as it likes."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if hard == resource.RLIM_INFINITY else hard


def sockets_within(files: int | None, wanted: int) -> int:
    """How many of the wanted sockets there may be, with some files kept back."""
    return wanted if files is None else max(1, min(wanted, files - FILES_KEPT_BACK))


def shortage(files: int | None, connections_max: int) -> str | None:
    """What is wrong, in one line, if so many connections are more than the files allow."""
    sockets = sockets_within(files, connections_max)
    if sockets == connections_max:
        return None
    return (
        f"[limits] connections_max ({connections_max}) is more than the operating system allows: {files} "
        f"open files leave room for {sockets} connections; raise that limit (ulimit -n, LimitNOFILE), or "
        "lower this one"
    )
