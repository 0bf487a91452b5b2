"""How hard the property tests try: little in `make test`, more in `make hunt`, which sets HUNT_EFFORT."""

import os


def examples(number: int) -> int:
    """The examples of a test that `make test` gives `number` of them."""
    return number * int(os.environ.get("HUNT_EFFORT", "1"))
