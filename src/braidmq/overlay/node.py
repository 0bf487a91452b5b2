"""A broker's part of the overlay: messages and time in, messages and deliveries out.

One `Overlay` is one broker; it owns a virtual node for every topic that it subscribes to or publishes. It
reads no clock, opens no socket and draws from the `Random` it is given, so the simulator and a live broker
run the same code. Every call answers with effects, in order. `next_deadline_s` says when `tick` should be
called.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from braidmq.overlay import delegating, delivering, exploring, linking, rendezvous
from braidmq.overlay.keys import Kind, key_of
from braidmq.overlay.messages import (
    Ack,
    Eexp,
    EexpWalk,
    Found,
    Gone,
    Leave,
    Link,
    Linked,
    Message,
    New,
    Ranged,
    Rexp,
    Search,
    Status,
)
from braidmq.overlay.settings import OverlaySettings
from braidmq.overlay.table import Peer, Shape
from braidmq.overlay.turn import Effect, Request, Shared, Turn, VirtualNode


class Overlay:
    def __init__(self, pid: int, address: str, boot: int, settings: OverlaySettings, rng: Random) -> None:
        """`boot` counts this broker's starts: of two lives of a broker, the one with the higher number is
        real.
        """
        self._shared = Shared(pid, address, boot, settings, rng)

    # -- commands of the broker --------------------------------------------------------------------------

    def add_contacts(self, addresses: Iterable[str]) -> None:
        """Brokers to ask for the way while nobody else is known."""
        self._shared.contacts += [address for address in addresses if address != self._shared.address]

    def subscribe(self, topic: str, now: float) -> list[Effect]:
        """A first client here wants the topic. `Joined` says when nothing is missed any more."""
        return self._join(topic, Kind.SUBSCRIBER, now)

    def unsubscribe(self, topic: str, now: float) -> list[Effect]:
        """The last client that wanted the topic is gone."""
        return self._leave(topic, Kind.SUBSCRIBER, now)

    def advertise(self, topic: str, now: float) -> list[Effect]:
        """A client here is going to publish."""
        return self._join(topic, Kind.PUBLISHER, now)

    def withdraw(self, topic: str, now: float) -> list[Effect]:
        return self._leave(topic, Kind.PUBLISHER, now)

    def publish(self, topic: str, payload: bytes, qos: int, now: float) -> list[Effect]:
        """Deliver to every broker that wants the topic; waits until the publisher has joined."""
        node = self._node(topic, Kind.PUBLISHER)
        if node is None or node.status is Status.LEAVING:
            effects = self._join(topic, Kind.PUBLISHER, now)
            node = self._node(topic, Kind.PUBLISHER)
            assert node is not None
        else:
            effects = []
        turn = Turn(self._shared, now)
        if node.status is Status.LINKED:
            delivering.publish(turn, node, payload, qos)
        elif len(node.payloads) < self._shared.settings.waiting_max:
            node.payloads.append((payload, qos))
        else:
            self._shared.counters["too many wait"] += 1
        return effects + self._finish(turn)

    # -- events of the network ---------------------------------------------------------------------------

    def receive(self, to: bytes, message: Message, now: float) -> list[Effect]:
        """A message for the virtual node with this key, or for any if it is empty."""
        turn = Turn(self._shared, now)
        self._dispatch(turn, to, message)
        return self._finish(turn)

    def delivery_failed(self, to: Peer, now: float) -> list[Effect]:
        """The link says that a broker can't be reached: no need to wait for its answers."""
        turn = Turn(self._shared, now)
        self._give_up(turn, to, is_certain=False)
        return self._finish(turn)

    def tick(self, now: float) -> list[Effect]:
        """Let happen what is due."""
        turn = Turn(self._shared, now)
        self._shared.timers.run_due(now)
        due = list(self._shared.due)
        self._shared.due.clear()  # the same list: timers hold on to it
        for what, key, token in due:
            self._fire(turn, what, key, token)
            self._drain(turn)
        return turn.effects

    @property
    def next_deadline_s(self) -> float:
        return self._shared.timers.next_at_s

    # -- questions ---------------------------------------------------------------------------------------

    @property
    def counters(self) -> dict[str, int]:
        """What was dropped, repeated or delegated again, by reason."""
        return dict(self._shared.counters)

    @property
    def virtual_nodes(self) -> list[VirtualNode]:
        return list(self._shared.nodes.values())

    def has_joined(self, topic: str, kind: Kind) -> bool:
        node = self._node(topic, kind)
        return node is not None and node.status is Status.LINKED

    # -- inside ------------------------------------------------------------------------------------------

    def _node(self, topic: str, kind: Kind) -> VirtualNode | None:
        return self._shared.nodes.get(key_of(topic, kind, self._shared.pid))

    def _join(self, topic: str, kind: Kind, now: float) -> list[Effect]:
        node = self._node(topic, kind)
        if node is not None and node.status is not Status.LEAVING:
            return []
        turn = Turn(self._shared, now)
        node = VirtualNode(self._shared.new_peer(topic, kind), self._shared.settings, now)
        self._shared.nodes[node.peer.key] = node
        linking.search(turn, node)
        return self._finish(turn)

    def _leave(self, topic: str, kind: Kind, now: float) -> list[Effect]:
        node = self._node(topic, kind)
        if node is None or node.status is Status.LEAVING:
            return []
        turn = Turn(self._shared, now)
        linking.leave(turn, node)
        return self._finish(turn)

    def _finish(self, turn: Turn) -> list[Effect]:
        self._drain(turn)
        return turn.effects

    def _drain(self, turn: Turn) -> None:
        while turn.local:
            self._dispatch(turn, *turn.local.popleft())

    def _dispatch(self, turn: Turn, to: bytes, message: Message) -> None:
        if isinstance(message, Ack):
            self._acknowledged(turn, message)
            return
        if isinstance(message, Gone):
            linking.on_gone(turn, message)
            self._give_up(turn, Peer(message.key, "", message.boot), is_certain=True)
            return
        if isinstance(message, Linked):
            self._shared.requests.pop(message.token, None)
        node = self._shared.nodes.get(to) if to else self._any_node()
        if node is not None and node.status is Status.JOINING and isinstance(message, (Ranged, Search)):
            self._defer(turn, node, message)
        elif node is not None and (node.status is not Status.LEAVING or isinstance(message, _UNTIL_THE_END)):
            _HANDLERS[type(message)](turn, node, message)
        elif to:
            self._refuse(turn, to, message)

    def _defer(self, turn: Turn, node: VirtualNode, message: Ranged | Search) -> None:
        """Who has no place yet can't tell who stands beside it.

        A part of a range waits until it has joined. A search goes back: two that join side by side must not
        wait for each other's answers.
        """
        if isinstance(message, Ranged):
            if len(node.deferred) >= self._shared.settings.waiting_max:
                return
            node.deferred.append(message)
        turn.send(message.fwd, Ack(message.token, 0, done=False))

    def _any_node(self) -> VirtualNode | None:
        linked = [node for node in self._shared.nodes.values() if node.status is Status.LINKED]
        return self._shared.rng.choice(linked) if linked else None

    def _refuse(self, turn: Turn, to: bytes, message: Message) -> None:
        """Say that the virtual node is gone; its key belongs to nobody before the next incarnation."""
        sender = getattr(message, "fwd", None) or getattr(message, "src", None)
        if isinstance(sender, Peer):
            turn.send(sender, Gone(to, self._shared.incarnation))

    def _acknowledged(self, turn: Turn, message: Ack) -> None:
        request = self._shared.requests.get(message.token)
        if request is None:
            return
        if isinstance(request.message, Ranged):
            delegating.on_ack(turn, request, message)
        else:
            del self._shared.requests[message.token]
            node = self._shared.nodes.get(request.key)
            if not message.done and node is not None and isinstance(request.message, Search):
                linking.answer(turn, node, request.message.origin)

    def _give_up(self, turn: Turn, peer: Peer, is_certain: bool) -> None:
        """Nobody answers there any more: whatever was asked of it is asked of others."""
        requests = self._shared.requests
        failed = [token for token, request in requests.items()
                  if request.to.key == peer.key and request.to.boot <= peer.boot]  # fmt: skip
        turn.lose(peer, is_certain)
        for token in failed:
            request = requests.pop(token, None)
            if request is not None:
                self._failed(turn, request, token)
        for node in list(self._shared.nodes.values()):
            rendezvous.look(turn, node)

    def _failed(self, turn: Turn, request: Request, token: int) -> None:
        node = self._shared.nodes.get(request.key)
        if isinstance(request.message, Ranged):
            delegating.on_failure(turn, request, token)
        elif node is not None and isinstance(request.message, Search):
            linking.search_failed(turn, node, request.message)
        elif node is not None and isinstance(request.message, Link):
            linking.press_on(turn, node)

    # -- timers ------------------------------------------------------------------------------------------

    def _fire(self, turn: Turn, what: str, key: bytes, token: int) -> None:
        if what == "request":
            self._request_due(turn, token)
            return
        node = self._shared.nodes.get(key)
        if node is None:
            return
        if what == "left":
            if node.status is Status.LEAVING:
                del self._shared.nodes[key]
        elif what == "search":
            if node.status is Status.JOINING:
                linking.search(turn, node)
        elif what == "wait":
            linking.ask_again(turn, node)
        elif what == "release":
            delivering.release(turn, node)
        elif node.status is Status.LINKED:
            self._maintain(turn, what, node)

    def _maintain(self, turn: Turn, what: str, node: VirtualNode) -> None:
        settings, key = self._shared.settings, node.peer.key
        jitter = self._shared.rng.uniform(0.8, 1.2)
        if what == "settle":
            exploring.explore_topic(turn, node)
            turn.wake("walk", key, turn.now + settings.settle_s)
        elif what == "walk":
            if len(node.table) < settings.entries_max and node.table.shape is Shape.FLEXIBLE:
                exploring.explore_at_random(turn, node)
                node.walk_pause_s = min(2 * node.walk_pause_s, settings.walk_max_s)
                turn.wake("walk", key, turn.now + node.walk_pause_s)
        elif what == "link":
            linking.keep_linked(turn, node)
            turn.wake("link", key, turn.now + settings.link_s * jitter)
        elif what == "period":
            self._period(turn, node)
            turn.wake("period", key, turn.now + settings.period_s * jitter)

    def _period(self, turn: Turn, node: VirtualNode) -> None:
        settings = self._shared.settings
        if node.kind is Kind.PUBLISHER:
            if turn.now - node.idle_since_s > settings.publisher_idle_s:
                linking.leave(turn, node)
                return
            if node.is_rendezvous:
                rendezvous.look(turn, node)
                rendezvous.announce(turn, node)
        exploring.explore_regularly(turn, node)
        exploring.explore_topic(turn, node, settings.keep_improving)
        linking.check_one(turn, node)

    def _request_due(self, turn: Turn, token: int) -> None:
        request = self._shared.requests.get(token)
        if request is None:
            return
        settings = self._shared.settings
        if turn.now < request.deadline_s:
            turn.wake("request", request.key, request.deadline_s, token)
        elif request.attempts < settings.attempts_max:
            request.attempts += 1
            request.deadline_s = turn.now + settings.ack_s
            self._shared.counters["repeated request"] += 1
            turn.wake("request", request.key, request.deadline_s, token)
            turn.send(request.to, request.message)
        else:
            self._give_up(turn, request.to, is_certain=False)


# A node that leaves is out of the list and no longer sees who joins beside it: others serve its ranges.
_UNTIL_THE_END = (Link, Leave)

_HANDLERS: dict[type[Message], Callable[[Turn, VirtualNode, Any], None]] = {
    Rexp: exploring.on_rexp,
    Eexp: exploring.on_eexp,
    EexpWalk: exploring.on_walk,
    New: exploring.on_new,
    Search: linking.on_search,
    Found: linking.on_found,
    Link: linking.on_link,
    Linked: linking.on_linked,
    Leave: linking.on_leave,
    **dict.fromkeys(Ranged.__subclasses__(), delivering.on_ranged),
}
