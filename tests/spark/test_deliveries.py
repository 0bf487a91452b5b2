"""Numbered deliveries: every message once, however equal they are, whatever breaks or restarts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from braidmq.spark.deliveries import RUNS_MAX, StoredDeliveries


def ask(stored: StoredDeliveries, *numbers: int) -> list[bool]:
    found = stored.repeats(np.array(numbers, np.int64))
    return [False] * len(numbers) if found is None else [bool(one) for one in found]


def test_exactly_the_stored_numbers_are_repeats() -> None:
    stored = StoredDeliveries("a1")
    assert ask(stored, 5, 6, 8) == [False, False, False]
    assert ask(stored, 4, 5, 7, 8, 9) == [False, True, False, True, False]
    assert stored.encode() == "a1:4-10"


def test_a_number_comes_twice_within_a_batch() -> None:
    assert ask(StoredDeliveries(), 3, 4, 3, 5) == [False, False, True, False]


def test_messages_without_a_number_are_no_repeats() -> None:
    stored = StoredDeliveries()
    assert ask(stored, 0, 0, 7, 0) == [False] * 4
    assert ask(stored, 0, 7) == [False, True]


def test_gaps_are_bounded_and_forgetting_only_doubles() -> None:
    stored = StoredDeliveries()
    ask(stored, *range(2, 2 * RUNS_MAX + 20, 2))
    assert len(stored.encode().split(",")) == RUNS_MAX
    assert ask(stored, 2) == [False]
    assert ask(stored, 2 * RUNS_MAX) == [True]


def test_what_another_process_stored_is_known() -> None:
    stored = StoredDeliveries()
    ask(stored, 1, 2, 5)
    assert ask(StoredDeliveries.decode(stored.encode()), 1, 3, 5) == [True, False, True]
    assert ask(StoredDeliveries.decode(""), 1) == [False]


@given(st.data())
def test_any_crashes_and_restarts_give_every_message_once(data: st.DataObject) -> None:
    """A broker that restarts, a connection that breaks, a receiver that dies before or after storing."""
    receive_maximum, messages = 5, data.draw(st.integers(0, 60))
    rows: list[int] = []
    unacknowledged: list[int] = []
    sent, stored, written = 0, StoredDeliveries(), ""
    while sent < messages or unacknowledged:
        new = list(range(sent, min(messages, sent + receive_maximum - len(unacknowledged))))
        sent += len(new)
        delivery = unacknowledged + new
        fate = data.draw(st.sampled_from(["dies before storing", "dies after", "connection breaks", "well"]))
        repeats = ask(stored, *(number + 1 for number in delivery))
        unacknowledged = [] if fate == "well" else delivery
        if fate != "dies before storing":
            rows += [number for number, old in zip(delivery, repeats, strict=True) if not old]
            written = stored.encode()
        if fate.startswith("dies"):
            stored = StoredDeliveries.decode(written)
    assert rows == list(range(messages))
