"""Where and when the clients try to connect, without any network."""

import itertools
import random
from collections.abc import Callable

import pytest

from braidmq.client.addresses import Address, Endpoint, Rotation, endpoints_of, parse_address, parse_addresses
from braidmq.client.backoff import STABLE_S, Backoff
from braidmq.client.dialing import Dial, Outcome, Pause, Resolve, dial_plan, is_final
from braidmq.client.errors import (
    AuthenticationFailedError,
    ConnectFailedError,
    ConnectionLostError,
    ConnectRefusedError,
    ServerDisconnectedError,
)
from braidmq.errors import ConfigError
from braidmq.wire import Properties, ReasonCode


class TestAddresses:
    @pytest.mark.parametrize(("text", "host", "port"), [
        ("broker", "broker", 1883),
        ("broker:1", "broker", 1),
        (" broker:65535 ", "broker", 65_535),
        ("10.0.0.1:1884", "10.0.0.1", 1884),
        ("[::1]:1884", "::1", 1884),
        ("[::1]", "::1", 1883),
        ("fe80::1", "fe80::1", 1883),
        ("mqtt://broker/", "broker", 1883),
        ("mqtts://broker", "broker", 8883),
        ("mqtts://broker:1", "broker", 1),
    ])
    def test_forms(self, text: str, host: str, port: int) -> None:
        assert parse_address(text, 1883) == Address(host, port)

    @pytest.mark.parametrize("text", ["", ":1883", "b:", "b:0", "b:65536", "b:x", "http://b", "b:²"])
    def test_nonsense(self, text: str) -> None:
        with pytest.raises(ConfigError, match="address"):
            parse_address(text, 1883)

    def test_lists(self) -> None:
        expected = (Address("a", 1883), Address("b", 2))
        assert parse_addresses("a, b:2,a", 1883) == expected
        assert parse_addresses(["a", "b:2"], 1883) == expected
        with pytest.raises(ConfigError):
            parse_addresses([], 1883)

    def test_text_of_an_address_can_be_read_again(self) -> None:
        for address in (Address("::1", 5), Address("host", 6)):
            assert parse_address(str(address), 1) == address

    def test_endpoints(self) -> None:
        found = [(2, 1, 6, "", ("10.0.0.1", 5)), (10, 1, 6, "", ("::1", 5, 0, 0))]
        assert endpoints_of(found) == [Endpoint(2, ("10.0.0.1", 5)), Endpoint(10, ("::1", 5))]


def endpoint(number: int) -> Endpoint:
    return Endpoint(2, (f"10.0.0.{number}", 1883))


class TestRotation:
    A, B = Address("a", 1883), Address("b", 1883)

    def rotation(self) -> Rotation:
        return Rotation([self.A, self.B], lambda: 0.0)  # a random order that is the given one

    def test_a_failed_endpoint_goes_to_the_end(self) -> None:
        rotation = self.rotation()
        three = [endpoint(1), endpoint(2), endpoint(3)]
        assert rotation.endpoints(self.A, three) == three
        rotation.failed(self.A, endpoint(1))
        assert rotation.endpoints(self.A, three) == [endpoint(2), endpoint(3), endpoint(1)]

    def test_what_worked_is_first(self) -> None:
        rotation = self.rotation()
        rotation.endpoints(self.B, [endpoint(1), endpoint(2)])
        rotation.worked(self.B, endpoint(2))
        assert rotation.addresses() == [self.B, self.A]
        assert rotation.endpoints(self.B, [endpoint(1), endpoint(2)]) == [endpoint(2), endpoint(1)]

    def test_the_resolvers_word_is_final(self) -> None:
        rotation = self.rotation()
        rotation.endpoints(self.A, [endpoint(1), endpoint(2)])
        now = [endpoint(2), endpoint(3), endpoint(3)]
        assert rotation.endpoints(self.A, now) == [endpoint(2), endpoint(3)]

    def test_new_endpoints_come_in_random_order(self) -> None:
        draw = random.Random(1).random
        some = [endpoint(number) for number in range(6)]
        orders = {tuple(Rotation([self.A], draw).endpoints(self.A, some)) for _ in range(20)}
        assert len(orders) > 10

    def test_a_reference_comes_first_and_nonsense_is_ignored(self) -> None:
        rotation = self.rotation()
        rotation.redirected("http://x other:99 b")
        assert rotation.addresses() == [Address("other", 99), self.B, self.A]


class TestBackoff:
    def test_it_doubles_up_to_a_bound(self) -> None:
        backoff = Backoff(0.1, 1.0, lambda: 0.999999)
        assert [round(backoff.delay_s(), 3) for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]

    def test_it_is_between_half_and_all(self) -> None:
        draw = random.Random(2).random
        for _ in range(100):
            assert 0.5 <= Backoff(1.0, 10.0, draw).delay_s() <= 1.0

    def test_it_never_overflows(self) -> None:
        backoff = Backoff(0.1, 30.0, lambda: 0.0)
        for _ in range(5000):
            delay_s = backoff.delay_s()
        assert delay_s == 15.0

    def test_only_a_lasting_connection_starts_it_anew(self) -> None:
        backoff = Backoff(1.0, 100.0, lambda: 0.0)
        backoff.delay_s()
        backoff.connection_lasted(STABLE_S / 2)
        assert backoff.delay_s() == 1.0
        backoff.connection_lasted(STABLE_S)
        assert backoff.delay_s() == 0.5


class World:
    """Follows a plan: names resolve as given, endpoints behave as given, pauses pass at once."""

    def __init__(
        self, names: dict[str, list[int] | Exception], works: Callable[[Endpoint], Exception | None]
    ) -> None:
        self.names = names
        self.works = works
        self.now = 0.0
        self.tried: list[Endpoint] = []
        self.pauses: list[float] = []
        self.rotation = Rotation([Address(name, 1883) for name in names], lambda: 0.0)
        self.backoff = Backoff(1.0, 8.0, lambda: 0.0)

    def dial(self, patience_s: float | None, *, pause_first: bool = False) -> None:
        plan = dial_plan(
            self.rotation, self.backoff, self.now, patience_s=patience_s, pause_first=pause_first
        )
        step = next(plan)
        for _ in range(100):
            try:
                step = plan.send(self.outcome(step))
            except StopIteration:
                return
        raise AssertionError("the plan never ends")

    def outcome(self, step: Resolve | Dial | Pause) -> Outcome:
        if isinstance(step, Pause):
            self.pauses.append(step.delay_s)
            self.now += step.delay_s
            return Outcome(self.now)
        if isinstance(step, Resolve):
            found = self.names.get(step.address.host, [99])
            if isinstance(found, Exception):
                return Outcome(self.now, error=found)
            return Outcome(self.now, [endpoint(number) for number in found])
        self.tried.append(step.endpoint)
        return Outcome(self.now, error=self.works(step.endpoint))


REFUSED = OSError("connection refused")


class TestPlan:
    def test_every_endpoint_of_every_name_once(self) -> None:
        world = World({"a": [1, 2], "b": [3]}, lambda _: REFUSED)
        with pytest.raises(ConnectFailedError) as caught:
            world.dial(0.0)
        assert world.tried == [endpoint(1), endpoint(2), endpoint(3)]
        assert len(caught.value.failures) == 3
        assert "a:1883 at 10.0.0.2:1883" in str(caught.value)

    def test_it_ends_with_the_first_that_works(self) -> None:
        world = World({"a": [1, 2], "b": [3]}, lambda one: None if one == endpoint(2) else REFUSED)
        world.dial(0.0)
        assert world.tried == [endpoint(1), endpoint(2)]
        world.dial(None, pause_first=True)
        assert world.tried[2:] == [endpoint(2)]  # where the session is
        assert len(world.pauses) == 1

    def test_a_name_without_address_is_no_reason_to_stop(self) -> None:
        world = World({"a": OSError("unknown name"), "b": [3]}, lambda _: None)
        world.dial(0.0)
        assert world.tried == [endpoint(3)]

    def test_patience(self) -> None:
        attempts = itertools.count()
        world = World({"a": [1]}, lambda _: None if next(attempts) == 4 else REFUSED)
        world.dial(60.0)
        assert world.pauses == [0.5, 1.0, 2.0, 4.0]
        impatient = World({"a": [1]}, lambda _: REFUSED)
        with pytest.raises(ConnectFailedError):
            impatient.dial(2.0)
        assert impatient.pauses == [0.5, 1.0]

    def test_a_final_refusal_ends_it(self) -> None:
        refusal = ConnectRefusedError(ReasonCode.NOT_AUTHORIZED)
        world = World({"a": [1, 2]}, lambda _: refusal)
        with pytest.raises(ConnectRefusedError):
            world.dial(None)
        assert world.tried == [endpoint(1)]

    def test_a_reference_is_followed(self) -> None:
        moved = ConnectRefusedError(ReasonCode.SERVER_MOVED, Properties(server_reference="elsewhere"))
        world = World({"a": [1]}, lambda one: moved if one == endpoint(1) else None)
        world.dial(None)
        assert world.tried == [endpoint(1), endpoint(99)]


@pytest.mark.parametrize(("error", "final"), [
    (ConnectRefusedError(ReasonCode.SERVER_BUSY), False),
    (ConnectRefusedError(ReasonCode.BANNED), True),
    (ConnectRefusedError(ReasonCode.UNSUPPORTED_PROTOCOL_VERSION), True),
    (ServerDisconnectedError(ReasonCode.SERVER_SHUTTING_DOWN), False),
    (ServerDisconnectedError(ReasonCode.SESSION_TAKEN_OVER), True),
    (ConnectionLostError("gone"), False),
    (AuthenticationFailedError("wrong"), True),
    (OSError("network"), False),
    (TimeoutError(), False),
])
def test_which_errors_are_final(error: Exception, final: bool) -> None:
    assert is_final(error) is final
