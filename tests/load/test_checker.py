"""The checker against the plain way to find the same faults: remember everything."""

from hypothesis import given
from hypothesis import strategies as st

from braidmq.load.checker import Checker

# Two subscribers of one group (stream 0), and one by itself (stream 1).
STREAMS = (0, 0, 1)
PUBLISHERS = 2
arrivals = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, PUBLISHERS - 1), st.integers(0, 60)), max_size=120
)


class RememberingChecker:
    """What Checker should say, by sets that grow with the run."""

    def __init__(self) -> None:
        self.seen: dict[tuple[int, int], set[int]] = {}
        self.last: dict[tuple[int, int], int] = {}
        self.duplicates = self.order_faults = 0

    def observe(self, subscriber: int, stream: int, publisher: int, sequence: int) -> None:
        seen = self.seen.setdefault((stream, publisher), set())
        if sequence in seen:
            self.duplicates += 1
            return
        seen.add(sequence)
        last = self.last.get((subscriber, publisher), -1)
        self.order_faults += sequence < last
        self.last[subscriber, publisher] = max(last, sequence)

    @property
    def missing(self) -> int:
        return sum(max(seen) + 1 - len(seen) for seen in self.seen.values())


@given(arrivals)
def test_it_says_what_one_who_remembers_everything_says(messages: list[tuple[int, int, int]]) -> None:
    checker, naive = Checker(len(STREAMS), 2, PUBLISHERS), RememberingChecker()
    for subscriber, publisher, sequence in messages:
        checker.observe(subscriber, STREAMS[subscriber], publisher, sequence)
        naive.observe(subscriber, STREAMS[subscriber], publisher, sequence)
    found = (checker.duplicates, checker.order_faults, checker.missing)
    assert found == (naive.duplicates, naive.order_faults, naive.missing)


def test_the_record_of_recent_messages_goes_round() -> None:
    checker, count = Checker(1, 1, 1), 100_000
    for sequence in range(count):
        checker.observe(0, 0, 0, sequence)
    checker.observe(0, 0, 0, count - 1)
    checker.observe(0, 0, 0, count + 200_000)
    checker.observe(0, 0, 0, count + 199_999)
    assert (checker.duplicates, checker.order_faults, checker.missing) == (1, 1, 199_999)


def test_what_is_too_old_to_be_known_counts_as_a_duplicate() -> None:
    checker = Checker(1, 1, 1)
    checker.observe(0, 0, 0, 1_000_000)
    checker.observe(0, 0, 0, 1)
    assert checker.duplicates == 1
