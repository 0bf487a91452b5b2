"""The composition root: builds a broker from its configuration and runs it. Knows all the cores."""

import asyncio
import contextlib
import gc
import secrets
import select
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import msgspec
import structlog
import uvloop

from braidmq.broker.access import Gate
from braidmq.broker.broker import Broker
from braidmq.broker.connection import Connection
from braidmq.broker.events import Observer, Started, Stopped
from braidmq.broker.restoring import living, restore
from braidmq.broker.rights import recheck, replace_gate
from braidmq.broker.sharing.registry import refuse_doubtful
from braidmq.broker.system_topics import SystemTopics
from braidmq.clustering import Clustering, open_cluster
from braidmq.config import Config, StoreConfig, refuse_contradictions
from braidmq.errors import ConfigError
from braidmq.net.accepted import address_text
from braidmq.net.aside import Aside
from braidmq.net.files import files_granted, raise_file_limit, sockets_within
from braidmq.net.gate import make_gate
from braidmq.net.handover import Door, owner_of
from braidmq.net.listener import Listening, listen
from braidmq.net.memory import memory_use
from braidmq.net.plain import PlainServer, adopt
from braidmq.net.plugins import NamedObserver, observer_makers, store_maker
from braidmq.net.sockets import Poller
from braidmq.net.stream import RunningStopwatch, Turn, clock_s
from braidmq.net.tls import link_contexts, renew, server_context
from braidmq.store import MemoryStore, Store, Surroundings
from braidmq.worker import Worker

if TYPE_CHECKING:
    from braidmq.admin.server import AdminServer

log = structlog.get_logger("braidmq.node")

LATER_TABLES = ("listeners", "limits", "store", "cluster", "admin", "log", "observers")  # kept by a reload
HAS_EPOLL = hasattr(select, "epoll")
GOODBYE_POLL_S = 0.01
GOODBYE_S = 2.0  # how long clients may take to read that the server is shutting down


def run(
    config: Config,
    on_ready: Callable[[list[str]], None] | None = None,
    read_again: Callable[[], Config] | None = None,
    worker: Worker | None = None,
) -> None:
    """Run a node until SIGTERM or SIGINT; `on_ready` gets the addresses at which it listens.

    SIGHUP makes it ask `read_again` for its configuration, of which it takes who may do what. `worker`: it is
    one of several, which end with their supervisor.
    """
    uvloop.run(_serve(config, on_ready, read_again or (lambda: config), worker))


async def _serve(
    config: Config,
    on_ready: Callable[[list[str]], None] | None,
    read_again: Callable[[], Config],
    worker: Worker | None,
) -> None:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    if worker is not None:
        loop.add_reader(worker.lifeline, _supervisor_gone, worker.lifeline, stopping)
    raise_file_limit()
    effective = Effective(config)
    make_observers = observer_makers(config.observers)
    gate = make_gate(config)  # before the store is touched: a doubtful file changes nothing
    # The store's thread reports what is kept; what was held for that leaves at once. A store that writes
    # before there is a turn (after a salvage) is heard when the loop goes on, which is later.
    store = open_store(
        config.store, lambda report: loop.call_soon_threadsafe(lambda: _reported(report, turn))
    )
    broker = make_broker(config, store, gate, partial(_own_client_id, worker) if worker is not None else None)
    for make_observer in make_observers:
        broker.add_observer(make_observer())
    SystemTopics(broker, clock_s(), memory_use)
    _tame_garbage_collector()
    turn = Turn(broker, loop)
    _mind_files(broker)
    poller = Poller(turn, config.limits.gather_us_max / 1e6) if HAS_EPOLL else None
    broker.run_aside = aside = Aside(turn, loop)
    reload = partial(_reload, effective, read_again, turn)
    loop.add_signal_handler(signal.SIGHUP, _reload_or_tell, reload)
    servers: list[Listening] = []
    addresses: list[str] = []
    admin: AdminServer | None = None
    clustering: Clustering | None = None
    try:
        if config.cluster.is_on:
            clustering = await open_cluster(
                config, turn, poller, effective.link_contexts, stopping.set, worker
            )
            effective.clustering = clustering
        # Workers come and go with their supervisor: there is nothing for an operator to forget or drain.
        admin = start_admin(effective, broker, turn, reload, clustering if worker is None else None)
        if clustering is not None:
            await clustering.join()
        if worker is not None:
            servers, addresses = open_door(turn, poller, worker)
        else:
            for listener, context in zip(config.listeners, effective.contexts, strict=True):
                server, found = await listen(turn, poller, listener, context)
                servers.append(server)
                addresses += found
        turn.finish()
        if clustering is not None and worker is None:
            addresses += [f"{address} (other nodes)" for address in clustering.addresses]
        if admin is not None:
            addresses.append(f"{admin.address} (admin API)")
        broker.audience.tell(Started(addresses=tuple(addresses)))
        if on_ready is not None:
            on_ready(addresses)
        await stopping.wait()
    finally:
        if admin is not None:
            await admin.stop()
        aside.stop()
        await _stop(broker, turn, servers, clustering)
        if worker is not None:
            worker.sweep()


def _supervisor_gone(lifeline: int, stopping: asyncio.Event) -> None:
    asyncio.get_running_loop().remove_reader(lifeline)
    stopping.set()


def open_door(turn: Turn, poller: Poller | None, worker: Worker) -> tuple[list[Listening], list[str]]:
    """Accept clients for all workers, keep this one's, and take what the others have for it."""
    if poller is None:
        raise ConfigError("[workers] count: more than one needs Linux; leave out --workers")
    door = Door(turn.broker, worker.index, worker.count, Path(worker.doors), partial(adopt, poller))
    listening = [socket.socket(fileno=descriptor) for descriptor in worker.listeners]
    for one in listening:
        one.setblocking(False)
    addresses = [address_text(one.getsockname()) for one in listening]
    return [PlainServer(door.arrived, listening), door], addresses


class Effective:
    """The configuration in effect: what the node was started with, and what it has reloaded since."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.contexts = [server_context(listener) for listener in config.listeners]
        self.link_contexts = link_contexts(config.cluster)
        self.clustering: Clustering | None = None
        if config.cluster.is_on:
            config.cluster.shared_secret()  # a doubtful one is told before anything is touched

    def renew_certificates(self) -> None:
        """Show from now on what the files of the listeners, and of links to other nodes, hold now."""
        for listener, context in zip(self.config.listeners, self.contexts, strict=True):
            if context is not None:
                renew(context, listener)
        for context in self.link_contexts or ():
            renew(context, self.config.cluster)


def _reload(effective: Effective, read_again: Callable[[], Config], turn: Turn) -> None:
    """Take over who may do what, how shared groups choose, and the certificates, as they are now.

    ConfigError: nothing has changed.
    """
    config, fresh = effective.config, read_again()
    # The listeners stay as they are, so they must not become more open than their configuration allows.
    refuse_contradictions(msgspec.structs.replace(fresh, listeners=config.listeners))
    gate = make_gate(fresh)
    refuse_doubtful(fresh.groups)
    for listener in (*config.listeners, *fresh.listeners):
        server_context(listener)  # refuses files that are doubtful
    link_contexts(config.cluster)
    effective.renew_certificates()
    turn.broker.turn(clock_s())
    replace_gate(turn.broker, gate)
    turn.broker.groups.configure(fresh.groups)
    if effective.clustering is not None:
        effective.clustering.rules_changed(fresh)
    turn.finish()
    effective.config = msgspec.structs.replace(config, auth=fresh.auth, acl=fresh.acl, groups=fresh.groups)
    changed = [name for name in LATER_TABLES if getattr(fresh, name) != getattr(config, name)]
    log.info("reloaded", at_the_next_start=changed)


def _reload_or_tell(reload: Callable[[], None]) -> None:
    try:
        reload()
    except ConfigError as error:
        log.error("not reloaded, nothing has changed", why=str(error))


def start_admin(
    effective: Effective,
    broker: Broker,
    turn: Turn,
    reload: Callable[[], None],
    clustering: Clustering | None = None,
) -> "AdminServer | None":
    """The admin API, if the configuration asks for it."""
    if effective.config.admin.port is None:
        return None
    try:
        from braidmq.admin.desk import Desk
        from braidmq.admin.server import AdminServer
    except ModuleNotFoundError as error:
        raise ConfigError(f"[admin] needs {error.name}: pip install 'braidmq[admin]'") from error
    operator = clustering.operator if clustering is not None else None
    server = AdminServer(Desk(broker, lambda: effective.config, clock_s, turn.finish, reload, operator))
    server.start()
    return server


def _reported(report: Callable[[], None], turn: Turn) -> None:
    report()
    turn.finish()


def open_store(config: StoreConfig, post: Callable[[Callable[[], None]], object]) -> Store:
    """The store that a configuration asks for; `post` runs a callable on the broker's thread."""
    if config.directory is None:
        return MemoryStore()
    around = Surroundings(
        directory=config.directory,
        durability=config.durability,
        salvage=config.salvage,
        queue_memory_bytes_max=config.queue_memory_bytes_max,
        wall_offset_s=time.time() - clock_s(),
        post=post,
        tell=lambda sentence: log.warning("store", news=sentence),
    )
    return store_maker(config.engine)(around)


def make_broker(
    config: Config, store: Store, gate: Gate, make_client_id: Callable[[], str] | None = None
) -> Broker:
    """The broker core that a configuration asks for, with what the store has kept."""
    gc.disable()  # a million messages come to be, and none of them goes
    state = store.load()
    broker = Broker(
        config.limits,
        store,
        gate,
        make_client_id or _client_id,
        _log_closed,
        _observer_failed,
        config.groups,
        Random(),
        RunningStopwatch(),
    )
    if config.cluster.is_on:
        broker.groups.orphans = {}
        broker.wills_from_s = clock_s() + config.cluster.failure_s
    restore(broker, state, clock_s())
    gc.enable()
    store.checkpoint_from(partial(living, broker))
    for session in list(broker.sessions.values()) if broker.gate.checks_topics else ():
        recheck(broker, session)  # the rules may have changed meanwhile
    if broker.sessions or len(broker.retained):
        log.info("restored", sessions=len(broker.sessions), retained=len(broker.retained))
    return broker


def _client_id() -> str:
    return "braid-" + secrets.token_hex(8)


def _own_client_id(worker: Worker) -> str:
    """An id whose owner is this worker: under it the client finds its session again."""
    while owner_of((client_id := _client_id()).encode(), worker.count) != worker.index:
        pass
    return client_id


def _log_closed(connection: Connection, why: str) -> None:
    client_id = connection.session.client_id if connection.session is not None else None
    log.debug("connection closed", client=client_id, peer=connection.peer, why=why)


def _observer_failed(observer: Observer, error: Exception) -> None:
    if isinstance(observer, NamedObserver):
        observer.failed(error)


async def _stop(
    broker: Broker, turn: Turn, servers: list[Listening], clustering: Clustering | None
) -> None:
    for server in servers:
        server.close()
    broker.shut_down(clock_s())
    turn.finish()
    if clustering is not None:
        await clustering.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GOODBYE_S):
            for server in servers:
                await server.wait_closed()
            while turn.open_links:
                await asyncio.sleep(GOODBYE_POLL_S)
    turn.stop()
    broker.hub.promises.hand_over()
    broker.audience.tell(Stopped())
    broker.hub.promises.store.close()


def _tame_garbage_collector() -> None:
    """What stands now stays: leave it out of every collection, and collect the rest less often.

    Messages are no containers and are freed by their counts alone; only the ends of connections and sessions
    leave cycles behind. What a collection looks at is new, and little enough for nobody to notice: a million
    objects at a time were half a second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 5, 1_000)


def _mind_files(broker: Broker) -> None:
    """Each connection is an open file: accept no more than the system grants."""
    broker.grant_sockets(sockets_within(files_granted(), broker.sockets_max))
