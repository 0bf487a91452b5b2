"""Does what a crash left undone, whoever crashed: called by every command that writes or reads tables.

A writer that lives holds the lock of its work, so a lock that is free means that what lies there is of a dead
one. On file systems without locks nobody can tell the two apart; there only the writers themselves recover.
"""

from typing import Final

from braidmq.errors import BraidError
from braidmq.spark.pipeline.home import Home, exclusive
from braidmq.spark.pipeline.status import COMPACT, QUERIES

WRITING: Final = "writing"  # what only one process may do
WORKS: Final = {WRITING: QUERIES, COMPACT: (COMPACT,)}


def recover(home: Home) -> None:
    """Finishes every commit that was begun by a process that is gone."""
    if home.has_locks:
        for work in WORKS:
            recover_work(home, work)


def recover_work(home: Home, work: str) -> None:
    """The same for one kind of work; nothing if somebody is at it."""
    if not home.has_locks or not any(home.commits(writer).exists() for writer in WORKS[work]):
        return
    try:
        with exclusive(home, work):
            recover_writers(home, work)
    except BraidError:
        return


def recover_writers(home: Home, work: str) -> None:
    """For who is the only one at this work."""
    for writer in WORKS[work]:
        if home.commits(writer).exists():
            home.commit_log(writer).recover()
