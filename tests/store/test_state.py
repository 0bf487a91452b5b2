"""What records add up to, where it isn't plain."""

from braidmq.messages.message import Message
from braidmq.store.records import PAGED, QUEUED, SESSION, SETTLED, GroupName, Record
from braidmq.store.state import State


def queued(sequence: int, *terms: object) -> Record:
    return (QUEUED, "s", sequence, Message(b"t", b"%d" % sequence), *(terms or (1, False, b"", None)))


def state_of(*records: Record) -> State:
    state = State()
    state.apply([(SESSION, "s", None, 60.0), *records])
    return state


def test_a_page_over_a_wide_gap_of_numbers_costs_no_more_than_its_deliveries() -> None:
    far = 1 << 60
    paged = (PAGED, "s", 1, far + 1, 9, 1, 0, 9, 3)
    state = state_of(queued(1), queued(far), queued(far + 1), queued(far + 9), paged)
    saved = state.sessions["s"]
    assert ([*saved.deliveries], saved.last_sequence) == ([far + 9], far + 9)


def test_every_delivery_keeps_its_own_terms() -> None:
    group = GroupName("g", b"f")
    state = state_of(
        queued(1), queued(2, 2, True, b"i", group), queued(3), queued(4, 2, False, b"", None),
        (SETTLED, "s", 4), queued(2, 1, False, b"", None), queued(5, 2, True, b"i", group), queued(4),
    )
    saved = state.sessions["s"]
    plain, other = (1, False, b"", None), (2, True, b"i", group)
    assert [saved.terms_of(sequence) for sequence in (1, 2, 3, 4, 5)] == [plain, plain, plain, plain, other]
