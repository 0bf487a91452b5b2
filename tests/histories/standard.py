"""Who must get what, written from the MQTT standard and not from the broker.

A `Ledger` is told what clients do, and owes copies of messages: to sessions by their ordinary subscriptions,
to groups by the shared ones. What arrives is taken from what is owed; what nobody owes fails on arrival. A
copy that never arrives needs an excuse (the client was away, its queue was full, its session has ended), and
the broker must have counted it.

Where the standard leaves a choice the model leaves it too: such copies are `optional`.
"""

from typing import Final, NamedTuple

from braidmq.wire import Publish

NEVER: Final = float("inf")


def matches(topic_filter: str, topic: str) -> bool:
    """Section 4.7 of the standard, level by level."""
    if topic.startswith("$") and topic_filter[:1] in ("+", "#"):
        return False
    wanted, names = topic_filter.split("/"), topic.split("/")
    for place, level in enumerate(wanted):
        if level == "#":
            return True
        if place >= len(names) or level not in ("+", names[place]):
            return False
    return len(wanted) == len(names)


class Wish(NamedTuple):
    """A subscription, as the session has it."""

    filter: str
    qos: int
    no_local: bool = False
    as_published: bool = False
    identifier: int = 0


class Letter(NamedTuple):
    """A message as it was published; its number is its payload."""

    number: int
    topic: str
    qos: int
    retain: bool
    publisher: str


class Copy:
    """One delivery that is owed to a session."""

    def __init__(self, letter: Letter, qos: int, identifiers: tuple[int, ...], retain: set[bool]) -> None:
        self.letter = letter
        self.qos = qos
        self.identifiers = identifiers
        self.retain = retain  # the values that the flag may have
        self.is_will = False  # of the session itself: how No Local counts for it is open
        self.is_replay = False  # a retained message for a new subscription
        self.is_overtaken = False  # a later one of the same topic and QoS has arrived
        self.is_optional = False
        self.excuse = ""

    def __repr__(self) -> str:
        return f"<copy of {self.letter} at QoS {self.qos}{' replayed' if self.is_replay else ''}>"


class GroupCopy:
    """One delivery that is owed to a group: one member gets it, and keeps it while it is there."""

    def __init__(self, group: "Group", letter: Letter) -> None:
        self.group = group
        self.letter = letter
        self.holder: Session | None = None
        self.is_done = False
        self.was_seen = False
        self.is_optional = False
        self.excuse = ""

    def __repr__(self) -> str:
        return f"<copy of {self.letter} for the group of {self.group.filter}>"


class Open(NamedTuple):
    """A QoS 1 or 2 delivery that the client has not answered."""

    letter: Letter
    qos: int
    shared: GroupCopy | None


class Session:
    """What the server has to remember of a client."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_here = True
        self.is_slow = False
        self.is_ending = False  # in this very moment
        self.expiry_s = 0.0
        self.away_since_s = 0.0
        self.wishes: dict[str, Wish] = {}
        self.owed: list[Copy] = []
        self.replayed: set[Letter] = set()
        self.open: dict[int, Open] = {}
        self.releasing: set[int] = set()  # PUBREC is sent, PUBCOMP isn't
        self.inbound: set[int] = set()  # identifiers of QoS 2 publishes that the client has not released

    def waiting(self) -> int:
        return sum(copy.qos > 0 and not copy.is_replay for copy in self.owed)


class Group:
    """The members of one shared subscription, and what the group is owed."""

    def __init__(self, topic_filter: str) -> None:
        self.filter = topic_filter
        self.members: dict[Session, Wish] = {}
        self.granted: dict[Session, set[int]] = {}  # every QoS ever; what was sent before may be read after
        self.copies: list[GroupCopy] = []


class Ledger:
    def __init__(self, queue_messages_max: int) -> None:
        self.queue_messages_max = queue_messages_max
        self.sessions: dict[str, Session] = {}
        self.groups: dict[tuple[str, str], Group] = {}  # by name and filter
        self.retained: dict[str, Letter] = {}
        self.letters: list[Letter] = []
        self.expires_at_s: dict[Letter, float] = {}  # of those that expire
        self.missing = 0  # copies that were given up with an excuse; the broker must have counted them
        self.uncertain = 0  # copies of which the broker may or may not have counted a drop
        self.rejected = 0

    # -- sessions

    def connected(self, name: str, *, clean: bool, expiry_s: float) -> tuple[Session, bool]:
        """The session of a client that connects, and whether it was there before."""
        if clean and name in self.sessions:
            self.ended(self.sessions[name])
        present = name in self.sessions
        session = self.sessions.setdefault(name, Session(name))
        session.is_here, session.expiry_s = True, expiry_s
        return session, present

    def disconnected(self, session: Session, now: float) -> None:
        session.is_here = session.is_slow = False
        session.away_since_s = now
        for copy in session.owed:
            # What was written and not read is lost with the connection, and replays are forgotten with it.
            if copy.qos == 0 or copy.is_replay:
                copy.is_optional = True
        for group in self.groups.values():
            for shared in group.copies if session in group.granted else ():
                if min(shared.letter.qos, *group.granted[session]) == 0 and not shared.was_seen:
                    shared.is_optional = True
        for held in session.open.values():
            # The group may give QoS 1 to another, at once or at the end of the session.
            if held.shared is not None and held.shared.holder is session and held.qos == 1:
                held.shared.holder = None
        if session.expiry_s == 0:
            self.ended(session)

    def ended(self, session: Session) -> None:
        del self.sessions[session.name]
        for copy in session.owed:
            self._give_up(copy, "the session has ended")
        self.uncertain += len(session.open)
        for held in session.open.values():
            if held.shared is not None and held.shared.holder is session:
                held.shared.holder = None
                # [MQTT-4.8.2-5] once QoS 2 has begun nobody else gets it
                held.shared.is_done = held.qos == 2
        for group in self.groups.values():
            if session in group.members:
                self._left(group, session)
                for shared in group.copies:
                    if shared.letter.qos == 2 and not shared.was_seen:
                        shared.excuse = "it may have been on its way to a member whose session has ended"

    def _left(self, group: Group, session: Session) -> None:
        del group.members[session]
        for shared in group.copies:
            if not group.members:
                shared.excuse = "its group has no members"

    def _give_up(self, copy: Copy, excuse: str) -> None:
        if copy.is_optional or copy.is_replay:
            self.uncertain += 1
        else:
            assert copy.excuse or excuse, f"{copy} is lost"
            self.missing += 1

    # -- subscriptions

    def subscribed(self, session: Session, group_name: str, wish: Wish, handling: int) -> None:
        if group_name:
            group = self.groups.setdefault((group_name, wish.filter), Group(wish.filter))
            group.members[session] = wish
            group.granted.setdefault(session, set()).add(wish.qos)
            return
        is_new = wish.filter not in session.wishes
        for copy in session.owed:
            # What a replaced subscription has not yet sent may come by the new one instead.
            copy.is_optional |= copy.is_replay and matches(wish.filter, copy.letter.topic)
        session.wishes[wish.filter] = wish
        if handling == 2 or (handling == 1 and not is_new):
            return
        for letter in self.retained.values():
            if matches(wish.filter, letter.topic):
                identifiers = (wish.identifier,) if wish.identifier else ()
                copy = Copy(letter, min(letter.qos, wish.qos), identifiers, {True})
                copy.is_replay = True
                session.replayed.add(letter)
                copy.is_optional = wish.no_local and letter.publisher == session.name
                session.owed.append(copy)

    def unsubscribed(self, session: Session, group_name: str, topic_filter: str) -> None:
        group = self.groups.get((group_name, topic_filter))
        if group is not None and session in group.members:
            self._left(group, session)
        elif not group_name:
            session.wishes.pop(topic_filter, None)
            for copy in session.owed:
                copy.is_optional |= copy.is_replay  # whatever the filter: they can't be told apart

    # -- messages

    def published(self, letter: Letter, *, is_will: bool = False) -> bool:
        """Whether anybody wants it."""
        if letter.retain:
            self._retain(letter)
        wanted = [self._owe(session, letter, is_will) for session in self.sessions.values()]
        wanted += [self._owe_group(group, letter, is_will) for group in self.groups.values() if group.members]
        return any(wanted)

    def _retain(self, letter: Letter) -> None:
        self.retained[letter.topic] = letter
        for session in self.sessions.values():
            for copy in session.owed:
                if copy.is_replay and copy.letter.topic == letter.topic:
                    copy.is_optional = True  # one that was replaced before it was sent

    def _owe(self, session: Session, letter: Letter, is_will: bool) -> bool:
        is_own = session.name == letter.publisher
        wishes = [
            wish
            for wish in session.wishes.values()
            if matches(wish.filter, letter.topic) and not (wish.no_local and is_own and not is_will)
        ]
        if not wishes:
            return False
        as_published = {wish.as_published for wish in wishes}
        identifiers = tuple(sorted(wish.identifier for wish in wishes if wish.identifier))
        qos = min(letter.qos, max(wish.qos for wish in wishes))  # [MQTT-3.3.4-2]
        copy = Copy(letter, qos, identifiers, {letter.retain and kept for kept in as_published})
        # Whether No Local holds for one's own will, and whether it reaches a session that just ends, is open.
        copy.is_will = is_will and is_own
        copy.is_optional = copy.is_will or session.is_ending
        copy.excuse = self._excuse(session, qos)
        session.owed.append(copy)
        return True

    def _excuse(self, session: Session, qos: int) -> str:
        if qos == 0:
            return "slow" if session.is_slow else "" if session.is_here else "away"
        return "the queue is full" if session.waiting() >= self.queue_messages_max else ""

    def _owe_group(self, group: Group, letter: Letter, is_will: bool) -> bool:
        if not matches(group.filter, letter.topic):
            return False
        shared = GroupCopy(group, letter)
        for member, wish in group.members.items():
            shared.is_optional |= member.is_ending or (is_will and member.name == letter.publisher)
            if min(letter.qos, wish.qos) == 0 and (member.is_slow or not member.is_here):
                shared.excuse = "it goes at QoS 0 to somebody who may not get it"
        group.copies.append(shared)
        return True

    def _expiry(self, letter: Letter) -> float:
        return self.expires_at_s.get(letter, NEVER)

    # -- arrivals

    def arrived(self, session: Session, packet: Publish, topic: str, version: int, now: float | None) -> None:
        """`now`: when it was sent, unless that is long ago."""
        letter = self.letters[int(packet.payload)]
        assert topic == letter.topic, f"{letter} has the topic {topic}"
        if packet.qos:
            held = session.open.get(packet.packet_id)
            if held is not None and packet.dup and held.letter == letter:
                assert packet.qos == held.qos, "a repetition has another QoS"
                self._holds_again(session, held)
                return
            is_free = held is None or (held.shared is not None and held.shared.holder is not session)
            assert is_free, f"{held} has identifier {packet.packet_id}, and so has {letter}"
            assert packet.packet_id not in session.releasing, "an identifier that waits for PUBCOMP"
        assert now is None or packet.dup or now < self._expiry(letter), f"{letter} has expired"
        shared = None
        if not self._take_copy(session, packet, letter, version):
            shared = self._take_shared(session, packet, letter)
        if packet.qos:
            session.open[packet.packet_id] = Open(letter, packet.qos, shared)

    def _holds_again(self, session: Session, held: Open) -> None:
        if held.shared is not None:
            assert held.shared.holder in (None, session), f"another member has {held.shared} meanwhile"
            assert not held.shared.is_done, f"{held.shared} comes again after it was done with"
            held.shared.holder = session

    def _take_copy(self, session: Session, packet: Publish, letter: Letter, version: int) -> bool:
        fitting = [copy for copy in session.owed if self._fits(copy, packet, letter, version)]
        # What is in order and certain first, so that what has an excuse is left over.
        fitting.sort(key=lambda copy: (copy.is_overtaken, copy.is_optional, copy.excuse != ""))
        if not fitting:
            return False
        copy = fitting[0]
        if not copy.is_replay:
            # One that was replayed too can't be told from the replay.
            is_told_apart = letter not in session.replayed
            assert not (copy.is_overtaken and is_told_apart), f"{copy} arrives after a later one"
            self._overtake(session, copy)
        session.owed.remove(copy)
        return True

    def _fits(self, copy: Copy, packet: Publish, letter: Letter, version: int) -> bool:
        identifiers = tuple(sorted(packet.properties.subscription_identifiers))
        return (
            copy.letter == letter
            and (copy.qos == packet.qos or (copy.is_will and packet.qos <= letter.qos))
            and (copy.is_optional or packet.retain in copy.retain)
            and (version < 5 or copy.is_optional or identifiers == copy.identifiers)
        )

    def _overtake(self, session: Session, copy: Copy) -> None:
        """[MQTT-4.6.0-5] and -6: in order, for one publisher, topic and QoS."""
        for earlier in session.owed[: session.owed.index(copy)]:
            same = (earlier.letter.publisher, earlier.letter.topic, earlier.letter.qos, earlier.qos) == (
                copy.letter.publisher, copy.letter.topic, copy.letter.qos, copy.qos,
            )
            if same and not earlier.is_replay:
                earlier.is_overtaken = True

    def _take_shared(self, session: Session, packet: Publish, letter: Letter) -> GroupCopy:
        fitting = [
            shared
            for group in self.groups.values()
            if packet.qos in {min(letter.qos, qos) for qos in group.granted.get(session, ())}
            for shared in group.copies
            if shared.letter == letter and not shared.is_done and self._may_have(shared, session)
        ]
        assert fitting, f"nobody owes {session.name} another copy of {letter} at QoS {packet.qos}"
        shared = min(fitting, key=lambda shared: (shared.was_seen, shared.is_optional, shared.excuse != ""))
        self._forget(shared)
        shared.was_seen = True
        shared.holder = session
        shared.is_done = packet.qos == 0
        return shared

    def _forget(self, shared: GroupCopy) -> None:
        """It comes anew: who had it before has it no more."""
        for session in self.sessions.values():
            for packet_id, held in list(session.open.items()):
                if held.shared is shared:
                    del session.open[packet_id]

    def _may_have(self, shared: GroupCopy, session: Session) -> bool:
        holder = shared.holder
        return holder is None or (holder is not session and holder not in shared.group.members)

    def answered(self, session: Session, packet_id: int, *, refused: bool) -> None:
        """The client has sent PUBACK or PUBREC."""
        held = session.open.pop(packet_id)
        if held.qos == 2 and not refused:
            session.releasing.add(packet_id)
        if held.shared is not None and held.shared.holder is session:
            held.shared.is_done = True
        self.rejected += refused

    # -- the end

    def close(self, now: float) -> None:
        """Everybody has read and answered everything: what hasn't arrived needs an excuse."""
        for session in self.sessions.values():
            for copy in session.owed:
                assert not copy.is_replay or copy.is_optional, f"{copy} never came"
                self._give_up(copy, "expired" if self._expiry(copy.letter) <= now else "")
        for group in self.groups.values():
            for shared in group.copies:
                self._close_shared(shared, now)

    def _close_shared(self, shared: GroupCopy, now: float) -> None:
        if shared.is_done and shared.was_seen:
            return
        if shared.was_seen or shared.is_optional:
            self.uncertain += 1
            return
        assert shared.excuse or self._expiry(shared.letter) <= now, f"{shared} is lost"
        self.missing += 1
