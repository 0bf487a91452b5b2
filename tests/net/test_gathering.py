"""Gathering against loads of a simulated loop: a turn costs 5 µs, and 1 µs for each packet that has come."""

from collections.abc import Callable

from braidmq.net.gathering import Gathering

WAIT_MAX_S = 100e-6
TURN_S, PACKET_S = 5e-6, 1e-6
WAKE_S = 1e-6  # from readiness to the turn, without waiting


class Loop:
    """Runs turns on a virtual clock and notes how long each waited."""

    def __init__(self, gathering: Gathering) -> None:
        self.gathering = gathering
        self.now = 0.0
        self.packets = 0
        self.turns = 0
        self.waits: list[float] = []

    def turn(self, ready_s: float, arrived_by: Callable[[float], int]) -> None:
        """A turn for input that is there at `ready_s`; `arrived_by` says how much is there at a time."""
        self.now = max(self.now, ready_s) + WAKE_S
        wait_s = self.gathering.wait(self.now)
        self.waits.append(wait_s)
        self.now += wait_s
        began_s = self.now
        taken = arrived_by(began_s)
        self.packets += taken
        self.turns += 1
        self.now += TURN_S + taken * PACKET_S
        self.gathering.turn_ended(began_s, self.now, self.packets)


def run_open_loop(rate_per_s: float, seconds: float, wait_max_s: float = WAIT_MAX_S) -> Loop:
    """Devices that send at their own pace, whatever the broker does."""
    loop = Loop(Gathering(wait_max_s))
    while loop.now < seconds:
        loop.turn((loop.packets + 1) / rate_per_s, lambda at_s: int(at_s * rate_per_s) - loop.packets)
    return loop


def run_ping_pong(clients: int, think_s: float, seconds: float) -> Loop:
    """Clients that each wait for their answer, then think, then send the next."""
    loop = Loop(Gathering(WAIT_MAX_S))
    due = [think_s * (index + 1) / clients for index in range(clients)]
    while loop.now < seconds:
        def taken(at_s: float) -> int:
            ready = [index for index, due_s in enumerate(due) if due_s <= at_s]
            for index in ready:
                due[index] = at_s + TURN_S + len(ready) * PACKET_S + think_s
            return len(ready)

        loop.turn(min(due), taken)
    return loop


def test_a_loop_with_little_to_do_never_waits() -> None:
    assert not any(run_open_loop(20_000, 1.0).waits)


def test_a_busy_loop_gathers_what_comes_anyway() -> None:
    loop = run_open_loop(500_000, 1.0)
    plain = run_open_loop(500_000, 1.0, wait_max_s=0.0)
    assert loop.gathering.is_on
    assert loop.packets >= 0.99 * plain.packets
    assert loop.turns < 0.4 * plain.turns


def test_clients_that_wait_for_an_answer_are_not_held_up() -> None:
    loop = run_ping_pong(clients=1, think_s=2e-6, seconds=1.0)
    waited = sum(1 for wait_s in loop.waits if wait_s)
    assert waited < 0.05 * loop.turns  # the trials


def test_many_clients_that_each_wait_for_an_answer_share_a_turn() -> None:
    loop = run_ping_pong(clients=200, think_s=20e-6, seconds=1.0)
    assert loop.packets / loop.turns > 20


def test_nothing_waits_longer_than_the_bound() -> None:
    for loop in (run_open_loop(800_000, 0.5), run_ping_pong(50, 10e-6, 0.5)):
        assert max(loop.waits) <= WAIT_MAX_S


def test_a_bound_of_nothing_turns_it_off() -> None:
    assert not any(run_open_loop(800_000, 0.5, wait_max_s=0.0).waits)


def test_it_ends_when_the_load_ends() -> None:
    gathering = Gathering(WAIT_MAX_S)
    loop = Loop(gathering)
    while not gathering.is_on:
        loop.turn((loop.packets + 1) / 800_000, lambda at_s: int(at_s * 800_000) - loop.packets)
    for step in range(400):  # one message a millisecond
        loop.turn(loop.now + 1e-3, lambda _: 1)
        if step > 200:
            assert loop.waits[-1] == 0
