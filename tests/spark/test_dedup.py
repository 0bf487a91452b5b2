"""Guessing repeats by content: right for a broker that counts its identifiers up, and never restarts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from braidmq.spark.dedup import RepeatGuess

DUP = 0x0A
FRESH = 0x02


def ask(known: RepeatGuess, *messages: tuple[int, int, int]) -> list[bool]:
    """(flags, packet identifier, digest) of each -> whether it is a repeat."""
    flags, ids, digests = zip(*messages, strict=True)
    found = known.repeats(np.array(flags, np.uint8), np.array(ids, np.uint16), np.array(digests, np.uint64))
    return [False] * len(messages) if found is None else [bool(one) for one in found]


def test_a_marked_message_with_a_known_identifier_and_content_is_a_repeat() -> None:
    known = RepeatGuess(100)
    assert ask(known, (FRESH, 1, 11), (FRESH, 2, 22)) == [False, False]
    assert ask(known, (DUP, 1, 11), (DUP, 2, 99), (DUP, 3, 33), (FRESH, 4, 11)) == [True, False, False, False]


def test_a_new_session_repeats_nothing() -> None:
    known = RepeatGuess(100)
    ask(known, (FRESH, 1, 11))
    known.reset()
    assert ask(known, (DUP, 1, 11)) == [False]


def test_what_another_process_stored_is_known() -> None:
    known = RepeatGuess(100)
    known.restore(np.array([7, 8], np.uint16), np.array([77, 88], np.uint64))
    assert ask(known, (DUP, 7, 77), (DUP, 8, 88)) == [True, True]


def test_only_what_can_be_unacknowledged_is_a_repeat() -> None:
    known = RepeatGuess(4)
    ask(known, *[(FRESH, number, number) for number in range(1, 8)])
    assert ask(known, (DUP, 3, 3)) == [False]
    assert ask(known, (DUP, 7, 7)) == [True]


def test_an_identifier_in_use_again_shows_that_older_ones_are_acknowledged() -> None:
    known = RepeatGuess(100)
    ask(known, (FRESH, 1, 11), (FRESH, 2, 22), (FRESH, 3, 33))
    ask(known, (FRESH, 2, 44))  # the broker has restarted, and numbers from 1 again
    assert ask(known, (DUP, 1, 11)) == [False]


def test_a_guess_can_be_wrong() -> None:
    """What the documentation warns of: a restarted broker, equal payloads, and a connection that broke."""
    known = RepeatGuess(100)
    ask(known, (FRESH, 1, 11))
    assert ask(known, (DUP, 1, 11)) == [True]  # or a new message, which nobody can tell


def test_qos_0_is_never_a_repeat() -> None:
    known = RepeatGuess(10)
    assert ask(known, (0, 0, 5), (0, 0, 5)) == [False, False]
    assert ask(known, (0, 0, 5)) == [False]


@given(st.data())
def test_a_counting_broker_and_any_crashes_give_every_message_once(data: st.DataObject) -> None:
    """Few different contents, so that equal messages are common; a crash may come before or after storing."""
    receive_maximum, window = 5, 10
    contents = data.draw(st.lists(st.integers(0, 2), max_size=60))
    stored: list[int] = []  # which message
    rows: list[tuple[int, int]] = []  # (identifier, content) as in the segments
    unacknowledged: list[int] = []
    sent = 0
    known = RepeatGuess(window)
    while sent < len(contents) or unacknowledged:
        new = list(range(sent, min(len(contents), sent + receive_maximum - len(unacknowledged))))
        delivery = [(DUP, message) for message in unacknowledged] + [(FRESH, message) for message in new]
        sent += len(new)
        fate = data.draw(st.sampled_from(["crash before storing", "crash after storing", "all well"]))
        repeats = ask(known, *[(flags, message + 1, contents[message]) for flags, message in delivery])
        unacknowledged = [message for _, message in delivery]
        if fate != "crash before storing":
            kept = [message for (_, message), old in zip(delivery, repeats, strict=True) if not old]
            stored += kept
            rows += [(message + 1, contents[message]) for message in kept]
        if fate == "all well":
            unacknowledged = []
        else:
            known = RepeatGuess(window)
            known.restore(*np.array(rows[-window:], np.uint64).reshape(-1, 2).T)
    assert stored == list(range(len(contents)))
