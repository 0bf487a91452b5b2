"""(3) What must hold for shared groups: each message reaches one member, and only at QoS 1 perhaps another.

Members of a group have one QoS, no other subscriptions, and all last or none: what they get is their group's.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Final

from braidmq.sim.cluster.checkers import was_told
from braidmq.sim.cluster.story import Letter, Story, Wish
from braidmq.sim.cluster.trace import Connected, Got, Subscribing
from braidmq.topics import matches


def _groups(story: Story) -> dict[tuple[str, str], list[Wish]]:
    found: dict[tuple[str, str], list[Wish]] = defaultdict(list)
    for wish in story.wishes:
        if wish.group is not None:
            found[wish.group, wish.filter].append(wish)
    return found


def _got_by(story: Story, group: str, filter: str) -> dict[int, list[Got]]:
    """What members got, by the message; a member is who has ever asked to be one."""
    wanted = f"$share/{group}/{filter}"
    members = {event.client for event in story.trace.all(Subscribing) if event.filter == wanted}
    found: dict[int, list[Got]] = defaultdict(list)
    for event in story.trace.all(Got):
        if event.client in members:
            found[event.number].append(event)
    return found


def one_member_gets_it(story: Story) -> list[str]:
    """QoS 2 and QoS 0 reach one member once; QoS 1 too, while nothing is broken and nobody goes."""
    wrong = []
    for name, filter in _groups(story):
        for number, events in _got_by(story, name, filter).items():
            qos = story.letters[number].qos
            may_repeat = events[0].qos == 1 or (qos and events[0].qos == 0)
            if len(events) > 1 and not (may_repeat and _was_disturbed(story, events)):
                who = ", ".join(event.client for event in events)
                wrong.append(
                    f"message {number} of QoS {qos} came {len(events)} times to {name} {filter}: {who}"
                )
    return wrong


def _was_disturbed(story: Story, events: list[Got]) -> bool:
    """Whether anything happened by which a message of QoS 1 may come again."""
    letter = story.letters[events[0].number]
    from_s, to_s = letter.first_s, events[-1].at_s
    stayed = all(story.is_here(event.client, from_s, to_s) for event in events)
    return not (stayed and letter.first_s == letter.last_s and story.is_quiet(from_s, to_s))


def every_message_finds_a_member(story: Story) -> list[str]:
    """What was acknowledged at QoS 1 or 2 reaches some member, if one was there before and lasts."""
    wrong = []
    for (name, filter), wishes in _groups(story).items():
        if not all(_lasts(story, wish.client) for wish in wishes):
            continue
        got = _got_by(story, name, filter)
        missing = [letter for number, letter in story.letters.items() if number not in got]
        wrong += [
            f"nobody of {name} {filter} got message {letter.number}"
            for letter in missing
            if _is_owed(story, wishes, letter)
        ]
    return wrong if len(wrong) > story.given_up else []


def _lasts(story: Story, client: str) -> bool:
    return all(event.lasts for event in story.trace.all(Connected) if event.client == client)


def _is_owed(story: Story, wishes: list[Wish], letter: Letter) -> bool:
    if letter.acknowledged_by is None or min(letter.qos, wishes[0].qos) < 1:
        return False
    if any(at_s >= letter.first_s for at_s in story.disks_lost.values()):
        return False  # the group may have been there
    # Which groups others have a node forgets when it stops.
    started_s = story.last_start_s(letter.acknowledged_by, letter.last_s)
    return matches(wishes[0].filter, letter.topic) and any(
        wish.granted_s < letter.first_s
        and story.is_lasting(wish)
        and was_told(story, wish, letter, started_s)
        for wish in wishes
    )


GROUP_CHECKERS: Final[tuple[Callable[[Story], list[str]], ...]] = (
    one_member_gets_it,
    every_message_finds_a_member,
)
