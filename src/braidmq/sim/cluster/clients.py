"""Clients that are nothing but bytes on a simulated network, and note what they see.

A client comes back when its connection is lost, and repeats what has no answer: at QoS 1 on any session, at
QoS 2 only on the session on which it was begun, for elsewhere nobody could know it again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

import msgspec

from braidmq.sim.cluster import trace as seen
from braidmq.sim.cluster.network import End, Network
from braidmq.wire import (
    V5,
    Connack,
    Connect,
    Disconnect,
    FrameReader,
    Packet,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    decode,
    encode,
)

PACKET_BYTES_MAX: Final = 1 << 20
FAULT: Final = 0x80  # reason codes from here on are refusals
PING_S: Final = 2.0
PATIENCE_S: Final = 5.0  # without a byte for so long, a client tries again
KEEP_ALIVE_S: Final = 10
UNANSWERED_MAX: Final = 10
FOR_LONG_S: Final = 3600


@dataclass(frozen=True, slots=True)
class Manners:
    """What kind of client it is."""

    lasts: bool  # its session outlives its connections
    window: int = 10  # Receive Maximum
    answers_after_s: tuple[float, float] = (0.0, 0.0)  # its acknowledgements, least and most
    returns_after_s: tuple[float, float] = (0.05, 0.5)
    moves: bool = False  # comes back at any node, not only where it was


@dataclass(slots=True)
class Outgoing:
    """A publish of ours without a final answer."""

    packet: Publish
    number: int
    is_received: bool = False  # PUBREC has come


class Client:
    def __init__(
        self, name: str, home: str, nodes: list[str], manners: Manners, network: Network, rng: Random,
        trace: seen.Trace,
    ) -> None:  # fmt: skip
        self.name = name
        self.node = home
        self.manners = manners
        self.life = 0
        self.is_connected = False  # CONNACK has come
        self.is_wanted = False  # it should be connected
        self.subscriptions: dict[str, int] = {}  # filter -> QoS, as wished
        self.on_granted: Callable[[str, str], None] = lambda name, filter: None
        self._nodes = nodes
        self._network = network
        self._rng = rng
        self._trace = trace
        self._end: _ClientEnd | None = None
        self._unanswered: dict[int, Outgoing] = {}  # by packet id, in the order of publishing
        self._inbound: set[int] = set()  # QoS 2 packet ids that we have, and PUBREL has not come
        self._asked: dict[int, tuple[float, dict[str, int]]] = {}  # SUBSCRIBEs without an answer
        self._has: set[str] = set()  # filters that the session is known to have
        self._last_id = 0
        self._goes_on_at_s = 0.0  # acknowledgements leave in order

    # ---- what it is told to do -----------------------------------------------------------------------

    def come(self, node: str | None = None) -> None:
        """Connect, and again whenever the connection is lost."""
        self.is_wanted = True
        self._drop()
        if node is not None:
            self.node = node
        address = self.node
        self._network.dial(
            self.name,
            f"{address}:mqtt",
            lambda end: self._opened(end, address),
            lambda why: self._not_opened(address),
        )

    def go(self, *, politely: bool) -> None:
        """Leave, and stay away until told to come."""
        self.is_wanted = False
        if politely and self._end is not None and self.is_connected:
            self._send(Disconnect(0))
        self._drop()

    def subscribe(self, filter: str, qos: int) -> None:
        self.subscriptions[filter] = qos
        self._has.discard(filter)
        if self.is_connected:
            self._subscribe({filter: qos})

    def unsubscribe(self, filter: str) -> None:
        if self.subscriptions.pop(filter, None) is not None and self.is_connected:
            self._trace.add(seen.Unsubscribing(self._now, self.name, self.life, filter))
            self._send(Unsubscribe(self._next_id(), (filter,)))

    @property
    def is_served(self) -> bool:
        """Whether it is connected, and not only of that opinion."""
        return self.is_connected and self._end is not None and self._end.is_whole

    @property
    def is_at_rest(self) -> bool:
        """Whether it has been answered everything."""
        return self.is_served and not (self._unanswered or self._asked or self._inbound)

    def can_publish(self, qos: int) -> bool:
        return self.is_connected and (not qos or len(self._unanswered) < UNANSWERED_MAX)

    def publish(
        self, number: int, topic: str, qos: int, *, retain: bool = False, is_empty: bool = False
    ) -> None:
        """A message that says its number, in its properties if its payload is to be empty."""
        assert self.can_publish(qos)
        name = b"%d" % number
        packet_id = self._next_id() if qos else 0
        if is_empty:
            properties = Properties(correlation_data=name)
            packet = Publish(topic, b"", qos, retain, False, packet_id, properties)
        else:
            packet = Publish(topic, name, qos, retain, False, packet_id)
        if qos:
            self._unanswered[packet.packet_id] = Outgoing(packet, number)
        self._publish(packet, number)

    # ---- coming --------------------------------------------------------------------------------------

    @property
    def _now(self) -> float:
        return self._network.clock.now

    def _opened(self, end: End, address: str) -> None:
        if not self.is_wanted or self._end is not None or address != self.node:
            end.close()
            return
        self._end = end.owner = _ClientEnd(self, end)
        lasting = FOR_LONG_S if self.manners.lasts else None
        properties = Properties(session_expiry_s=lasting, receive_maximum=self.manners.window)
        self._send(Connect(self.name, not self.manners.lasts, KEEP_ALIVE_S, V5, properties=properties))
        self._network.clock.at(self._now + PING_S, self._end.ping)

    def _not_opened(self, address: str) -> None:
        if address == self.node and self._end is None:
            self._come_again()

    def _come_again(self) -> None:
        if self.is_wanted:
            after_s = self._rng.uniform(*self.manners.returns_after_s)
            if self.manners.moves:
                self.node = self._rng.choice(self._nodes)
            self._network.clock.at(self._now + after_s, self._return, self.node)

    def _return(self, node: str) -> None:
        if self.is_wanted and self._end is None and node == self.node:
            self.come()

    def lost(self, end: "_ClientEnd") -> None:
        """The connection is over."""
        if end is self._end:
            self._drop()
            self._come_again()

    def _drop(self) -> None:
        if self._end is not None:
            if self.is_connected:
                self._trace.add(seen.Disconnected(self._now, self.name, self.node))
            self._end.close()
        self._end = None
        self.is_connected = False
        self._asked.clear()

    # ---- packets -------------------------------------------------------------------------------------

    def handle(self, packet: Packet) -> None:
        match packet:
            case Connack():
                self._greeted(packet)
            case Publish():
                self._got(packet)
            case Puback() | Pubrec() | Pubcomp():
                self._answered(packet)
            case Pubrel(packet_id=packet_id):
                self._inbound.discard(packet_id)
                self._answer(Pubcomp(packet_id))
            case Suback():
                self._granted(packet)
            case Disconnect() if self._end is not None:
                self.lost(self._end)
            case Unsuback() | Pingresp():
                pass
            case _:
                raise AssertionError(f"{self.name} got {packet!r}")

    def _greeted(self, packet: Connack) -> None:
        assert self._end is not None
        if packet.reason >= FAULT:
            self._trace.add(seen.Refused(self._now, self.name, -1, self.node, packet.reason))
            self.lost(self._end)
            return
        self.is_connected = True
        if not packet.session_present:
            self.life += 1
            self._has.clear()
            self._inbound.clear()
        self._trace.add(seen.Connected(self._now, self.name, self.node, self.life, self.manners.lasts))
        for packet_id, outgoing in list(self._unanswered.items()):
            self._repeat(packet_id, outgoing, is_present=packet.session_present)
        unknown = {filter: qos for filter, qos in self.subscriptions.items() if filter not in self._has}
        if unknown:
            self._subscribe(unknown)

    def _repeat(self, packet_id: int, outgoing: Outgoing, *, is_present: bool) -> None:
        packet = outgoing.packet
        if packet.qos == 2 and not is_present:  # on another session it would be another message
            del self._unanswered[packet_id]
        elif outgoing.is_received:
            self._send(Pubrel(packet_id))
        else:
            self._publish(msgspec.structs.replace(packet, dup=is_present), outgoing.number)

    def _publish(self, packet: Publish, number: int) -> None:
        self._trace.add(
            seen.Published(self._now, self.name, number, packet.topic, packet.qos, packet.retain, self.node)
        )
        self._send(packet)

    def _subscribe(self, wishes: dict[str, int]) -> None:
        packet_id = self._next_id()
        self._asked[packet_id] = self._now, wishes
        for filter, qos in wishes.items():
            self._trace.add(seen.Subscribing(self._now, self.name, self.life, filter, qos, self.node))
        self._send(Subscribe(packet_id, tuple(Subscription(filter, qos) for filter, qos in wishes.items())))

    def _granted(self, packet: Suback) -> None:
        asked_s, wishes = self._asked.pop(packet.packet_id)
        for (filter, qos), reason in zip(wishes.items(), packet.reasons, strict=True):
            if reason < FAULT and self.subscriptions.get(filter) == qos:
                granted = seen.Subscribed(self._now, self.name, self.life, filter, reason, self.node, asked_s)
                self._has.add(filter)
                self._trace.add(granted)
                self.on_granted(self.name, filter)

    def _answered(self, packet: Puback | Pubrec | Pubcomp) -> None:
        outgoing = self._unanswered.get(packet.packet_id)
        if outgoing is None:  # PUBREC for a message that was given up
            return
        is_refused = packet.reason >= FAULT
        if not isinstance(packet, Pubcomp) and not outgoing.is_received:
            noted = (
                seen.Refused(self._now, self.name, outgoing.number, self.node, packet.reason)
                if is_refused
                else seen.Acknowledged(self._now, self.name, outgoing.number, self.node)
            )
            self._trace.add(noted)
        if isinstance(packet, Pubrec) and not is_refused:
            outgoing.is_received = True
            self._send(Pubrel(packet.packet_id))
        else:
            del self._unanswered[packet.packet_id]

    def _got(self, packet: Publish) -> None:
        if packet.qos < 2 or packet.packet_id not in self._inbound:
            number, topic = number_of(packet), packet.topic
            got = seen.Got(
                self._now, self.name, self.life, number, topic, packet.qos, packet.retain, self.node
            )
            self._trace.add(got)
        if packet.qos == 1:
            self._answer(Puback(packet.packet_id))
        elif packet.qos == 2:
            self._inbound.add(packet.packet_id)
            self._answer(Pubrec(packet.packet_id))

    def _answer(self, packet: Packet) -> None:
        """In order, after a while."""
        end = self._end
        low, high = self.manners.answers_after_s
        if not high:
            self._send(packet)
            return
        self._goes_on_at_s = max(self._goes_on_at_s, self._now + self._rng.uniform(low, high))
        self._network.clock.at(self._goes_on_at_s, self._answer_on, end, packet)

    def _answer_on(self, end: "_ClientEnd", packet: Packet) -> None:
        if end is self._end:
            self._send(packet)

    def _send(self, packet: Packet) -> None:
        if self._end is not None:
            self._end.send(encode(packet, V5))

    def _next_id(self) -> int:
        while True:
            self._last_id = self._last_id % 1000 + 1
            if self._last_id not in self._unanswered:
                return self._last_id


def number_of(packet: Publish) -> int:
    return int(packet.payload or packet.properties.correlation_data or -1)


class _ClientEnd:
    """One connection of a client: it reads packets, pings, and gives up where nothing comes."""

    def __init__(self, client: Client, end: End) -> None:
        self._client = client
        self._end = end
        self._reader = FrameReader(PACKET_BYTES_MAX)
        self._heard_s = end.network.clock.now
        self._is_over = False

    @property
    def is_whole(self) -> bool:
        return self._end.is_whole

    def send(self, data: bytes) -> None:
        self._end.send(data)

    def close(self) -> None:
        self._is_over = True
        self._end.close()

    def ping(self) -> None:
        clock = self._end.network.clock
        if self._is_over:
            return
        if clock.now - self._heard_s > PATIENCE_S:
            self._client.lost(self)
            return
        if self._client.is_connected:
            self._end.send(encode(Pingreq(), V5))
        clock.at(clock.now + PING_S, self.ping)

    def arrived(self, data: bytes) -> None:
        self._heard_s = self._end.network.clock.now
        self._reader.feed(data)
        for packet in self._packets():
            if self._is_over:
                return
            self._client.handle(packet)

    def _packets(self) -> Iterator[Packet]:
        return (decode(first, body, V5) for first, body in self._reader.frames())

    def ended(self, why: str) -> None:
        self._client.lost(self)

    def has_room(self) -> None:
        pass
