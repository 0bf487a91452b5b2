"""What a Member learns from acknowledgements and reports, and what status2 and adaptive make of it."""

from math import inf
from random import Random

import pytest

from braidmq.broker.sharing.member import Delivery, Member
from braidmq.broker.sharing.policies import Policy, make_policy
from braidmq.wire.status import StatusReport


def working(policy: Policy, name: str, service_s: float, *, rtt_s: float = 0.0) -> Member:
    """A member that declared its acknowledgements, and whose first has shown `service_s`."""
    member = Member(name, 0.0, acks_when_processed=True, rtt_s=rtt_s, rtt_min_s=rtt_s)
    policy.join(member, 0.0)
    first = Delivery(member)
    policy.sent(member, 0.0, first)
    policy.acked(member, service_s + rtt_s, first)
    return member


def given(policy: Policy, now: float) -> Member:
    """The member that gets a message of QoS 0."""
    member = policy.choose(now, None, None)
    assert member is not None
    policy.sent(member, now)
    return member


# -- learning --------------------------------------------------------------------------------------------


def test_the_first_acknowledgement_gives_the_service_time_without_the_round_trip() -> None:
    member = working(make_policy("adaptive", Random(0)), "a", 0.05, rtt_s=0.02)
    assert member.acked_service_s == pytest.approx(0.05)


def test_messages_that_wait_behind_another_are_timed_from_its_acknowledgement() -> None:
    member = Member("a", 0.0)
    deliveries = [Delivery(member) for _ in range(3)]
    for delivery in deliveries:
        member.sent(0.0, delivery)
    for delivery, acked_s in zip(deliveries, (0.03, 0.06, 0.09), strict=True):
        member.acked(acked_s, delivery)
    assert member.acked_service_s == pytest.approx(0.03)


def test_one_long_pause_does_not_make_a_member_slow_for_good() -> None:
    member = Member("a", 0.0)
    for step, work_s in enumerate((0.02, 0.02, 2.0)):
        delivery = Delivery(member)
        member.sent(step * 10.0, delivery)
        member.acked(step * 10.0 + work_s, delivery)
    assert member.acked_service_s == pytest.approx(0.02 + 0.2 * (0.08 - 0.02))


def test_acknowledgements_on_receipt_do_not_lock_the_estimate_at_nothing() -> None:
    member = Member("a", 0.0)
    for step, work_s in enumerate((0.0, 0.0, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02)):
        delivery = Delivery(member)
        member.sent(step * 1.0, delivery)
        member.acked(step * 1.0 + work_s, delivery)
    assert member.acked_service_s > 0.004


def test_an_acknowledgement_that_is_not_awaited_is_ignored() -> None:
    member = Member("a", 0.0)
    sent, unsent = Delivery(member), Delivery(member)
    member.sent(1.0, sent)
    assert not member.acked(1.5, unsent)
    assert member.acked(1.5, sent)
    assert not member.acked(1.6, sent)
    assert member.inflight == 0


def test_acknowledgements_may_come_in_any_order() -> None:
    member = Member("a", 0.0)
    deliveries = [Delivery(member) for _ in range(5)]
    for step, delivery in enumerate(deliveries):
        member.sent(1.0 + step, delivery)
    heads = []
    for index in (2, 0, 4, 1, 3):
        assert member.acked(9.0, deliveries[index])
        heads.append(member.head_sent_s)
    assert heads[:4] == [1.0, 2.0, 2.0, 4.0]  # of the oldest that is still in flight
    assert member.inflight == 0


def test_totals_make_the_backlog_exact() -> None:
    told, untold = Member("told", 0.0), Member("untold", 0.0)
    for member in (told, untold):
        for _ in range(10):
            member.sent(0.5)
    told.report(1.0, 2, 0.1, 6)
    untold.report(1.0, 2, 0.1)
    assert told.busy_until_s == pytest.approx(1.0 + (4 - 0.5) * 0.1)  # two more are in transit
    assert untold.busy_until_s == pytest.approx(1.0 + (3 - 0.5) * 0.1)


def test_a_member_that_did_nothing_with_work_at_hand_is_at_least_as_slow_as_the_interval() -> None:
    member = Member("a", 0.0)
    for _ in range(5):
        member.sent(0.5)
    member.report(1.0, 3, 0.02, 1)
    member.report(2.0, 3, 0.0, 1)
    assert member.reported_service_s == pytest.approx(1.0)
    idle = Member("idle", 0.0)
    idle.sent(0.5)
    idle.report(1.0, 0, 0.02, 1)
    idle.report(2.0, 0, 0.0, 1)
    assert idle.reported_service_s == pytest.approx(0.02)


def test_many_messages_move_the_estimate_more_than_one() -> None:
    one, many = Member("one", 0.0), Member("many", 0.0)
    for member, processed in ((one, 2), (many, 50)):
        for _ in range(60):
            member.sent(0.1)
        member.report(1.0, 0, 0.1, 1)
        member.report(2.0, 0, 0.2, processed)
    assert one.reported_service_s == pytest.approx(0.1 + 0.1 * 0.1)
    assert many.reported_service_s == pytest.approx(0.1 + 0.7 * 0.1)


# -- status2 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["wait", "completion"])
def test_status2_goes_round_while_nothing_is_known_and_then_to_who_is_done_first(rule: str) -> None:
    policy = make_policy("status2", Random(0), {"rule": rule})
    quick, slow = Member("quick", 0.0), Member("slow", 0.0)
    for member in (quick, slow):
        policy.join(member, 0.0)
    order = [given(policy, 0.1 * step).name for step in range(4)]
    assert order == ["quick", "slow", "quick", "slow"]
    policy.status(quick, 1.0, StatusReport(0, 0.01, 2, 2))
    policy.status(slow, 1.0, StatusReport(1, 0.1, 2, 0))
    later = [given(policy, 1.0 + step / 1000).name for step in range(10)]
    assert later.count("quick") >= 8


def test_status2_counts_the_way_to_a_far_member_only_with_fresh_reports() -> None:
    for fresh, expected in ((True, "near"), (False, "far")):
        policy = make_policy("status2", Random(0))
        far = Member("far", 0.0, rtt_s=0.2, has_event_status=fresh)
        near = Member("near", 0.0, rtt_s=0.001, has_event_status=fresh)
        for member in (far, near):
            policy.join(member, 0.0)
            member.report(1.0, 0, 0.02, 0)
        policy.sent(near, 1.0)
        chosen = policy.choose(1.03, None, None)
        assert chosen is not None
        assert chosen.name == expected


# -- adaptive --------------------------------------------------------------------------------------------


def test_adaptive_keeps_a_message_rather_than_binding_it_to_a_full_window() -> None:
    policy = make_policy("adaptive", Random(0))
    members = [working(policy, name, 0.05) for name in "ab"]
    for _ in range(4):
        member = policy.choose(1.0, None, None, 1)
        assert member is not None
        policy.sent(member, 1.0, Delivery(member))
    assert [member.inflight for member in members] == [2, 2]
    assert policy.choose(1.0, None, None, 1) is None
    assert policy.eligible_at(1.0) == inf


def test_the_window_opens_with_what_waits_in_the_group() -> None:
    policy = make_policy("adaptive", Random(0))
    members = [working(policy, name, 0.05) for name in "ab"]
    for member in members:
        for _ in range(2):
            policy.sent(member, 1.0, Delivery(member))
    assert policy.choose(1.0, None, None, 1, 1) is None
    assert policy.choose(1.0, None, None, 1, 2) is not None


def test_the_window_covers_the_way_to_a_far_member() -> None:
    policy = make_policy("adaptive", Random(0))
    members = [working(policy, name, 0.01, rtt_s=0.05) for name in "ab"]
    while (member := policy.choose(1.0, None, None, 1)) is not None:
        policy.sent(member, 1.0, Delivery(member))
    assert [member.inflight for member in members] == [2 + 5, 2 + 5]


def test_a_very_slow_member_is_used_only_when_the_queue_justifies_it() -> None:
    policy = make_policy("adaptive", Random(0))
    quick, slow = working(policy, "quick", 0.01), working(policy, "slow", 0.5)
    for _ in range(2):
        policy.sent(quick, 1.0, Delivery(quick))
    assert policy.choose(1.0, None, None, 1, 1) is None
    assert 1.0 < policy.eligible_at(1.0) < 1.2
    for _ in range(20):  # the window of the quick one opens with the queue, so it is filled up further
        policy.sent(quick, 1.0, Delivery(quick))
    assert policy.choose(1.0, None, None, 1, 30) is slow


def test_time_alone_makes_another_member_worth_it_when_the_best_is_overdue() -> None:
    policy = make_policy("adaptive", Random(0))
    stalled, slow = working(policy, "stalled", 0.01), working(policy, "slow", 0.5)
    for _ in range(2):
        policy.sent(stalled, 1.0, Delivery(stalled))
    now = 1.0
    while (chosen := policy.choose(now, None, None, 1, 1)) is None:
        later = policy.eligible_at(now)
        assert now < later < now + 1.0
        now = later
    assert chosen is slow
    assert now < 1.3


def test_nobody_waits_for_a_quick_member_whose_socket_is_full() -> None:
    policy = make_policy("adaptive", Random(0))
    quick, slow = working(policy, "quick", 0.01), working(policy, "slow", 1.0)
    assert policy.choose(1.0, None, None, 1) is quick
    quick.is_pressed = True  # its client reads nothing, perhaps for ever
    assert policy.choose(1.0, None, None, 1) is slow
    slow.is_pressed = True
    assert policy.choose(1.0, None, None, 1) is quick


def test_a_slow_member_is_tried_again_after_a_while() -> None:
    policy = make_policy("adaptive", Random(0))
    quick, slow = working(policy, "quick", 0.02), working(policy, "slow", 0.2)
    for now, expected in ((0.9, None), (60.0, slow)):
        deliveries = [Delivery(quick), Delivery(quick)]
        for delivery in deliveries:
            policy.sent(quick, now, delivery)
        assert policy.choose(now, None, None, 1) is expected  # later its bad news has faded
        for delivery in deliveries:
            policy.acked(quick, now + 0.02 * delivery.token, delivery)


def test_undeclared_members_alone_are_treated_as_least_inflight_treats_them() -> None:
    adaptive, least = make_policy("adaptive", Random(0)), make_policy("least_inflight", Random(0))
    order = []
    for policy in (adaptive, least):
        for name in "abc":
            policy.join(Member(name, 0.0), 0.0)
        rng, names = Random(3), []
        unacked: list[tuple[Member, float, Delivery]] = []
        for step in range(300):
            now = 1.0 + step / 100
            if unacked and rng.random() < 0.55:
                policy.acked(*unacked.pop(rng.randrange(len(unacked))))
            else:
                member = policy.choose(now, None, None, 1)
                assert member is not None
                delivery = Delivery(member)
                policy.sent(member, now, delivery)
                unacked.append((member, now + 0.05, delivery))
                names.append(member.name)
        order.append(names)
    assert order[0] == order[1]


def test_a_far_member_that_acknowledges_on_receipt_gets_as_much_as_a_near_one() -> None:
    policy = make_policy("adaptive", Random(0))
    near, far = Member("near", 0.0, rtt_min_s=0.001), Member("far", 0.0, rtt_min_s=0.1)
    for member in (near, far):
        policy.join(member, 0.0)
    under_way: list[tuple[float, Member, Delivery]] = []
    for step in range(400):
        now = 1.0 + step / 200
        while under_way and under_way[0][0] <= now:
            acked_s, member, delivery = under_way.pop(0)
            policy.acked(member, acked_s, delivery)
        chosen = policy.choose(now, None, None, 1)
        assert chosen is not None
        delivery = Delivery(chosen)
        policy.sent(chosen, now, delivery)
        under_way.append((now + chosen.rtt_min_s, chosen, delivery))
        under_way.sort(key=lambda ack: ack[0])
    assert (policy.share(near), policy.share(far)) == (200, 200)


def test_a_member_that_tells_nothing_gets_no_more_than_its_turn_beside_members_that_do() -> None:
    policy = make_policy("adaptive", Random(0))
    for name in "abc":
        working(policy, name, 0.05)
    silent = Member("silent", 0.0)
    policy.join(silent, 0.0)
    unacked: list[tuple[Member, Delivery]] = []
    for step in range(400):
        now = 1.0 + step / 100
        member = policy.choose(now, None, None, 1, 8)
        if member is not None:
            delivery = Delivery(member)
            policy.sent(member, now, delivery)
            if member is silent:
                policy.acked(member, now, delivery)  # on receipt: it is always idle
            else:
                unacked.append((member, delivery))
        if step % 3 == 0 and unacked:
            busy, delivery = unacked.pop(0)
            policy.acked(busy, now, delivery)
    assert 0 < policy.share(silent) <= sum(seat.chosen for seat in policy.rotation) / 4 + 1


def test_but_it_gets_what_the_others_can_not_take_after_a_while() -> None:
    policy = make_policy("adaptive", Random(0))
    stuck = working(policy, "stuck", 0.05)
    silent = Member("silent", 0.0)
    policy.join(silent, 0.0)
    for _ in range(2):
        policy.sent(stuck, 1.0, Delivery(stuck))
    received = Delivery(silent)
    policy.sent(silent, 1.0, received)
    policy.acked(silent, 1.0, received)
    assert policy.choose(1.0, None, None, 1) is None
    assert policy.eligible_at(1.0) == pytest.approx(1.0 + 3 * 0.05)
    assert policy.choose(1.1501, None, None, 1) is silent


def test_adaptive_uses_the_reports_of_a_member_that_did_not_declare_its_acknowledgements() -> None:
    policy = make_policy("adaptive", Random(0))
    declared = working(policy, "declared", 0.05)
    reporting = Member("reporting", 0.0)
    policy.join(reporting, 0.0)
    for _ in range(20):
        delivery = Delivery(reporting)
        policy.sent(reporting, 0.5, delivery)
        policy.acked(reporting, 0.501, delivery)  # on receipt
    policy.status(reporting, 1.0, StatusReport(19, 0.05, 20, 0))
    policy.sent(declared, 1.0, Delivery(declared))
    assert policy.choose(1.0, None, None, 1) is declared  # in spite of one in flight against none


def test_qos_0_goes_by_reports_also_to_members_that_acknowledge_when_processed() -> None:
    policy = make_policy("adaptive", Random(0))
    members = [working(policy, name, 0.05) for name in "ab"]
    for _ in range(10):
        policy.sent(members[0], 0.9)
    policy.status(members[0], 1.0, StatusReport(9, 0.05, 11, 1))
    policy.status(members[1], 1.0, StatusReport(0, 0.05, 1, 1))
    assert policy.choose(1.0, None, None, 0) is members[1]


def test_overflow_goes_to_who_is_expected_to_be_done_first_whatever_the_window() -> None:
    policy = make_policy("adaptive", Random(0))
    quick, slow = working(policy, "quick", 0.01), working(policy, "slow", 0.5)
    for member in (quick, slow):
        for _ in range(2):
            policy.sent(member, 1.0, Delivery(member))
    assert policy.choose(1.0, None, None, 1) is None
    assert policy.overflow(1.0, 1) is quick
