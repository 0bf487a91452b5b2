"""Every interleaving of sending, losing, acknowledging and reconnecting that hypothesis can think of.

The wires carry bytes in pieces of any size; a cut loses whatever is on them. Promises: nothing acknowledged
is lost, QoS 2 arrives exactly once in both directions, order of first arrival is order of sending, and
neither side exceeds the other's receive maximum (the model server and the session raise if so).
"""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from braidmq.client._batch import Message
from braidmq.client.events import Closed, Completed, Connected, Event, Failed
from braidmq.client.options import SessionOptions
from braidmq.client.session import Session, State
from braidmq.wire import Properties, Publish, Subscription
from tests.client.model_server import ModelServer

# How much of a wire arrives at once: mostly all, so that a conversation gets somewhere.
PIECES = st.sampled_from([1, 7, 1000, 1000, 1000])


class Conversation(RuleBasedStateMachine):
    """A session and a server that keeps sessions, over a network that does what it likes."""

    @initialize(ours=st.integers(1, 4), theirs=st.integers(1, 4))
    def start(self, ours: int, theirs: int) -> None:
        self.session = Session(SessionOptions(
            client_id="c", clean_start=False, session_expiry_s=1000, receive_maximum=ours, keep_alive_s=0
        ))
        self.server = ModelServer(Properties(receive_maximum=theirs), hold_acks=True)
        self.to_server = bytearray()
        self.to_client = bytearray()
        self.sent: dict[int, tuple[bytes, int]] = {}  # token -> payload, QoS
        self.completed: set[int] = set()
        self.given: list[tuple[bytes, int]] = []  # what the server had for the application
        self.got: list[tuple[bytes, int]] = []  # what the application took
        self.held: list[Message] = []  # taken and not acknowledged
        self.serial = 0
        self.subscribing = self.session.subscribe([Subscription("down", 2)])
        self.client_connects(True)

    def payload(self) -> bytes:
        self.serial += 1
        return b"%d" % self.serial

    def gather(self) -> None:
        """Puts what both sides have to say on the wires."""
        self.to_server += self.session.data_to_send(0.0)
        if self.session.state is not State.OFFLINE:
            self.to_client += self.server.data_to_send()

    def note(self, events: list[Event]) -> None:
        for event in events:
            assert not isinstance(event, Failed | Closed), event
            if isinstance(event, Completed) and event.token != self.subscribing:
                assert event.token not in self.completed
                self.completed.add(event.token)

    # -- what may happen ----------------------------------------------------------------------------------

    @rule(qos=st.integers(1, 2))
    def application_publishes(self, qos: int) -> None:
        payload = self.payload()
        self.sent[self.session.publish(Publish("up", payload, qos))] = (payload, qos)
        self.gather()

    @rule(qos=st.integers(1, 2))
    def server_publishes(self, qos: int) -> None:
        if "down" in self.server.subscriptions:
            payload = self.payload()
            self.given.append((payload, qos))
            self.server.publish(Publish("down", payload, qos))
            self.gather()

    @rule(size=PIECES)
    def bytes_reach_server(self, size: int) -> None:
        data = bytes(self.to_server[:size])
        del self.to_server[:size]
        self.server.receive(data)
        self.gather()

    @rule(size=PIECES)
    def bytes_reach_client(self, size: int) -> None:
        data = bytes(self.to_client[:size])
        del self.to_client[:size]
        self.note(self.session.receive(data, 0.0))
        self.gather()

    @rule()
    def everything_arrives(self) -> None:
        for _ in range(2):
            self.bytes_reach_server(len(self.to_server))
            self.bytes_reach_client(len(self.to_client))

    @rule(count=st.integers(1, 3))
    def server_acknowledges(self, count: int) -> None:
        self.server.release_acks(count)
        self.gather()

    @rule(count=st.integers(1, 3))
    def application_takes(self, count: int) -> None:
        for message in self.session.take_batch(count):
            self.got.append((message.payload, message.qos))
            self.held.append(message)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def application_acknowledges(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(self.held) - 1))
        self.held.pop(at).ack()
        self.gather()

    @precondition(lambda self: self.session.state is not State.OFFLINE)
    @rule()
    def connection_is_cut(self) -> None:
        self.to_server.clear()
        self.to_client.clear()
        self.server.disconnect()
        self.session.connection_lost()

    @precondition(lambda self: self.session.state is State.OFFLINE)
    @rule(quickly=st.booleans())
    def client_connects(self, quickly: bool) -> None:
        self.session.connect(0.0)
        self.gather()
        if quickly:
            self.everything_arrives()

    # -- what must hold -----------------------------------------------------------------------------------

    @invariant()
    def completed_messages_are_with_the_server(self) -> None:
        if not hasattr(self, "server"):
            return
        taken = Counter(message.payload for message in self.server.taken)
        for token in self.completed:
            assert taken[self.sent[token][0]] >= 1

    @invariant()
    def the_inbox_is_bounded_by_our_receive_maximum(self) -> None:
        if hasattr(self, "server"):
            assert self.session.queued_messages <= self.session.options.receive_maximum

    @invariant()
    def qos2_arrives_at_most_once(self) -> None:
        if not hasattr(self, "server"):
            return
        taken = Counter(message.payload for message in self.server.taken if message.qos == 2)
        got = Counter(payload for payload, qos in self.got if qos == 2)
        assert not [payload for payload, count in (taken | got).items() if count > 1]

    def calm_down(self) -> None:
        """Moves everything to where it belongs, until nothing moves any more."""
        if self.session.state is State.OFFLINE:
            self.client_connects(True)
        moving = True
        while moving:
            self.server_acknowledges(100)
            self.bytes_reach_server(len(self.to_server))
            self.bytes_reach_client(len(self.to_client))
            self.application_takes(100)
            while self.held:
                self.held.pop(0).ack()
            self.gather()
            moving = bool(self.to_server or self.to_client or self.server.held_acks)

    def teardown(self) -> None:
        """After all the trouble, a quiet network: everything must arrive."""
        if not hasattr(self, "server"):
            return
        self.calm_down()
        assert "down" in self.server.subscriptions
        assert self.completed == set(self.sent)
        assert self.session.pending_publishes == 0
        taken = list(dict.fromkeys(message.payload for message in self.server.taken))
        assert taken == [payload for payload, _ in self.sent.values()]
        assert self.server.done
        assert list(dict.fromkeys(self.got)) == self.given
        self.completed_messages_are_with_the_server()
        self.qos2_arrives_at_most_once()


class ForgetfulServer(Conversation):
    """The same, with a server that may lose all sessions in a crash.

    Then QoS 2 can't be exact; what remains: QoS 1 publishes arrive, a QoS 2 publish arrives at most once or
    fails with SessionLostError, the client is subscribed again, and nothing hangs. If the CONNACK that told
    of the new session is lost, the next one calls that session present: the client can't know, and must send
    everything again that has no answer [MQTT-4.4.0-1]; such a message may be there twice.
    """

    @initialize(ours=st.integers(1, 4), theirs=st.integers(1, 4))
    def start(self, ours: int, theirs: int) -> None:
        self.failed: set[int] = set()
        self.lost = False
        self.loss_is_known = True  # to the client
        self.may_come_twice: set[bytes] = set()
        super().start(ours, theirs)

    @precondition(lambda self: self.session.state is State.OFFLINE)
    @rule()
    def server_crashes(self) -> None:
        self.server.lose_session()
        self.given.clear()
        self.got.clear()
        self.lost = True
        self.loss_is_known = False

    @precondition(lambda self: self.session.state is not State.OFFLINE)
    @rule()
    def connection_is_cut(self) -> None:
        if self.server.has_session and not self.loss_is_known:
            self.may_come_twice.update(message.payload for message in self.server.taken)
        super().connection_is_cut()

    def note(self, events: list[Event]) -> None:
        for event in events:
            assert not isinstance(event, Closed), event
            if isinstance(event, Failed):
                assert self.lost
                assert self.sent[event.token][1] == 2
                self.failed.add(event.token)
            elif isinstance(event, Completed) and event.token != self.subscribing:
                self.completed.add(event.token)
            elif isinstance(event, Connected) and not event.session_present:
                self.loss_is_known = True
                # The session is new for both: acknowledgements of what came before have no address.
                self.held.clear()

    def the_inbox_is_bounded_by_our_receive_maximum(self) -> None:
        """Not here: what a forgotten session delivered is kept, because nobody will deliver it again."""

    @invariant()
    def qos2_arrives_at_most_once(self) -> None:
        if hasattr(self, "server"):
            taken = Counter(message.payload for message in self.server.taken if message.qos == 2)
            assert {payload for payload, count in taken.items() if count > 1} <= self.may_come_twice

    def teardown(self) -> None:
        if not hasattr(self, "server"):
            return
        self.calm_down()
        assert "down" in self.server.subscriptions
        assert self.completed | self.failed == set(self.sent)
        assert not self.completed & self.failed
        self.completed_messages_are_with_the_server()
        assert set(self.given) <= set(self.got)
        assert self.server.done


TestConversation = Conversation.TestCase
TestConversation.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
TestForgetfulServer = ForgetfulServer.TestCase
TestForgetfulServer.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
