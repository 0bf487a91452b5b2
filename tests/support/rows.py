"""One test over a whole table: every row is tried, and every row that fails is named."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

Row = TypeVar("Row")


def check_rows(rows: Iterable[Row], check: Callable[[Row], None], name: Callable[[Row], str] = str) -> None:
    tried, failed = 0, []
    for row in rows:
        tried += 1
        try:
            check(row)
        except (Exception, pytest.fail.Exception) as error:  # a row that raises doesn't hide the others
            failed.append(f"{name(row)}: {type(error).__name__}: {error}")
    assert tried, "the table is empty"
    assert not failed, f"{len(failed)} of {tried} rows fail:\n" + "\n".join(failed)
