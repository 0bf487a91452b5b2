"""The paper's Algorithm 1 as it is printed. It loses messages, and is kept to show how many.

Line 20 returns whatever the branch below the first existing prefix answers, so that the branches after it are
never tried: with `+/x` and `a/b` subscribed, a message to `a/b` finds `+`, nothing below it, and is lost. Two
smaller faults are of the same kind and kept as well: a literal level that ends in `$` is taken for the end of
a filter, and `a/#` doesn't match `a`. One is not kept, since nothing would work with it: stored prefixes have
no leading slash, but those that are searched for have.
"""

_END = b"$"


class PrintedPrefixes:
    """Prefixes in an exact set: what it misses isn't the fault of a Bloom filter."""

    def __init__(self) -> None:
        self._prefixes: set[bytes] = set()

    def add(self, filter: bytes) -> None:
        levels = filter.split(b"/")
        prefix = levels[0]
        for level in levels[1:]:
            self._prefixes.add(prefix)
            prefix += b"/" + level
        self._prefixes.add(prefix + _END)

    def search(self, topic: bytes) -> tuple[bool, int]:
        """The answer and the number of questions it took."""
        levels = topic.split(b"/")
        path, queries = b"", 0
        for depth, level in enumerate(levels):
            end = _END if depth == len(levels) - 1 else b""
            for candidate in (path + b"#" + _END, path + b"+" + end, path + level + end):
                queries += 1
                if candidate in self._prefixes:
                    break
            else:
                return False, queries
            if candidate.endswith(_END):
                return True, queries
            path = candidate + b"/"
        return False, queries
