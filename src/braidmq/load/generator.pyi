from collections.abc import Callable

from braidmq.load.case import Case, Result

def run(case: Case, probe: Callable[[], dict[str, float]] | None = None) -> Result: ...
