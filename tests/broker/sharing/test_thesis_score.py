"""The thesis's score, member by member: its vectors, its averages, and who wins a tie."""

import pytest

from braidmq.broker.sharing.member import Member
from braidmq.broker.sharing.policies.reported import StatusPolicy


def test_a_member_of_which_nothing_is_known_scores_the_time_since_its_last_message() -> None:
    member = Member("a", 0.0)
    member.sent(0.47)
    assert member.thesis_score(0.5, 0.0) == pytest.approx(0.03)


def test_work_that_it_can_not_have_finished_counts_against_it() -> None:
    member = Member("a", 0.0)
    member.report(1.0, 3, 0.025)
    member.sent(1.02)
    member.sent(1.04)
    assert member.thesis_score(1.05, 0.0) == pytest.approx(0.01 - 0.075)


def test_work_that_it_should_have_finished_by_now_counts_nothing() -> None:
    member = Member("a", 0.0)
    member.report(1.0, 2, 0.025)
    member.sent(1.8)
    assert member.thesis_score(2.0, 0.0) == pytest.approx(0.2)


def test_the_average_is_over_the_last_five_reports_with_zeros() -> None:
    member = Member("a", 0.0)
    averages = []
    for number, processing_s in enumerate((0.0, 0.02, 0.04, 0.06, 0.08, 0.1)):
        member.report(number + 1.0, 0, processing_s)
        averages.append(member.mean_processing_s)
    assert averages == pytest.approx([0.0, 0.01, 0.02, 0.03, 0.04, 0.06])


def test_a_report_starts_the_count_of_sent_messages_anew() -> None:
    member = Member("a", 0.0)
    member.sent(0.1)
    member.sent(0.2)
    assert member.sent_since_status == 2
    member.report(1.0, 1, 0.02)
    assert (member.sent_since_status, member.reported_queue, member.last_status_s) == (0, 1, 1.0)


def test_a_member_without_processing_time_counts_with_the_mean_of_the_group_zeros_included() -> None:
    policy = StatusPolicy()
    known, unknown = Member("known", 0.0), Member("unknown", 0.0)
    for member in (known, unknown):
        policy.join(member, 0.0)
    known.report(1.0, 0, 0.1)
    unknown.report(1.0, 10, 0.0)
    # The unknown one is thought to need 10 * 50 ms. Until then the known one is better, though sent to last.
    policy.sent(unknown, 1.0)
    policy.sent(known, 1.001)
    assert policy.choose(1.3, None, None) is known
    assert policy.choose(1.7, None, None) is unknown


def test_without_reports_it_is_round_robin_and_the_first_wins_a_tie() -> None:
    policy = StatusPolicy()
    members = [Member(name, 0.0) for name in "abc"]
    for member in members:
        policy.join(member, 0.0)
    chosen = []
    for step in range(6):
        best = policy.choose(1.0 + step / 100, None, None)
        assert best is not None
        policy.sent(best, 1.0 + step / 100)
        chosen.append(best.name)
    assert chosen == list("abcabc")
    assert all(policy.choose(2.0, None, None) is members[0] for _ in range(3))


def test_a_new_connection_forgets_what_was_reported() -> None:
    member = Member("a", 0.0)
    member.report(1.0, 7, 0.5)
    member.connected(9.0)
    assert (member.reported_queue, member.mean_processing_s, member.last_status_s) == (0, 0.0, 9.0)
    assert member.thesis_score(9.5, 0.0) == pytest.approx(0.5)
