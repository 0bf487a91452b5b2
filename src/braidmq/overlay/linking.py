"""A virtual node's place in the sorted list of all: finding it, taking it, keeping it and leaving it.

Level-0 neighbours are whoever is nearest in the table, so a link can't point past somebody who is known, in
whatever order messages arrive: no counters of link changes are needed. A node that joins asks those it
takes for its neighbours; each takes the newcomer into its table and answers with who is near it. If
somebody nearer is among them, that one is asked next. Of the left neighbour it asks more: it must be linked
itself, and its topic's publishers must know that there are subscribers. After that every publication
reaches the newcomer.

The same question keeps the list whole afterwards. Neighbours that failed are looked for a while, so that
two halves of a network find each other again.
"""

from braidmq.overlay import delivering, exploring, rendezvous
from braidmq.overlay.keys import Kind
from braidmq.overlay.messages import Ack, Found, Gone, Leave, Link, Linked, Search, Status
from braidmq.overlay.table import Peer, Shape, Side
from braidmq.overlay.turn import Joined, Turn, VirtualNode


def search(turn: Turn, node: VirtualNode) -> None:
    """Find the node's place, from another virtual node of this broker or from a contact."""
    shared = turn.shared
    node.confirmed, node.waits_for = [b"", b""], b""
    node.asks_about_end = node.was_end_checked = False
    own = [other for other in shared.nodes.values() if other is not node and other.status is Status.LINKED]
    question = Search(node.peer, node.peer, 0, 0)
    if own:
        _forward(turn, min(own, key=lambda other: _distance(other.peer, node.peer)), question)
    elif not turn.ask_contact(node):
        _complete(turn, node)
        return
    turn.wake("search", node.peer.key, turn.now + shared.settings.search_s)


def _distance(one: Peer, other: Peer) -> int:
    """Keys with a longer common beginning are nearer, roughly."""
    width = max(len(one.key), len(other.key))
    here, there = one.key.ljust(width, b"\0"), other.key.ljust(width, b"\0")
    return abs(int.from_bytes(here, "big") - int.from_bytes(there, "big"))


def on_search(turn: Turn, node: VirtualNode, message: Search) -> None:
    if message.token:
        turn.send(message.fwd, Ack(message.token))
    _forward(turn, node, message)


def _forward(turn: Turn, node: VirtualNode, message: Search) -> None:
    nearer = node.table.closest(message.origin.key)
    if nearer is None or message.hop >= turn.shared.settings.hop_max:
        answer(turn, node, message.origin)
        return
    token = turn.new_token()
    turn.request(node, nearer, Search(node.peer, message.origin, token, message.hop + 1), token, None)


def answer(turn: Turn, node: VirtualNode, origin: Peer) -> None:
    turn.send(origin, Found((node.peer, *_near(node, origin))))


def search_failed(turn: Turn, node: VirtualNode, message: Search) -> None:
    """The next hop didn't answer: take another."""
    _forward(turn, node, message)


def on_found(turn: Turn, node: VirtualNode, message: Found) -> None:
    node.was_end_checked = node.asks_about_end
    for peer in message.near:
        turn.learn(node, peer)
    press_on(turn, node)


def press_on(turn: Turn, node: VirtualNode) -> None:
    """Ask the neighbours that haven't confirmed yet; when both have, the node has joined."""
    if node.status is not Status.JOINING:
        return
    neighbours = [node.table.neighbour(side) for side in Side]
    if neighbours == [None, None]:
        return
    open_links = {request.to.key for request in turn.shared.requests.values()
                  if request.key == node.peer.key and isinstance(request.message, Link)}  # fmt: skip
    is_confirmed = True
    for side, neighbour in zip(Side, neighbours, strict=True):
        if neighbour is not None and node.confirmed[side.value] != neighbour.key:
            is_confirmed = False
            if neighbour.key not in open_links and neighbour.key != node.waits_for:
                turn.link(node, neighbour)
    if not is_confirmed:
        return
    if None in neighbours and not node.was_end_checked and turn.shared.contacts:
        if not node.asks_about_end:
            node.asks_about_end = turn.ask_contact(node)
        return
    _complete(turn, node)


def _complete(turn: Turn, node: VirtualNode) -> None:
    node.status = Status.LINKED
    settings, key = turn.shared.settings, node.peer.key
    turn.effects.append(Joined(node.topic, node.kind))
    right = node.table.neighbour(Side.RIGHT)
    if right is not None:  # it may be waiting for us to be ready
        turn.send(right, Linked(node.peer, 0, node.status, _near(node, right)))
    exploring.explore_regularly(turn, node)
    turn.wake("settle", key, turn.now + settings.settle_s)
    turn.wake("period", key, turn.now + settings.period_s * turn.shared.rng.uniform(0.8, 1.2))
    if settings.link_s:
        turn.wake("link", key, turn.now + settings.link_s * turn.shared.rng.uniform(0.8, 1.2))
    rendezvous.look(turn, node)
    turn.local.extend((key, message) for message in node.deferred)
    node.deferred.clear()
    while node.payloads:
        delivering.publish(turn, node, *node.payloads.popleft())


def on_link(turn: Turn, node: VirtualNode, message: Link) -> None:
    status = node.status
    near = _near(node, message.src)  # before the asker takes somebody's place in the table
    if status is not Status.LEAVING:
        turn.learn(node, message.src, is_direct=True)
        rendezvous.look(turn, node)
        if rendezvous.is_announcing(turn, node):
            status = Status.JOINING  # ask again: not all publishers know of you
    turn.send(message.src, Linked(node.peer, message.token, status, near, _presence_for(node, message.src)))


def _presence_for(node: VirtualNode, asker: Peer) -> bool | None:
    is_colleague = node.kind is Kind.PUBLISHER and asker.key[: -len(b"\0" * 8)] == node.peer.key[:-8]
    return node.present if is_colleague else None


def on_linked(turn: Turn, node: VirtualNode, message: Linked) -> None:
    src = message.src
    if message.status is Status.LEAVING:
        for peer in message.near:
            turn.learn(node, peer)
        turn.lose(src, is_certain=True)
    else:
        turn.learn(node, src, is_direct=True)
        for peer in message.near:
            turn.learn(node, peer)
        _confirm(turn, node, message)
        if message.present is not None and src == node.table.neighbour(Side.RIGHT):
            rendezvous.told(turn, node, message.present, node.presence_seq)
    press_on(turn, node)


def _confirm(turn: Turn, node: VirtualNode, message: Linked) -> None:
    side = Side.LEFT if message.src.key < node.peer.key else Side.RIGHT
    if message.src != node.table.neighbour(side):
        return
    if message.status is Status.LINKED:  # and whoever it knows between us was learnt just now
        node.holes.discard(side)
    if node.status is not Status.JOINING:
        return
    # Of two that join side by side the left one goes first, so that neither waits for the other.
    if message.status is Status.LINKED or side is Side.RIGHT:
        node.confirmed[side.value] = message.src.key
    else:
        node.waits_for = message.src.key
        turn.wake("wait", node.peer.key, turn.now + turn.shared.settings.wait_s)


def ask_again(turn: Turn, node: VirtualNode) -> None:
    node.waits_for = b""
    press_on(turn, node)


def keep_linked(turn: Turn, node: VirtualNode) -> None:
    """Ask the neighbours, and look for those that were lost."""
    settings = turn.shared.settings
    for side in Side:
        near = node.table.near(side)
        for peer in near[:1] + turn.shared.rng.sample(near[1:], min(1, len(near[1:]))):
            turn.link(node, peer)
    for key, lost in list(node.lost.items()):
        if turn.now - lost.since_s > settings.remember_s:
            del node.lost[key]
        else:
            turn.look_for(node, lost)
    if any(node.table.neighbour(side) is None for side in Side):
        turn.ask_contact(node)


def check_one(turn: Turn, node: VirtualNode) -> None:
    """Ask any entry whether it is alive, so that tables lose the dead even where nothing is published."""
    if len(node.table) and turn.shared.settings.link_s:
        turn.link(node, turn.shared.rng.choice(node.table.peers))


def leave(turn: Turn, node: VirtualNode) -> None:
    """Tell the publishers, the neighbours and, of a plain Skip Graph, those of all levels."""
    node.status = Status.LEAVING
    if node.kind is Kind.SUBSCRIBER:
        delivering.unsubscribed(turn, node)
    neighbours = [node.table.neighbour(side) for side in Side]
    for side, neighbour in zip(Side, neighbours, strict=True):
        if neighbour is not None:
            other_side = Side.LEFT if side is Side.RIGHT else Side.RIGHT
            token = turn.new_token()
            farewell = Leave(node.peer, token, tuple(node.table.near(other_side)))
            turn.request(node, neighbour, farewell, token, None)
    if node.table.shape is Shape.SKIP_GRAPH:
        for peer in node.table:
            if peer not in neighbours:
                turn.send(peer, Leave(node.peer, 0, tuple(node.table)))
    settings = turn.shared.settings
    turn.wake("left", node.peer.key, turn.now + (settings.attempts_max + 2) * settings.ack_s)


def on_leave(turn: Turn, node: VirtualNode, message: Leave) -> None:
    if message.token:
        turn.send(message.src, Ack(message.token))
    for peer in message.near:
        turn.learn(node, peer)
    turn.lose(message.src, is_certain=True)
    rendezvous.look(turn, node)
    press_on(turn, node)


def on_gone(turn: Turn, message: Gone) -> None:
    turn.lose(Peer(message.key, "", message.boot), is_certain=True)


def _near(node: VirtualNode, asker: Peer) -> tuple[Peer, ...]:
    """Who is near on both sides, at least one of them besides the asker."""
    count = max(2, node.table.near_count)
    return tuple(peer for side in Side for peer in node.table.near(side, count) if peer.key != asker.key)
