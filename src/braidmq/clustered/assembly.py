"""Puts a node of a cluster together: the core with all its parts, and who carries out what each of them
wants.

The running broker and the simulator make their nodes here, so they are the same.
"""

from random import Random

from braidmq.broker.broker import Broker
from braidmq.cluster.announcing import Announcing
from braidmq.cluster.claims import Claims
from braidmq.cluster.clock import HybridClock
from braidmq.cluster.core import Cluster
from braidmq.cluster.draining import Draining
from braidmq.cluster.effects import Died
from braidmq.cluster.groups import Groups, with_groups
from braidmq.cluster.moving import Moves
from braidmq.cluster.retained import Healing
from braidmq.cluster.routing import BloomRouting, make_routing
from braidmq.cluster.settings import Identity, Remembered, Settings
from braidmq.clustered.draining import SendingAway
from braidmq.clustered.groups import GROUP_ENTRY, SharedGroups
from braidmq.clustered.interest import Interest, LastingSessions
from braidmq.clustered.node import ClusterShell, Node
from braidmq.clustered.relaying import Relaying
from braidmq.clustered.sessions import Sessions


class BrokerView:
    """What the core has to know of the broker beside it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def kept_position(self, peer: int) -> int:
        known = self._broker.peers.get(peer)
        return known.kept if known is not None else 0

    def connections(self) -> int:
        return self._broker.clients_connected


def _add_sessions(node: Node, clock: HybridClock, announcing: Announcing | None) -> None:
    """Sessions follow their clients; `announcing` if it knows who has which."""
    cluster = node.cluster

    def may_have(peer: int, client_id: str) -> bool:
        return announcing is None or peer in announcing.may_have(client_id)

    if announcing is not None:
        LastingSessions(node)
    sessions = Sessions(node.broker, cluster.identity.node, clock)
    moves = Moves(cluster.members, sessions)
    cluster.add(moves)
    waits_for_dead = announcing is not None
    cluster.add(Claims(cluster.members, clock, sessions, moves, may_have, waits_for_dead=waits_for_dead))
    node.carry_out(sessions.hands, sessions.entries)
    sessions.connect(node.tell, node.enter)
    SendingAway(node, Draining(cluster.members, sessions))


def make_node(
    broker: Broker,
    identity: Identity,
    settings: Settings,
    clock: HybridClock,
    rng: Random,
    shell: ClusterShell,
    now: float,
    remembered: tuple[Remembered, ...] = (),
) -> Node:
    """A node that knows nobody but those it remembers. `rng` draws nonces, so live it is a `SystemRandom`."""
    broker.turn(now)
    cluster = Cluster(identity, settings, clock, rng, BrokerView(broker), now, remembered)

    def is_neighbour(peer: int) -> bool:
        member = cluster.members.info(peer)
        return not settings.neighbours or (member is not None and member.name in settings.neighbours)

    routing = make_routing(
        settings.routing, me=identity.node, seed=settings.filter_seed, is_neighbour=is_neighbour
    )
    waits_for_dead = settings.home_down == "wait"
    announcing = Announcing(
        routing,
        BloomRouting(settings.filter_seed) if waits_for_dead else None,
        boot=identity.boot,
        wait_ms=settings.suback_wait_ms,
        remembered=cluster.members.remembered(),
    )
    groups = Groups(identity.node, settings.key, cluster.members, announcing.ledger)
    node = Node(broker, cluster, shell, lambda topic: with_groups(announcing.hops(topic), groups.hops(topic)))
    Interest(node, announcing)
    _share_groups(node, announcing, groups)
    healing = _healing(broker, cluster, now, remembered)
    cluster.add(healing)
    node.counters |= {
        "forwards_unwanted": lambda: sum([peer.unwanted for peer in broker.peers]),
        "suback_late": lambda: announcing.late_total,
        "announcements": lambda: announcing.counts.announced,
        "announcement_bytes": lambda: announcing.counts.announced_bytes,
        "retained_repaired": lambda: healing.counts.repaired,
    }
    _, workers = identity.worker
    if routing.relays:
        Relaying(node, routing)
    elif workers == 1:  # a worker's clients are always its own: nobody else has to be asked for a session
        _add_sessions(node, clock, announcing if waits_for_dead else None)
    return node


def _share_groups(node: Node, announcing: Announcing, part: Groups) -> None:
    """Let a shared group have one owner in the whole cluster."""
    cluster = node.cluster
    cluster.add(part)
    announcing.announcers.append(part)
    node.routes.is_full = part.is_full
    me, boot = cluster.identity.node, cluster.identity.boot
    groups = SharedGroups(
        node.broker, part, node.tell, node.enter, cluster.members.remembered, me=me, boot=boot
    )

    def died(effect: Died) -> None:
        peer = node.peer(effect.peer)
        unsent = [] if peer.keeps else peer.group_messages()
        peer.died()
        groups.rescue(unsent)

    node.carry_out(
        {**groups.hands, Died: died},
        {GROUP_ENTRY: lambda peer, head, message, route: groups.entered(peer.node, head, message)},
    )
    groups.start()


def _healing(broker: Broker, cluster: Cluster, now: float, remembered: tuple[Remembered, ...]) -> Healing:
    """What makes the retained messages of all nodes the same."""

    def is_behind(peer: int) -> bool:
        queue = broker.peers.get(peer)
        return queue is not None and queue.queued_count > 0

    settings, clock, me = cluster.settings, cluster.clock, cluster.identity.node
    key = settings.filter_seed.to_bytes(8, "little")
    retained = broker.retained.share(key, me, lambda hlc: clock.seen(hlc, broker.hub.now))
    dead_since_ms = {member.node: member.dead_since_ms for member in remembered if member.dead_since_ms}
    return Healing(me, retained, clock, settings.tombstone_s, now, is_behind, dead_since_ms)
