"""SUBACK waits until others know of the subscription, if there are others."""

from collections.abc import Callable

from braidmq.wire import Publish, Suback, Subscribe, Subscription, Unsuback, Unsubscribe
from tests.broker.world import SlowStore, World


class Others:
    """They have seen everything when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def when_seen(self, then: Callable[[], None]) -> None:
        self.waiting.append(then)

    def see_all(self, world: World) -> None:
        world.broker.turn(world.now)
        for then in self.waiting:
            then()
        self.waiting.clear()
        world.broker.hub.end_turn()


def with_others(store: SlowStore | None = None) -> tuple[World, Others]:
    world, others = World(store), Others()
    world.broker.announcements = others
    return world, others


def ask(packet_id: int, *filters: str) -> Subscribe:
    return Subscribe(packet_id, tuple(Subscription(filter, 1) for filter in filters))


def test_a_suback_waits_and_nothing_else_does() -> None:
    world, others = with_others()
    client = world.connect("one")
    client.send(ask(1, "a"), ask(2, "b", "bad/#/filter"))
    client.send(Publish("a", b"now", 0))
    client.send(Unsubscribe(3, ("b",)))
    first, second = client.read()
    assert isinstance(first, Publish), "the subscription is in force"
    assert isinstance(second, Unsuback)
    others.see_all(world)
    answers = client.read()
    assert [answer.packet_id for answer in answers if isinstance(answer, Suback)] == [1, 2]


def test_who_has_gone_meanwhile_is_not_answered() -> None:
    world, others = with_others()
    client = world.connect("one")
    client.send(ask(1, "a"))
    client.vanish()
    again = world.connect("one")
    others.see_all(world)
    assert again.read() == []
    again.send(ask(1, "a"))
    others.see_all(world)
    assert isinstance(again.expect(Suback), Suback)


def test_a_suback_that_is_too_large_ends_the_connection_later() -> None:
    world, others = with_others()
    client = world.connect("one")
    client.connection.speak(5, 8)
    client.send(ask(1, *(f"t/{number}" for number in range(20))))
    others.see_all(world)
    assert client.is_closed


def test_the_store_has_the_subscription_before_the_answer_leaves() -> None:
    store = SlowStore()
    world, others = with_others(store)
    client = world.connect("one")
    store.keep_all()
    client.read()
    client.send(ask(1, "a"))
    others.see_all(world)
    assert client.read() == []
    store.keep_all()
    client.expect(Suback)
