"""Another node of the cluster: a `Peer` in the fan-out, and the `PeerLane` of the link to it.

A peer is a receiver like others, with a queue like a session's. Plain QoS 0 messages go to it as they are, slice by
slice, while there is a link. QoS 1, QoS 2 and retained messages are entries of one ordered stream: noted for the
store, sent when it has them, and kept until the peer has acknowledged them. Numbers of entries only grow, over
restarts too (the boot is their upper part); gaps are allowed.

Exactly once. What an entry brings about here, and the number of the last one taken (PEER_POSITION), are noted in the
same turn, and the acknowledgement leaves when the store has that turn. So after a crash either all of it is there,
and the entry is known by its number when it comes again; or nothing is, and it was not acknowledged.
"""

from collections import deque

from braidmq.broker.backlog cimport Ring, Waiting
from braidmq.broker.counters cimport (
    DROP_EXPIRED, DROP_PACKET_TOO_LARGE, DROP_PEER_AWAY, DROP_PEER_GONE, DROP_QUEUE_FULL,
)
from braidmq.broker.hub cimport Hub
from braidmq.broker.lane cimport Answer
from braidmq.broker.outlet cimport DROPPED, TAKEN_FULL, Forwarded
from braidmq.broker.peer_frames cimport PUBLISHED, ROUTE_GROUPS
from braidmq.broker.peer_outlet cimport PeerOutlet, run_head, write_number
from braidmq.broker.queued cimport QueuedReceiver
from braidmq.broker.receiver cimport Frames, Outcome, Run, Target
from braidmq.broker.watching cimport WATCH_DELIVERED
from braidmq.messages.message cimport Message, write_publish
from braidmq.wire.buffer cimport ByteBuffer

from braidmq.broker.publishing import groups_of
from braidmq.errors import ProtocolError
from braidmq.store.records import PEER_POSITION, SESSION, SESSION_ENDED

cdef enum:
    SENT_BYTES_MAX = 8 * 1024 * 1024      # of entries that aren't acknowledged, as they are counted; the rest waits
    BODY_BYTES_MAX = 268_000_000          # about what a remaining length can say
    UNPAGED_BYTES_MAX = 16 * 1024 * 1024  # of what waits in memory, where there is a disk
    FETCHED_BELOW = 64                    # entries that are left in memory when the next page is read
    PROTOCOL_ERROR = 0x82

CLIENT_ID_PREFIX = "$peer/"
cdef double FOR_EVER = float("inf")

# What an entry has that carries no message.
cdef Message NO_MESSAGE = Message(b"", b"", qos=1)


def client_id_of(unsigned long long node):
    """The name under which the store has what waits for a peer."""
    return f"{CLIENT_ID_PREFIX}{node:016x}"


def node_of(str client_id not None):
    """Which peer a name in the store stands for."""
    return int(client_id[len(CLIENT_ID_PREFIX):], 16)


cdef class PeerTarget(Target):
    """A peer, and what a message that goes there is for."""

    def __init__(self, Peer peer not None, bytes route not None):
        Target.__init__(self, peer, 2, True, bytes((PUBLISHED,)) + route)

    @property
    def route(self):
        return self.identifiers[1:]


cdef class Peer(QueuedReceiver):
    """A node that is remembered. Its entries are numbered from `first_sequence` on, or from what was restored."""

    def __init__(self, Hub hub not None, unsigned long long node, unsigned long long first_sequence=0,
                 bint keeps=True):
        QueuedReceiver.__init__(self, hub, client_id_of(node))
        self.node = node
        self.is_remembered = hub.promises.journal is not None
        self.sent = Ring.__new__(Ring)
        self.awaited = deque()
        self.met(first_sequence, keeps)

    def met(self, unsigned long long first_sequence, bint keeps):
        """It is part of the cluster, for which numbers begin anew with every start of ours."""
        self.last_sequence = max(self.last_sequence, first_sequence)
        self.keeps = keeps
        self.behind_since_s = self.behind_since_s or self.hub.now

    def remember(self):
        """Note for the store that there is a queue for it."""
        if self.is_remembered:
            self.hub.promises.journal.append((SESSION, self.client_id, None, FOR_EVER))

    def restore_position(self, unsigned long long taken):
        """Up to where its entries were taken before a restart."""
        self.taken = self.kept = taken

    # ---- it comes and goes ---------------------------------------------------------------------------

    def attach(self, PeerOutlet lane not None, unsigned long long position):
        """There is a link, and the peer has kept our entries up to `position`: send the others again."""
        cdef Py_ssize_t index
        cdef Waiting* waiting
        self.outlet = self.lane = lane
        self.is_dead = False
        self.last_sequence = max(self.last_sequence, position)    # or it would take new ones for old ones
        self.settle_sent(position)
        self.settle_waiting(position)
        for index in range(self.sent.count):
            waiting = self.sent.at(index)
            lane.write_entry(<Message>waiting.message, (<Target>waiting.target).identifiers, waiting.sequence)
        self.pump_more()

    def detach(self):
        """The link is gone."""
        self.outlet = self.lane = None
        self._wait_no_longer()
        self.note_pageable()

    def died(self):
        """Nobody counts on it any more. What it can't remember to have missed isn't kept for it."""
        self.is_dead = True
        if not self.keeps:
            self.give_up()
            self.remember()

    def give_up(self):
        """Drop what waits for it, in memory and in the store."""
        while self.sent.count:
            self.hub.drop_message(DROP_PEER_GONE, <object>self.sent.at(0).message, self.client_id)
            self.sent.remove_first()
        self.sent_bytes = 0
        self.give_up_queue(DROP_PEER_GONE)
        if self.is_remembered:
            self.hub.promises.journal.append((SESSION_ENDED, self.client_id))

    def forget(self):
        """It is no longer part of the cluster."""
        self.give_up()
        if self.is_remembered:
            self.hub.promises.journal.append((PEER_POSITION, self.node, 0))

    # ---- QoS 0 ---------------------------------------------------------------------------------------

    cdef int forward(self, Run run, Target target, Outcome outcome) except -1:
        cdef Frames frames
        if self.lane is None:
            self.hub.counters.drop(DROP_PEER_AWAY, run.frames.count)
            return 0
        frames = run.in_version(True)
        return self.write(target, run.publisher, frames, outcome)

    cdef int write(self, Target target, str publisher, Frames frames, Outcome outcome) except -1:
        """Give plain frames to the link, with a header if they are for groups."""
        cdef Forwarded forwarded
        if target.identifiers[1] & ROUTE_GROUPS:
            self.forwarded_qos0 += self.lane.write_runs(
                run_head(target.identifiers, publisher), frames.start, frames.end, outcome)
            return 0
        forwarded = self.lane.write_run(None, frames.start, frames.end - frames.start, frames.count)
        if forwarded != DROPPED:
            self.forwarded_qos0 += frames.count
        if forwarded == TAKEN_FULL:
            outcome.congested = self.lane
        return 0

    cdef int pass_on(self, Message message, Target target, Outcome outcome) except -1:
        """Send a QoS 0 message that has to be written."""
        cdef ByteBuffer frame = ByteBuffer.__new__(ByteBuffer)
        if self.lane is None:
            return self.hub.drop_message(DROP_PEER_AWAY, message, self.client_id)
        write_publish(frame, message, True, 0, False, False, 0, b"", 0, False, self.hub.now)
        self.tell_forwarded(message, frame.size())
        return self.write(target, message.publisher,
                          Frames(frame.start(), frame.start() + frame.size(), 1, frame.size()), outcome)

    # ---- the stream of entries -----------------------------------------------------------------------

    cdef int deliver(self, Message message, Target target, Outcome outcome) except -1:
        if message.qos == 0 and not message.retain:
            return self.pass_on(message, target, outcome)
        if message.cost() + len(target.identifiers) > BODY_BYTES_MAX:
            return self.hub.drop_message(DROP_PACKET_TOO_LARGE, message, self.client_id)
        if not self.lacks_room(message.cost()):
            return self.put_in(message, target, outcome)
        if self.is_dead:
            return self.hub.drop_message(DROP_PEER_GONE, message, self.client_id)
        outcome.is_refused = True
        return self.hub.drop_message(DROP_QUEUE_FULL, message, self.client_id)

    def enter(self, int kind, bytes head not None, Message message, bytes route not None):
        """Put an entry of any kind into the stream; what the cluster itself has to say is never refused."""
        cdef unsigned char length[10]
        cdef bytes text = b""
        if kind != PUBLISHED:
            text = (<char*>length)[:write_number(length, len(head))] + head
        self.put_in(message if message is not None else NO_MESSAGE,
                    Target(self, 2, True, bytes((kind,)) + text + route), None)

    cdef bint is_full(self, Py_ssize_t cost) noexcept:
        return not self.is_dead and self.lacks_room(cost)    # the dead never stop the living

    cdef bint lacks_room(self, Py_ssize_t cost) noexcept:
        """Whether the stream has no place for a message of that cost. An empty one has for any."""
        cdef Py_ssize_t limit = self.hub.peer_queue_bytes_max
        if self.queue is None:
            return False
        if self.hub.pager is None and self.hub.is_tight():
            limit = min(limit, SENT_BYTES_MAX)    # there is no disk to which it could go
        return self.queue_bytes + self.sent_bytes + cost > limit

    cdef bint may_send(self) noexcept:
        return self.lane is not None and self.sent_bytes < SENT_BYTES_MAX

    cdef int put_in(self, Message message, Target target, Outcome outcome) except -1:
        self.last_sequence += 1
        if self.hub.awaits_peers and self.lane is not None and outcome is not None:
            outcome.awaited = outcome.awaited or []
            outcome.awaited.append((self, self.last_sequence))
        if self.sent.count == 0 and self.queue is None:
            self.behind_since_s = self.hub.now
        self.note_queued(message, target, 1, False, self.last_sequence)
        if self.queue is None and self.may_send():
            return self.send(message, target, self.last_sequence)
        self.wait(message, target, 1, False, self.last_sequence)
        if self.queue.memory_bytes > UNPAGED_BYTES_MAX and self.hub.pager is not None:
            # A peer's queue may be large: it goes to disk in small parts, or it would stop everybody for seconds.
            self.hub.pager.page_out_now(self)
        if self.hub.watching.message_audience is not None:
            why = "there is no link" if self.lane is None else "the node is behind"
            self.hub.watching.message_audience.queued(message, self.client_id, None, why)
        return 0

    cdef int send(self, Message message, Target target, unsigned long long sequence) except -1:
        self.sent.add(message, target, 1, False, sequence)
        self.sent_bytes += message.cost()
        self.forwarded_entries += 1
        if len(message.topic):
            self.tell_forwarded(message, message.cost())
        return self.lane.write_entry(message, target.identifiers, sequence)

    cdef int tell_forwarded(self, Message message, Py_ssize_t size) except -1:
        if self.hub.watching.wanted & WATCH_DELIVERED:
            self.hub.watching.message_audience.delivered(message, self.client_id, message.qos, 0, False,
                                                         message.retain, size)
        return 0

    cdef int pump_more(self) except -1:
        while self.queue is not None and self.queue.head.count and self.may_send():
            self.send_waiting()
        if self.queue is not None and self.queue.page_count() and self.may_send():
            if self.queue.head.count < FETCHED_BELOW:
                self.hub.pager.fetch(self)
        return 0

    cdef int send_waiting(self) except -1:
        """Send the first that waits in memory, unless it has expired meanwhile and nobody else counts on it."""
        cdef Waiting* waiting = self.queue.head.at(0)
        cdef Message message = <Message>waiting.message
        cdef Target target = <Target>waiting.target
        cdef unsigned long long sequence = waiting.sequence
        self.take_first()
        if (message.expires_at_s and self.hub.now >= message.expires_at_s and not message.retain
                and target.identifiers[0] == PUBLISHED):
            self.settle(sequence)
            return self.hub.drop_message(DROP_EXPIRED, message, self.client_id)
        return self.send(message, target, sequence)

    def group_messages(self):
        """(number of a shared group, message) of what it has not acknowledged, and another node may have as well.

        It may have given what was sent to a member, which QoS 2 does not bear.
        """
        cdef Waiting* waiting
        cdef Py_ssize_t index
        found = []
        for index in range(self.sent.count):
            waiting = self.sent.at(index)
            if (<Message>waiting.message).qos == 1:
                found.append((<Message>waiting.message, (<Target>waiting.target).identifiers))
        found += [(delivery.message, delivery.target.identifiers) for delivery in self.queue or ()]
        return [(number, message) for message, head in found if head[0] == PUBLISHED and head[1] & ROUTE_GROUPS
                for number in groups_of(head[1:])]

    def acknowledged(self, unsigned long long position, refused):
        """The peer has kept all entries up to `position`; of them, somebody there had no room for `refused`."""
        if position > self.last_sequence:
            raise ProtocolError(PROTOCOL_ERROR, "an entry is acknowledged that was never sent")
        self.refused += len(refused)
        self.settle_sent(position)
        while self.awaited and self.awaited[0][0] <= position:
            number, answer = self.awaited.popleft()
            answer.taken(number in refused)
        self.pump_more()

    def tell_when_taken(self, unsigned long long number, Answer answer not None):
        """Tell `answer` when the peer has that entry, or is no longer linked."""
        self.awaited.append((number, answer))

    def _wait_no_longer(self):
        while self.awaited:
            self.awaited.popleft()[1].taken(False)

    cdef int settle_sent(self, unsigned long long position) except -1:
        """Forget what was sent up to there; the store is told all of it in one record."""
        while self.sent.count and self.sent.at(0).sequence <= position:
            self.settle(self.sent.at(0).sequence)
            self.sent_bytes -= (<Message>self.sent.at(0).message).cost()
            self.sent.remove_first()
        return 0

    cdef int settle_waiting(self, unsigned long long position) except -1:
        """The same for what waits, after a restart of ours: it may have been sent before."""
        self.settled_up_to = position
        while self.queue is not None:
            if self.queue.head.count:
                if self.queue.head.at(0).sequence > position:
                    break
                self.settle(self.queue.head.at(0).sequence)
                self.take_first()
            elif self.queue.pages[self.queue.page_begin].last <= position:
                self.hub.pager.pass_page(self)
            else:
                break    # what of that page is settled is left out when it is read
        return 0

    cdef bint pages_all(self) noexcept:
        return True    # what waits here waits for acknowledgements, and may be far more than a session's

    # ---- to look at ----------------------------------------------------------------------------------

    def unacknowledged(self):
        """The entries that were sent and aren't acknowledged: (number, message, head) of each."""
        cdef Py_ssize_t index
        cdef Waiting* waiting
        found = []
        for index in range(self.sent.count):
            waiting = self.sent.at(index)
            found.append((waiting.sequence, <object>waiting.message, (<Target>waiting.target).identifiers))
        return found

    @property
    def is_linked(self):
        return self.lane is not None

    @property
    def queued_count(self):
        """Entries that the peer has yet to acknowledge."""
        return self.sent.count + self.queued

    @property
    def queued_bytes(self):
        return self.sent_bytes + self.queue_bytes

    @property
    def oldest_s(self):
        """For how long, since a restart of ours, there has been something to acknowledge; 0 if there is nothing."""
        return self.hub.now - self.behind_since_s if self.queued_count else 0.0

    def check(self):
        """Assert the peer's invariants (for tests)."""
        QueuedReceiver.check(self)
        numbers = [number for number, _, _ in self.unacknowledged()] + [
            waiting.sequence for waiting in self.queue or ()]
        assert numbers == sorted(set(numbers))
        assert self.sent_bytes == sum([(<Message>message).cost() for _, message, _ in self.unacknowledged()])
        assert self.kept <= self.taken
        assert not self.queued_count or self.behind_since_s
