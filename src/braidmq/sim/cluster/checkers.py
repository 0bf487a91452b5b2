"""What must hold in every story, each as a function that answers with what is wrong.

They know what was seen from outside, and nothing of how nodes work. docs/cluster.md says what is promised.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from math import inf
from typing import Final

from braidmq.sim.cluster.story import Letter, Story, Wish
from braidmq.sim.cluster.trace import Connected
from braidmq.topics import matches

ON_ITS_WAY_S: Final = 3.0  # a message that nothing disturbs has arrived by then


def _obligations(story: Story) -> Iterator[tuple[Wish, Letter]]:
    """Acknowledged messages that a plain subscription must have got by the end."""
    acknowledged = [letter for letter in story.letters.values() if letter.acknowledged_by is not None]
    for wish in story.wishes:
        if wish.group is not None or not story.is_lasting(wish):
            continue
        for letter in acknowledged:
            if (
                min(letter.qos, wish.qos) >= 1
                and letter.first_s > wish.granted_s
                and matches(wish.filter, letter.topic)
            ):
                yield wish, letter


def nothing_acknowledged_is_lost(story: Story) -> list[str]:
    """(1) What was acknowledged at QoS 1 or 2 reaches every session that had its SUBACK before.

    (7) What a node gives up it counts, so no more may be missing.
    """
    lost = {
        (wish.client, letter.number): letter
        for wish, letter in _obligations(story)
        if not story.has_got(wish, letter)
        and was_told(story, wish, letter)
        and not _disk_took_it(story, letter)
    }
    wrong = [
        f"{client} never got message {number}, which {letter.acknowledged_by} acknowledged"
        for (client, number), letter in lost.items()
    ]
    return wrong if len(wrong) > story.given_up else []


def was_told(story: Story, wish: Wish, letter: Letter, since_s: float = 0.0) -> bool:
    """Whether the origin has heard of the subscription: when it was made, or in a while of a link since.

    A SUBACK waits for a peer that does not answer, but not for long. What the origin knew before `since_s`
    it has forgotten.
    """
    origin = letter.acknowledged_by
    assert origin is not None
    since_s = max(wish.granted_s, story.disks_lost.get(origin, 0.0), since_s)
    is_quiet = origin == wish.node or story.is_quiet(wish.asked_s, wish.granted_s)
    at_once = is_quiet and story.links.during(origin, wish.node, wish.asked_s, wish.granted_s)
    has_forgotten = since_s > wish.granted_s
    return (at_once and not has_forgotten) or story.links.steady(origin, wish.node, since_s, letter.first_s)


def _disk_took_it(story: Story, letter: Letter) -> bool:
    return any(story.disks_lost.get(origin, -inf) >= letter.first_s for origin in letter.origins)


def nothing_comes_twice(story: Story) -> list[str]:
    """(2) A QoS 2 subscription gets a QoS 2 message once; what is published with QoS 0 never comes twice."""
    wrong = []
    for (client, _), events in story.got.items():
        counts = Counter(event.number for event in events if not event.retain and event.qos != 1)
        for number, count in counts.items():
            qos, retain = story.letters[number].qos, story.letters[number].retain
            # What is to be retained is sent again to a node that has crashed, whatever its QoS.
            is_once = (qos == 0 and not retain) or all(
                event.qos == 2 for event in events if event.number == number
            )
            if count > 1 and is_once:
                wrong.append(f"{client} got message {number} of QoS {qos} {count} times")
    return wrong


def order_is_kept(story: Story) -> list[str]:
    """(5) Of one publisher, topic, origin and class (QoS 0; 1 and 2), messages come in their order.

    But for shared groups, in which others finish what a member has left, and for what an earlier session of
    the client had kept at a node that was away: when that is back, it comes behind what the newer one has.
    """
    wrong = []
    members = {wish.client for wish in story.wishes if wish.group is not None}
    for (client, life), events in story.got.items():
        if client in members:
            continue
        began_s = story.began_s.get((client, life), 0.0) if life > 1 else 0.0
        last: dict[object, int] = {}
        known: set[int] = set()
        for event in events:
            letter = story.letters[event.number]
            if event.retain or event.number in known or len(letter.origins) > 1 or letter.first_s < began_s:
                continue
            known.add(event.number)
            # To other nodes what is to be retained goes with QoS 1 and 2, however it is published.
            kind = letter.qos > 0, letter.retain and not letter.qos, event.qos > 0
            key = letter.publisher, letter.topic, letter.origins[0], kind
            was_repeated = letter.first_s < letter.last_s  # and the repetition may be what came
            if event.number < last.get(key, -1) and not was_repeated:
                wrong.append(f"{client} got message {event.number} behind {last[key]}")
            last[key] = max(event.number, last.get(key, -1))
    return wrong


def suback_is_a_promise(story: Story) -> list[str]:
    """(6) While nothing is broken, what is published after a SUBACK comes at QoS 0 as well."""
    wrong = []
    for wish in story.wishes:
        if wish.group is not None or story.given_up:
            continue
        for letter in story.letters.values():
            is_due = wish.granted_s < letter.first_s and letter.first_s + ON_ITS_WAY_S < wish.over_s
            if (
                is_due
                and not min(letter.qos, wish.qos)
                and matches(wish.filter, letter.topic)
                and not story.has_got(wish, letter)
                and _nothing_happened(story, wish, letter)
            ):
                wrong.append(f"{wish.client} never got message {letter.number}, published after its SUBACK")
    return wrong


def _nothing_happened(story: Story, wish: Wish, letter: Letter) -> bool:
    until_s = letter.first_s + ON_ITS_WAY_S
    return (
        len(letter.origins) == 1
        and story.is_quiet(wish.asked_s, until_s)
        and story.is_here(wish.client, wish.granted_s, until_s)
        and story.is_here(letter.publisher, letter.first_s, until_s)
        and story.links.during(letter.origins[0], wish.node, wish.asked_s, until_s)
    )


def sessions_stay(story: Story) -> list[str]:
    """A session that lasts is found again, at whatever node its client comes back while nothing is broken."""
    wrong = []
    before: dict[str, Connected] = {}
    for event in story.trace.all(Connected):
        last = before.get(event.client)
        before[event.client] = event
        if last is None or not event.lasts or event.life == last.life:
            continue
        if story.is_quiet(last.at_s, event.at_s):
            wrong.append(f"{event.client} came from {last.node} to {event.node} and found no session")
    return wrong


CHECKERS: Final[tuple[Callable[[Story], list[str]], ...]] = (
    nothing_acknowledged_is_lost,
    nothing_comes_twice,
    order_is_kept,
    suback_is_a_promise,
    sessions_stay,
)
