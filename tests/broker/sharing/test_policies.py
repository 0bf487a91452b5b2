"""What each policy promises, and what all of them do."""

from collections import Counter
from random import Random

import pytest

from braidmq.broker.sharing.member import Delivery, Member
from braidmq.broker.sharing.policies import DEFAULT_POLICY, POLICIES, Policy, make_policy, migrate
from braidmq.errors import ConfigError


def seated(name: str, count: int, **options: object) -> tuple[Policy, list[Member]]:
    policy = make_policy(name, Random(5), options)
    members = [Member(f"member-{index}", 0.0) for index in range(count)]
    for member in members:
        policy.join(member, 0.0)
    return policy, members


def give(policy: Policy, now: float, publisher: str = "p", topic: str = "t") -> Member:
    member = policy.choose(now, publisher, topic, 1)
    assert member is not None
    policy.sent(member, now)
    return member


def send(policy: Policy, now: float) -> Delivery:
    member = policy.choose(now, "p", "t", 1)
    assert member is not None
    delivery = Delivery(member)
    policy.sent(member, now, delivery)
    return delivery


def shares(policy: Policy, messages: int, spacing_s: float = 0.001) -> Counter[str]:
    return Counter(give(policy, 1.0 + index * spacing_s).name for index in range(messages))


# -- all -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POLICIES)
def test_nobody_is_chosen_when_nobody_is_there(name: str) -> None:
    policy, members = seated(name, 1)
    policy.leave(members[0], 1.0)
    assert policy.choose(2.0, "p", "t", 1) is None


@pytest.mark.parametrize("name", POLICIES)
def test_a_member_that_left_is_not_chosen(name: str) -> None:
    policy, members = seated(name, 3)
    for index in range(20):
        give(policy, 1.0 + index / 100, publisher=f"p{index}", topic=f"t{index}")
    policy.leave(members[1], 2.0)
    chosen = {give(policy, 2.0 + index / 100, f"p{index}", f"t{index}").name for index in range(60)}
    assert chosen == {"member-0", "member-2"}


@pytest.mark.parametrize("name", POLICIES)
def test_no_member_gets_more_than_its_receive_maximum(name: str) -> None:
    policy, members = seated(name, 3)
    for member in members:
        member.receive_max = 4
    for index in range(200):
        chosen = policy.choose(1.0 + index / 1000, f"p{index}", f"t{index}", 1)
        if chosen is not None:
            policy.sent(chosen, 1.0 + index / 1000, Delivery(chosen))
    assert [member.inflight for member in members] == [4, 4, 4]
    assert policy.choose(2.0, "p", "t", 1) is None
    assert policy.choose(2.0, "p", "t", 0) is not None  # QoS 0 needs no acknowledgement


@pytest.mark.parametrize("name", POLICIES)
def test_an_acknowledgement_makes_room(name: str) -> None:
    policy, members = seated(name, 1)
    members[0].receive_max = 1
    delivery = send(policy, 1.0)
    assert policy.choose(1.1, "p", "t", 1) is None
    assert policy.acked(members[0], 1.2, delivery)
    assert policy.choose(1.3, "p", "t", 1) is members[0]


def test_qos_2_keeps_its_room_until_it_is_completed() -> None:
    policy, members = seated("least_inflight", 1)
    members[0].receive_max = 1
    assert members[0].received(1.1, send(policy, 1.0))
    assert (members[0].inflight, policy.choose(1.2, "p", "t", 2)) == (0, None)
    members[0].completed()
    assert policy.choose(1.3, "p", "t", 2) is members[0]


@pytest.mark.parametrize("name", [name for name in POLICIES if not make_policy(name, Random(0)).is_ordered])
def test_a_pressed_member_is_spared_while_another_is_not(name: str) -> None:
    policy, members = seated(name, 3)
    members[0].is_pressed = True
    assert "member-0" not in shares(policy, 30)
    for member in members:
        member.is_pressed = True
    assert policy.choose(2.0, "p", "t", 1) is not None


@pytest.mark.parametrize("name", POLICIES)
def test_choosing_changes_nothing(name: str) -> None:
    first, _ = seated(name, 5)
    second, _ = seated(name, 5)
    for index in range(40):
        now, publisher, topic = 1.0 + index / 200, f"p{index % 7}", f"t{index % 11}"
        if name not in {"random", "capacity"}:  # a draw is a draw
            for _ in range(3):
                second.choose(now, publisher, topic, 1)
        assert give(first, now, publisher, topic).name == give(second, now, publisher, topic).name


@pytest.mark.parametrize("name", POLICIES)
def test_a_change_of_policy_keeps_members_and_what_is_in_flight(name: str) -> None:
    old, members = seated("least_inflight", 3)
    deliveries = [send(old, 1.0 + index / 10) for index in range(6)]
    new = migrate(old, name, Random(1), 2.0)
    assert new.members == members
    assert [member.inflight for member in new.members] == [2, 2, 2]
    assert all(new.acked(delivery.member, 3.0, delivery) for delivery in deliveries)


def test_the_default_is_one_of_them() -> None:
    assert make_policy(DEFAULT_POLICY, Random(0)).name == DEFAULT_POLICY


# -- making ----------------------------------------------------------------------------------------------


def test_policies_are_made_under_their_own_names() -> None:
    assert [make_policy(name, Random(0)).name for name in POLICIES] == list(POLICIES)


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("fastest", {}, "no policy is called 'fastest'; there are random, round_robin"),
        ("random", {"weight": 1}, "unknown field `weight`"),
        ("weighted", {"weights": {"a": 0}}, "> 0"),
        ("weighted", {"weights": {"a": "much"}}, "Expected `float`"),
        ("sticky", {"publishers_max": 0}, ">= 1"),
        ("status2", {"rule": "guess"}, "guess"),
        ("adaptive", {"window": 0}, ">= 1"),
        ("capacity", {"default_capacity": -1}, "> 0"),
    ],
)
def test_what_is_wrong_with_the_options_is_said(
    name: str, options: dict[str, object], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        make_policy(name, Random(0), options)


# -- one by one ------------------------------------------------------------------------------------------


def test_random_is_even_and_depends_on_the_seed_alone() -> None:
    counts = shares(seated("random", 4)[0], 4000)
    assert all(900 < count < 1100 for count in counts.values())
    assert counts == shares(seated("random", 4)[0], 4000)


def test_round_robin_takes_turns_also_within_one_instant() -> None:
    policy, _ = seated("round_robin", 3)
    assert [give(policy, 1.0).name[-1] for _ in range(7)] == list("0120120")


def test_round_robin_goes_on_where_it_was_when_members_come_and_go() -> None:
    policy, members = seated("round_robin", 3)
    give(policy, 1.0)
    policy.leave(members[1], 1.0)
    policy.join(Member("late", 1.0), 1.0)
    assert [give(policy, 2.0).name for _ in range(4)] == ["member-2", "member-0", "late", "member-2"]


def test_weights_are_shares_and_spread_evenly() -> None:
    policy, _ = seated("weighted", 3, weights={"member-0": 5, "member-1": 2})
    order = [give(policy, 1.0).name for _ in range(80)]
    assert Counter(order) == {"member-0": 50, "member-1": 20, "member-2": 10}
    assert all(Counter(order[start : start + 8])["member-0"] == 5 for start in range(0, 80, 8))


@pytest.mark.parametrize("declared", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["weighted", "capacity"])
def test_nonsense_that_a_client_declares_is_not_used(name: str, declared: float) -> None:
    policy = make_policy(name, Random(3), {})
    for number in range(2):
        policy.join(Member(f"member-{number}", 0.0, weight=declared, capacity=declared), 0.0)
    policy.join(Member("honest", 0.0, weight=1.0, capacity=100.0), 0.0)
    assert all(80 <= count <= 120 for count in shares(policy, 300).values())


def test_a_member_that_had_no_room_does_not_catch_up() -> None:
    policy, members = seated("weighted", 2)
    members[0].receive_max = 0
    assert shares(policy, 50) == {"member-1": 50}
    members[0].receive_max = 10_000
    assert shares(policy, 50)["member-0"] <= 26


def test_sticky_keeps_each_publisher_where_it_is_and_spreads_publishers() -> None:
    policy, members = seated("sticky", 3)
    first = {f"p{index}": give(policy, 1.0, f"p{index}").name for index in range(30)}
    assert set(Counter(first.values()).values()) == {10}
    policy.join(Member("late", 2.0), 2.0)
    assert {name: give(policy, 2.0, name).name for name in first} == first
    policy.leave(members[0], 3.0)
    after = {name: give(policy, 3.0, name).name for name in first}
    assert {name for name in first if after[name] != first[name]} == {
        name for name, member in first.items() if member == "member-0"
    }


def test_sticky_for_all_uses_one_member_until_it_goes() -> None:
    policy, members = seated("sticky", 3, one_for_all=True)
    chosen = {give(policy, 1.0, f"p{index}").name for index in range(9)}
    assert len(chosen) == 1
    policy.leave(next(member for member in members if member.name in chosen), 2.0)
    again = {give(policy, 2.0, f"p{index}").name for index in range(9)}
    assert len(again) == 1
    assert again != chosen


def test_sticky_remembers_a_bounded_number_of_publishers() -> None:
    policy, _ = seated("sticky", 2, publishers_max=10)
    for index in range(1000):
        give(policy, 1.0, f"p{index}")
    counts = Counter(give(policy, 1.0, f"p{index}").name for index in range(1000))
    assert counts["member-0"] == pytest.approx(500, abs=20)


@pytest.mark.parametrize(("name", "by_topic"), [("hash_client", False), ("hash_topic", True)])
def test_a_key_has_one_member_and_a_join_moves_only_its_share(name: str, by_topic: bool) -> None:
    policy, _members = seated(name, 9)

    def owners() -> dict[int, Member | None]:
        keys = {index: ("x", f"k{index}") if by_topic else (f"k{index}", "x") for index in range(5000)}
        return {index: policy.owner(*key) for index, key in keys.items()}

    before = owners()
    counts = Counter(before.values())
    assert all(count == pytest.approx(5000 / 9, rel=0.2) for count in counts.values())
    late = Member("late", 1.0)
    policy.join(late, 1.0)
    after = owners()
    moved = {key for key in before if before[key] is not after[key]}
    assert len(moved) == pytest.approx(500, rel=0.2)
    assert {after[key] for key in moved} == {late}
    policy.leave(late, 2.0)
    assert owners() == before


def test_the_owner_of_a_key_is_the_same_in_every_process() -> None:
    policy, _ = seated("hash_topic", 5)
    owners = [policy.owner(None, f"sensor/{index}/temperature") for index in range(8)]
    # Fixed on purpose: brokers of different versions must agree.
    assert [int(member.name[-1]) for member in owners if member] == [1, 4, 1, 3, 2, 2, 2, 0]
    assert owners == [policy.owner(None, f"sensor/{index}/temperature".encode()) for index in range(8)]


def test_capacity_gives_in_proportion_to_what_is_left() -> None:
    policy, _ = seated("capacity", 3, capacities={"member-0": 600, "member-1": 300, "member-2": 100})
    counts = shares(policy, 4000, spacing_s=0.01)
    assert counts["member-0"] == pytest.approx(2400, rel=0.06)
    assert counts["member-2"] == pytest.approx(400, rel=0.15)


def test_a_capacity_that_is_used_up_comes_back_with_time() -> None:
    policy, _ = seated("capacity", 2, capacities={"member-0": 10, "member-1": 1000})
    now = 1.0
    assert shares(policy, 1500, spacing_s=0.0)["member-0"] < 40
    policy, members = seated("capacity", 1, default_capacity=5)
    for _ in range(20):
        policy.sent(members[0], now)
    assert policy.choose(now, "p", "t") is members[0]  # used up, but there is nobody else


def test_least_inflight_prefers_who_has_least_to_acknowledge() -> None:
    policy, members = seated("least_inflight", 3)
    for _ in range(6):
        send(policy, 1.0)
    busy, free, _ = members
    for _ in range(3):
        policy.sent(busy, 2.0, Delivery(busy))
    assert free.inflight == 2
    assert "member-0" not in {send(policy, 3.0 + index).member.name for index in range(4)}


def test_least_inflight_is_round_robin_when_acknowledgements_tell_nothing() -> None:
    policy, _ = seated("least_inflight", 3)
    order = []
    for index in range(9):
        delivery = send(policy, 1.0 + index)
        policy.acked(delivery.member, 1.001 + index, delivery)
        order.append(delivery.member.name[-1])
    assert order == list("012012012")
