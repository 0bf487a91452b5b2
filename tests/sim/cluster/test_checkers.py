"""Each checker finds what it is there for, in a trace made by hand, and lets pass what is allowed."""

import pytest

from braidmq.sim.cluster import checkers, group_checkers
from braidmq.sim.cluster.story import Story
from braidmq.sim.cluster.trace import (
    Acknowledged,
    Broken,
    Connected,
    Disconnected,
    Dropped,
    Event,
    Got,
    LinksChanged,
    Mended,
    NodeCrashed,
    NodeStarted,
    Published,
    Subscribed,
    Subscribing,
    Trace,
    Unsubscribing,
)

BEGINNING: list[Event] = [
    NodeStarted(0.0, "n1"),
    NodeStarted(0.0, "n2"),
    LinksChanged(0.1, "n1", ("n2",)),
    LinksChanged(0.2, "n2", ("n1",)),
    Connected(1.0, "pub", "n1", 1, lasts=True),
    Connected(1.0, "sub", "n2", 1, lasts=True),
    Subscribing(2.0, "sub", 1, "a/#", 2, "n2"),
    Subscribed(2.1, "sub", 1, "a/#", 2, "n2", 2.0),
]


def story(*events: Event) -> Story:
    found = [*BEGINNING, *events]
    return Story(Trace(sorted(found, key=lambda event: event.at_s)))


def published(number: int, at_s: float, qos: int = 1, node: str = "n1", topic: str = "a/1") -> Published:
    return Published(at_s, "pub", number, topic, qos, False, node)


def got(number: int, at_s: float, qos: int = 1, life: int = 1) -> Got:
    return Got(at_s, "sub", life, number, "a/1", qos, False, "n2")


def acknowledged(number: int, at_s: float, node: str = "n1") -> Acknowledged:
    return Acknowledged(at_s, "pub", number, node)


class TestLoss:
    check = staticmethod(checkers.nothing_acknowledged_is_lost)

    def test_an_acknowledged_message_that_never_comes_is_found(self) -> None:
        assert "message 1" in self.check(story(published(1, 3.0), acknowledged(1, 3.1)))[0]

    def test_one_that_comes_is_not_lost(self) -> None:
        assert not self.check(story(published(1, 3.0), acknowledged(1, 3.1), got(1, 9.0)))

    @pytest.mark.parametrize(
        "events",
        [
            [published(1, 3.0)],  # nobody has acknowledged it
            [published(1, 2.05), acknowledged(1, 2.06)],  # before the SUBACK
            [published(1, 3.0, qos=0), acknowledged(1, 3.1)],
            [published(1, 3.0, topic="b"), acknowledged(1, 3.1)],
            [published(1, 3.0), acknowledged(1, 3.1), Unsubscribing(4.0, "sub", 1, "a/#")],
            [published(1, 3.0), acknowledged(1, 3.1), NodeCrashed(4.0, "n1", loses_disk=True)],
            [published(1, 3.0), acknowledged(1, 3.1), Connected(5.0, "sub", "n2", 2, lasts=True)],
        ],
    )
    def test_what_was_not_promised_may_be_lost(self, events: list[Event]) -> None:
        assert not self.check(story(*events))

    def test_an_origin_that_was_not_linked_owes_nothing_until_it_has_been_for_a_while(self) -> None:
        away = [LinksChanged(1.5, "n1", ()), published(1, 3.0), acknowledged(1, 3.1)]
        assert not self.check(story(*away))
        back = [LinksChanged(4.0, "n1", ("n2",)), published(2, 6.0), acknowledged(2, 6.1)]
        assert ["message 2" in line for line in self.check(story(*away, *back))] == [True]

    def test_a_subscription_with_qos_0_is_promised_nothing(self) -> None:
        again = [Subscribing(2.5, "sub", 1, "a/#", 0, "n2"), Subscribed(2.6, "sub", 1, "a/#", 0, "n2", 2.5)]
        assert not self.check(story(*again, published(1, 3.0), acknowledged(1, 3.1)))

    def test_what_was_given_up_has_to_be_counted(self) -> None:
        missing = [published(1, 3.0), acknowledged(1, 3.1), published(2, 3.2), acknowledged(2, 3.3)]
        one, two = (Dropped(9.0, "n2", (("dropped_queue_full", count),)) for count in (1, 2))
        assert len(self.check(story(*missing, one))) == 2
        assert not self.check(story(*missing, two))


class TestTwice:
    check = staticmethod(checkers.nothing_comes_twice)

    def test_qos_2_that_comes_twice_is_found(self) -> None:
        assert self.check(story(published(1, 3.0, qos=2), got(1, 3.1, qos=2), got(1, 3.2, qos=2)))

    def test_qos_0_that_comes_twice_is_found(self) -> None:
        assert self.check(story(published(1, 3.0, qos=0), got(1, 3.1, qos=0), got(1, 3.2, qos=0)))

    def test_qos_1_may_come_twice_and_a_new_session_has_its_own_count(self) -> None:
        assert not self.check(story(published(1, 3.0), got(1, 3.1), got(1, 3.2)))
        again = [published(1, 3.0, qos=2), got(1, 3.1, qos=2), got(1, 3.2, qos=2, life=2)]
        assert not self.check(story(*again))


class TestOrder:
    check = staticmethod(checkers.order_is_kept)

    def test_what_overtakes_is_found(self) -> None:
        assert self.check(story(published(1, 3.0), published(2, 3.0), got(2, 3.1), got(1, 3.2)))

    @pytest.mark.parametrize(
        "events",
        [
            [published(1, 3.0), published(2, 3.0, qos=0), got(2, 3.1, qos=0), got(1, 3.2)],  # another class
            [published(1, 3.0), published(2, 3.0, topic="a/2"), got(2, 3.1), got(1, 3.2)],
            [published(1, 3.0), published(2, 3.0, node="n2"), got(2, 3.1), got(1, 3.2)],
            [published(1, 3.0), published(2, 3.0), got(1, 3.1), got(2, 3.2), got(1, 3.3), got(2, 3.4)],
        ],
    )
    def test_what_may_overtake_is_let_pass(self, events: list[Event]) -> None:
        assert not self.check(story(*events))

    def test_what_an_earlier_session_had_kept_may_come_late(self) -> None:
        again = Connected(3.5, "sub", "n2", 2, lasts=True)
        late = [published(2, 4.0), got(2, 4.1, life=2), got(1, 4.2, life=2)]
        assert not self.check(story(published(1, 3.0), again, *late))
        assert self.check(story(published(1, 3.6), again, *late))


class TestSuback:
    check = staticmethod(checkers.suback_is_a_promise)

    def test_what_is_missed_after_a_suback_while_nothing_is_broken_is_found(self) -> None:
        assert self.check(story(published(1, 2.2, qos=0)))
        assert not self.check(story(published(1, 2.2, qos=0), got(1, 2.3, qos=0)))

    @pytest.mark.parametrize(
        "events",
        [
            [Broken(1.0, "way"), Mended(1.5, "way")],
            [Broken(1.0, "way")],
            [NodeCrashed(4.0, "n2", loses_disk=False)],
            [Disconnected(4.0, "sub", "n2")],
            [LinksChanged(1.2, "n2", ())],
            [Unsubscribing(4.0, "sub", 1, "a/#")],
        ],
    )
    def test_what_is_disturbed_is_let_pass(self, events: list[Event]) -> None:
        assert not self.check(story(published(1, 2.2, qos=0), *events))


def joined(client: str, at_s: float, qos: int = 2) -> list[Event]:
    return [
        Connected(at_s, client, "n2", 1, lasts=True),
        Subscribing(at_s, client, 1, "$share/g/a/#", qos, "n2"),
        Subscribed(at_s + 0.1, client, 1, "$share/g/a/#", qos, "n2", at_s),
    ]


def member_got(client: str, number: int, at_s: float, qos: int = 2) -> Got:
    return Got(at_s, client, 1, number, "a/1", qos, False, "n2")


class TestGroups:
    def test_qos_2_at_two_members_is_found(self) -> None:
        events = [*joined("m1", 2.0), *joined("m2", 2.0), published(1, 3.0, qos=2), member_got("m1", 1, 3.1)]
        assert not group_checkers.one_member_gets_it(story(*events))
        assert group_checkers.one_member_gets_it(story(*events, member_got("m2", 1, 3.2)))

    def test_qos_1_may_come_again_only_if_something_happened(self) -> None:
        events = [
            *joined("m1", 2.0, qos=1),
            *joined("m2", 2.0, qos=1),
            published(1, 3.0),
            member_got("m1", 1, 3.1, qos=1),
            member_got("m2", 1, 3.5, qos=1),
        ]
        assert group_checkers.one_member_gets_it(story(*events))
        assert not group_checkers.one_member_gets_it(story(*events, Disconnected(3.3, "m1", "n2")))

    def test_a_message_that_finds_no_member_is_found(self) -> None:
        events = [*joined("m1", 2.0), published(1, 3.0), acknowledged(1, 3.1)]
        assert group_checkers.every_message_finds_a_member(story(*events))
        assert not group_checkers.every_message_finds_a_member(
            story(*events, member_got("m1", 1, 4.0, qos=1))
        )
        lost = NodeCrashed(4.0, "n2", loses_disk=True)
        assert not group_checkers.every_message_finds_a_member(story(*events, lost))


class TestSessions:
    check = staticmethod(checkers.sessions_stay)

    def test_a_session_that_is_not_found_again_is_found(self) -> None:
        gone = Disconnected(3.0, "sub", "n2")
        assert self.check(story(gone, Connected(4.0, "sub", "n1", 2, lasts=True)))
        assert not self.check(story(gone, Connected(4.0, "sub", "n1", 1, lasts=True)))
        assert not self.check(story(gone, Connected(4.0, "sub", "n1", 2, lasts=False)))
        assert not self.check(story(gone, Broken(3.5, "way"), Connected(4.0, "sub", "n1", 2, lasts=True)))
