"""Nodes in one process whose links are pipes that the test lets flow: no sockets, one clock."""

from collections.abc import Callable
from random import Random
from typing import Any

from braidmq.broker.peer_lane import PeerLane
from braidmq.cluster.clock import HybridClock
from braidmq.cluster.events import Discovered
from braidmq.cluster.settings import Identity, Remembered, Settings, key_of
from braidmq.clustered.assembly import make_node
from braidmq.wire import V5, Connack, Connect
from tests.broker.world import Client, World

SETTINGS = Settings(name="test", key=key_of(b"sixteen bytes and more"))


class End:
    """One end of a link: the shell of its lane."""

    def __init__(self, net: "Net") -> None:
        self.net = net
        self.lane: PeerLane | None = None
        self.other: End | None = None
        self.is_closed = False

    def close(self) -> None:
        self.flush()
        self.is_closed = True

    def flush(self) -> None:
        assert self.lane is not None
        data = self.lane.output.take()
        if data and self.other is not None and not self.other.is_closed:
            self.net.under_way.append((self.other, data))

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def defer(self, action: Callable[[], None]) -> None:
        self.net.deferred.append(action)


class TestShell:
    def __init__(self, net: "Net", member: "Member") -> None:
        self.net, self.member = net, member
        self.remembered: tuple[Remembered, ...] = ()
        self.told: list[str] = []

    def dial(self, address: str) -> None:
        self.net.dials.append((self.member, address))

    def remember(self, members: tuple[Remembered, ...]) -> None:
        self.remembered = members

    def tell(self, level: Any, sentence: str) -> None:
        self.told.append(sentence)


class NetWorld(World):
    """A world whose clients are let in when other nodes have been asked."""

    def __init__(self, net: "Net") -> None:
        super().__init__()
        self.net = net

    def connect(self, client_id: str = "", version: int = V5, **fields: Any) -> Client:
        client = self.open(version)
        client.send(Connect(client_id, version=version, **fields))
        self.net.settle()
        answer = client.read()[0]
        assert isinstance(answer, Connack), answer
        assert answer.reason == 0, answer
        return client


class Member:
    """A node with its world of clients."""

    def __init__(self, net: "Net", name: str, number: int) -> None:
        self.net, self.name = net, name
        self.world = NetWorld(net)
        self.world.now = net.members[0].world.now if net.members else self.world.now
        identity = Identity(
            node=number << 32 | number, boot=1, name=name, addresses=(name,), keeps=True, version="test"
        )
        self.shell = TestShell(net, self)
        self.node = make_node(
            self.world.broker,
            identity,
            net.settings(name),
            HybridClock(1e9),
            Random(number),
            self.shell,
            self.world.now,
        )
        self.ends: list[End] = []
        self.node.tell(Discovered(tuple(other.name for other in net.members)))
        self.node.start(self.world.now)


class Net:
    def __init__(self, names: str, settings: Callable[[str], Settings] = lambda name: SETTINGS) -> None:
        self.settings = settings
        self.members: list[Member] = []
        self.dials: list[tuple[Member, str]] = []
        self.under_way: list[tuple[End, bytes]] = []
        self.deferred: list[Callable[[], None]] = []
        for name in names:
            self.add(name)
        self.settle()

    def add(self, name: str) -> Member:
        """A node that is told of those there are."""
        member = Member(self, name, len(self.members) + 1)
        self.members.append(member)
        return member

    def kill(self, name: str) -> None:
        """Without a word."""
        member = self[name]
        self.members.remove(member)
        for end in member.ends:
            end.is_closed = True
            if end.other is not None and end.other.lane is not None and not end.other.is_closed:
                end.other.is_closed = True
                end.other.lane.lost("the other end is gone")

    def __getitem__(self, name: str) -> Member:
        return next(member for member in self.members if member.name == name)

    def settle(self) -> None:
        """Let everything arrive that is under way, and what that brings about."""
        while True:
            for member in self.members:
                member.world.broker.hub.end_turn()
                for end in member.ends:
                    if not end.is_closed:
                        end.flush()
            if not (self.dials or self.under_way or self.deferred):
                return
            self._step()

    def _step(self) -> None:
        dials, self.dials = self.dials, []
        for member, address in dials:
            if any(other.name == address for other in self.members):
                self._connect(member, self[address], address)
            else:
                member.node.not_reached(address, "nobody is there", member.world.now)
        deferred, self.deferred = self.deferred, []
        for action in deferred:
            action()
        arriving, self.under_way = self.under_way, []
        for end, data in arriving:
            if not end.is_closed and end.lane is not None:
                end.lane.receive(data, self.members[0].world.now)

    def _connect(self, one: Member, other: Member, address: str) -> None:
        here, there = End(self), End(self)
        here.other, there.other = there, here
        one.ends.append(here)
        other.ends.append(there)
        here.lane = one.node.open_link(here, address, one.world.now)
        there.lane = other.node.open_link(there, None, other.world.now)

    def pass_time(self, seconds: float) -> None:
        for member in self.members:
            member.world.pass_time(seconds)
        self.settle()
