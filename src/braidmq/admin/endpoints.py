"""The admin API, as one table: what can be asked, with what, and what is answered.

Routing, the OpenAPI document and the tests all read ENDPOINTS.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from braidmq.admin.desk import Desk, RefusedError
from braidmq.admin.paging import LIMIT_DEFAULT, LIMIT_MAX, cursor_of, parts_of, smallest
from braidmq.admin.views import (
    ClientView,
    Deleted,
    GroupChange,
    GroupChanged,
    Health,
    Kicked,
    Page,
    Published,
    PublishRequest,
    Readiness,
    RetainedView,
    SessionView,
    SubscriptionView,
    client_view,
    readiness,
    retained_view,
    session_view,
    subscription_view,
)
from braidmq.broker.connection import Connection
from braidmq.broker.session import Session
from braidmq.broker.sharing.state import GroupState, state_of
from braidmq.config import without_secrets
from braidmq.errors import ConfigError, ProtocolError
from braidmq.topics import validate_filter


class Parameter(NamedTuple):
    """Something that the query of an address can say."""

    name: str
    type: Any
    default: Any
    description: str


class Call(NamedTuple):
    """One request, taken apart."""

    desk: Desk
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Any


class Endpoint(NamedTuple):
    method: str
    path: str
    summary: str
    answer: Any
    handler: Callable[[Call], Awaitable[Any]]
    parameters: tuple[Parameter, ...] = ()
    body: Any = None
    problems: tuple[int, ...] = ()
    is_public: bool = False  # also without the token: says nothing about clients


LIMIT: Final = Parameter("limit", int, LIMIT_DEFAULT, f"The most entries wanted, from 1 to {LIMIT_MAX}.")
AFTER: Final = Parameter("after", str, "", "The `next` of the page before.")
OF_CLIENT: Final = Parameter("client_id", str, "", "Only those of this client.")
OF_USER: Final = Parameter("user", str, None, "Only those of this user, connected or not.")
AWAY_S: Final = Parameter("away_s", float, None, "Only of clients that are away for so many seconds.")
FILTER: Final = Parameter("filter", str, "#", "Only topics that match this topic filter.")
PAYLOAD: Final = Parameter("payload", bool, False, "Whether to show the payloads.")


def _after(call: Call, parts: int) -> list[str] | None:
    """Where the page begins, or None at the beginning."""
    if not call.query["after"]:
        return None
    try:
        return parts_of(call.query["after"], parts)
    except ValueError as error:
        raise RefusedError(400, "after: this is no `next` of such a page") from error


async def health(call: Call) -> Health:
    return call.desk.health()


async def ready(call: Call) -> Readiness:
    cluster = call.desk.cluster
    return readiness(call.desk.broker, cluster.why_not_ready if cluster is not None else None)


async def clients(call: Call) -> Page[ClientView]:
    sessions = call.desk.broker.sessions
    after, limit = _after(call, 1), call.query["limit"]

    def wanted(client_id: str) -> bool:
        session = sessions.get(client_id)
        return session is not None and session.is_connected and (after is None or client_id > after[0])

    found = await smallest(sessions, limit + 1, wanted)
    views = []
    for client_id in found[:limit]:
        session = sessions.get(client_id)  # some may have gone meanwhile
        if session is not None and isinstance(session.outlet, Connection):
            views.append(client_view(session, session.outlet))
    return Page(views, cursor_of(found[limit - 1]) if len(found) > limit else None)


async def client(call: Call) -> ClientView:
    client_id = call.path["client_id"]
    return client_view(call.desk.session(client_id), call.desk.connection(client_id))


async def kick(call: Call) -> Kicked:
    call.desk.kick(call.path["client_id"])
    return Kicked(call.path["client_id"])


async def sessions(call: Call) -> Page[SessionView]:
    known = call.desk.broker.sessions
    after, limit = _after(call, 1), call.query["limit"]
    found = await smallest(known, limit + 1, lambda key: after is None or key > after[0])
    views = [session_view(known[client_id]) for client_id in found[:limit] if client_id in known]
    return Page(views, cursor_of(found[limit - 1]) if len(found) > limit else None)


async def session(call: Call) -> SessionView:
    return session_view(call.desk.session(call.path["client_id"]))


async def delete_session(call: Call) -> Deleted:
    session = call.desk.session(call.path["client_id"])
    return Deleted(await call.desk.delete_sessions([session.client_id], lambda found: found is session))


async def delete_sessions(call: Call) -> Deleted:
    user, away_s = call.query["user"], call.query["away_s"]
    if user == "":  # a script's variable that wasn't set: not everybody's sessions are meant
        raise RefusedError(400, "user: is empty; leave it out to mean all users")
    if user is None and away_s is None:
        raise RefusedError(400, "which? Give user, away_s or both")

    def wanted(session: Session) -> bool:
        if user is not None and session.owner != user:
            return False
        return away_s is None or (not session.is_connected and _away_s(session) >= away_s)

    return Deleted(await call.desk.delete_sessions(list(call.desk.broker.sessions), wanted))


def _away_s(session: Session) -> float:
    return session.hub.now - session.away_since_s


async def subscriptions(call: Call) -> Page[SubscriptionView]:
    known = call.desk.broker.sessions
    after, limit, only = _after(call, 2), call.query["limit"], call.query["client_id"]

    def wanted(client_id: str) -> bool:
        session = known.get(client_id)
        return (
            session is not None
            and bool(session.subscriptions)
            and (after is None or client_id >= after[0])
        )

    # Each has a subscription at least; the first one's may all have been on the page before.
    owners = [only] if only else await smallest(known, limit + 2, wanted)
    found: list[SubscriptionView] = []
    for client_id in owners:
        session = known.get(client_id)
        found += [
            subscription_view(client_id, filter, subscription)
            for filter, subscription in (sorted(session.subscriptions.items()) if session is not None else ())
            if after is None or [client_id, filter] > after
        ]
        if len(found) > limit:
            last = found[limit - 1]
            return Page(found[:limit], cursor_of(last.client_id, last.filter))
    return Page(found)


async def retained(call: Call) -> Page[RetainedView]:
    desk, limit, after = call.desk, call.query["limit"], _after(call, 1)
    limits = desk.broker.limits
    try:
        validate_filter(
            call.query["filter"], bytes_max=limits.topic_bytes_max, levels_max=limits.topic_levels_max
        )
    except ProtocolError as error:
        raise RefusedError(400, f"filter: {error.detail}") from error
    with desk.turn() as broker:
        matching = broker.retained.matching(call.query["filter"].encode())
    beginning = after[0].encode() if after is not None else b""
    found = await smallest(
        matching, limit + 1, lambda message: message.topic > beginning, lambda message: message.topic
    )
    shown = call.query["payload"]
    views = [retained_view(message, broker.hub.now, with_payload=shown) for message in found[:limit]]
    return Page(views, cursor_of(views[-1].topic) if len(found) > limit else None)


async def groups(call: Call) -> Page[GroupState]:
    broker, limit, after = call.desk.broker, call.query["limit"], _after(call, 2)
    known = {(group.name, group.filter.decode()): group for group in broker.groups}
    found = await smallest(known, limit + 1, lambda key: after is None or list(key) > after)
    with call.desk.turn():
        views = [state_of(known[key], broker.hub.now) for key in found[:limit]]
    return Page(views, cursor_of(*found[limit - 1]) if len(found) > limit else None)


async def change_group(call: Call) -> GroupChanged:
    return call.desk.change_group(call.path["name"], call.body)


async def publish(call: Call) -> Published:
    return await call.desk.publish(call.body)


async def config(call: Call) -> dict[str, Any]:
    return without_secrets(call.desk.config)


async def reload(call: Call) -> dict[str, Any]:
    assert call.desk.reload is not None
    try:
        with call.desk.turn():
            call.desk.reload()
    except ConfigError as error:
        raise RefusedError(409, str(error)) from error
    return {"reloaded": True}


PAGED: Final = (LIMIT, AFTER)
ENDPOINTS: Final = (
    Endpoint("GET", "/health", "Whether the broker is alive", Health, health, is_public=True),
    Endpoint("GET", "/ready", "Whether the broker can do all its work; 503 if not", Readiness, ready,
             is_public=True),
    Endpoint("GET", "/clients", "The connected clients, by client id", Page[ClientView], clients, PAGED,
             problems=(400,)),
    Endpoint("GET", "/clients/{client_id}", "One connected client", ClientView, client, problems=(404,)),
    Endpoint("DELETE", "/clients/{client_id}", "Disconnect a client (reason 0x98)", Kicked, kick,
             problems=(404,)),
    Endpoint("GET", "/sessions", "All sessions, also of clients that are away, by client id",
             Page[SessionView], sessions, PAGED, problems=(400,)),
    Endpoint("GET", "/sessions/{client_id}", "One session", SessionView, session, problems=(404,)),
    Endpoint("DELETE", "/sessions/{client_id}", "End a session, and its connection (reason 0x98)", Deleted,
             delete_session, problems=(404,)),
    Endpoint("DELETE", "/sessions", "End the sessions of a user, or of clients that have been away for long",
             Deleted, delete_sessions, (OF_USER, AWAY_S), problems=(400,)),
    Endpoint("GET", "/subscriptions", "Subscriptions, by client id and filter", Page[SubscriptionView],
             subscriptions, (*PAGED, OF_CLIENT), problems=(400,)),
    Endpoint("GET", "/retained", "Retained messages, by topic", Page[RetainedView], retained,
             (*PAGED, FILTER, PAYLOAD), problems=(400,)),
    Endpoint("GET", "/groups", "Shared groups with the state of each member, by group and filter",
             Page[GroupState], groups, PAGED, problems=(400,)),
    Endpoint("PUT", "/groups/{name}", "Give the shared groups of a name another policy, for the time being",
             GroupChanged, change_group, body=GroupChange, problems=(400,)),
    Endpoint("POST", "/publish", "Publish a message; answered when it is kept", Published, publish,
             body=PublishRequest, problems=(400, 413, 503, 507)),
    Endpoint("GET", "/config", "The configuration in effect, without its secrets", dict[str, Any], config),
)
RELOAD: Final = Endpoint("POST", "/reload", "Read the configuration again; 409 and no change if it is wrong",
                         dict[str, Any], reload, problems=(409,))


def query_of(endpoint: Endpoint, given: Mapping[str, str]) -> dict[str, Any]:
    """The query of a call: what was given, checked, and the defaults of the rest."""
    known = {parameter.name: parameter for parameter in endpoint.parameters}
    for name in given:
        if name not in known:
            raise RefusedError(400, f"{name}: no such parameter here")
    query: dict[str, Any] = {}
    for name, parameter in known.items():
        query[name] = parameter.default
        try:
            if name in given:
                query[name] = msgspec.convert(given[name], parameter.type, strict=False)
        except msgspec.ValidationError as error:
            raise RefusedError(400, f"{name}: {error}") from error
    if not 1 <= query.get("limit", 1) <= LIMIT_MAX:
        raise RefusedError(400, f"limit: from 1 to {LIMIT_MAX}")
    return query
