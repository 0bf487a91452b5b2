"""Who is judged next: networks and names take turns, the newest first, and networks can rest."""

from braidmq.access.waiting import FairQueue


def never_rests(network: str, now: float) -> float:
    return now


def all_of(queue: FairQueue[str], now: float = 0.0) -> list[str]:
    found = []
    while (item := queue.take(now)) is not None:
        found.append(item)
    return found


def test_networks_take_turns() -> None:
    queue: FairQueue[str] = FairQueue(100, never_rests)
    for number in range(3):
        queue.add("flood", "ada", f"flood-{number}")
    queue.add("home", "ada", "home")
    assert all_of(queue) == ["flood-2", "home", "flood-1", "flood-0"]


def test_names_of_a_network_take_turns_and_a_new_one_comes_first() -> None:
    queue: FairQueue[str] = FairQueue(100, never_rests)
    for number in range(3):
        queue.add("nat", "ada", f"ada-{number}")
    queue.add("nat", "bob", "bob")
    assert all_of(queue) == ["bob", "ada-2", "ada-1", "ada-0"]


def test_who_has_most_waiting_makes_room() -> None:
    queue: FairQueue[str] = FairQueue(3, never_rests)
    for number in range(3):
        assert queue.add("flood", "ada", f"flood-{number}") is None
    assert queue.add("home", "ada", "home") == "flood-0"
    assert queue.add("flood", "eve", "flood-3") == "flood-1"
    assert len(queue) == 3
    assert all_of(queue) == ["flood-3", "home", "flood-2"]


def test_a_network_that_rests_lets_others_pass_and_comes_back() -> None:
    until = {"flood": 5.0}
    queue: FairQueue[str] = FairQueue(100, lambda network, now: until.get(network, now))
    queue.add("flood", "ada", "guess")
    queue.add("home", "ada", "home")
    assert all_of(queue, 1.0) == ["home"]
    queue.add("flood", "ada", "another guess")
    assert queue.next_at_s == 5.0
    assert all_of(queue, 4.9) == []
    assert all_of(queue, 5.0) == ["another guess", "guess"]
    assert len(queue) == 0


def test_a_network_that_is_pushed_out_while_it_rests_is_forgotten() -> None:
    queue: FairQueue[str] = FairQueue(1, lambda network, now: 9.0 if network == "flood" else now)
    queue.add("flood", "ada", "guess")
    assert queue.take(0.0) is None
    assert queue.add("home", "ada", "home") == "guess"
    assert all_of(queue, 10.0) == ["home"]
