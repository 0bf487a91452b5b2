"""The admin API: what it shows of a broker, and what an operator can do."""

import asyncio
import base64
from typing import Any

import httpx
import pytest

from braidmq.errors import ConfigError
from braidmq.wire import V311, Disconnect, Properties, Publish, Will
from tests.admin.operator import operator
from tests.broker.world import SlowStore, World


async def everything(api: httpx.AsyncClient, path: str, limit: int, **query: str) -> list[dict[str, Any]]:
    """All entries of a list, page by page; no page may be longer than asked."""
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        page = (await api.get(path, params={"limit": limit, "after": after, **query})).json()
        assert len(page["items"]) <= limit
        found += page["items"]
        if page["next"] is None:
            return found
        assert len(page["items"]) == limit
        after = page["next"]


async def test_health_and_readiness() -> None:
    world = World(connections_max=1)
    api = operator(world)
    world.now += 5
    health = (await api.get("/health")).json()
    assert health["status"] == "alive"
    assert health["uptime_s"] == 5
    assert (await api.get("/ready")).json() == {"ready": True, "reasons": []}
    world.connect("one")
    full = await api.get("/ready")
    assert full.status_code == 503
    assert "connections_max" in full.json()["reasons"][0]


async def test_a_store_that_can_not_be_written_is_not_ready_and_takes_no_promise() -> None:
    store = SlowStore()
    api = operator(World(store))
    store.is_failing = True
    assert "store" in (await api.get("/ready")).json()["reasons"][0]
    assert (await api.post("/publish", json={"topic": "a", "qos": 1})).status_code == 503


async def test_clients_are_those_who_are_connected_and_sessions_are_all() -> None:
    world = World()
    api = operator(world)
    world.connect("here", V311, clean_start=False, keep_alive_s=7)
    world.connect("away", V311, clean_start=False).vanish()
    world.now += 3
    world.pass_time(0)
    [client] = (await api.get("/clients")).json()["items"]
    assert (client["client_id"], client["protocol"], client["keep_alive_s"]) == ("here", 4, 7)
    assert client["silent_s"] == 3
    assert client["session"]["connected"]
    sessions = (await api.get("/sessions")).json()["items"]
    assert [(s["client_id"], s["connected"], s["expiry_s"]) for s in sessions] == [
        ("away", False, world.broker.limits.session_expiry_s_max),
        ("here", True, world.broker.limits.session_expiry_s_max),
    ]
    assert (await api.get("/clients/away")).status_code == 404
    assert not (await api.get("/sessions/away")).json()["connected"]
    assert (await api.get("/sessions/nobody")).status_code == 404


async def test_a_client_whose_id_has_a_slash_is_found_and_kicked() -> None:
    world = World()
    api = operator(world)
    client = world.connect("line 1/press", will=Will("gone", b"press"))
    witness = world.connect("witness")
    witness.subscribe("gone")
    assert (await api.get("/clients/line%201%2Fpress")).json()["client_id"] == "line 1/press"
    assert (await api.delete("/clients/line%201%2Fpress")).status_code == 200
    goodbye = client.expect(Disconnect)
    assert goodbye.reason == 0x98
    assert client.is_closed
    assert witness.payloads() == [b"press"]
    assert (await api.delete("/clients/line%201%2Fpress")).status_code == 404


@pytest.mark.parametrize("limit", [1, 3, 4, 100])
async def test_pages_together_are_the_whole_list_in_order(limit: int) -> None:
    world = World()
    api = operator(world)
    ids = [f"c{number:02}" for number in range(12)]
    for number, client_id in enumerate(reversed(ids)):
        client = world.connect(client_id)
        for filter in range(number % 3):
            client.subscribe(f"f/{filter}", packet_id=filter + 1)
        client.send(Publish(f"kept/{client_id}", b"x", retain=True))
    assert [c["client_id"] for c in await everything(api, "/clients", limit)] == ids
    assert [s["client_id"] for s in await everything(api, "/sessions", limit)] == ids
    topics = [r["topic"] for r in await everything(api, "/retained", limit)]
    assert topics == [f"kept/{client_id}" for client_id in ids]
    found = [(s["client_id"], s["filter"]) for s in await everything(api, "/subscriptions", limit)]
    expected = [(i, f) for i in ids for f in sorted(world.broker.sessions[i].subscriptions)]
    assert found == expected
    assert len(found) == 12


async def test_a_page_goes_on_where_the_last_one_ended_though_clients_have_gone() -> None:
    world = World()
    api = operator(world)
    clients = {name: world.connect(name) for name in "abcdef"}
    first = (await api.get("/clients", params={"limit": 3})).json()
    for name in "ace":
        clients[name].vanish()
    second = (await api.get("/clients", params={"limit": 3, "after": first["next"]})).json()
    assert [c["client_id"] for c in second["items"]] == ["d", "f"]


async def test_subscriptions_of_one_client() -> None:
    world = World()
    api = operator(world)
    world.connect("a").subscribe("x/#", "$share/g/y", qos=1)
    world.connect("b").subscribe("z")
    found = await everything(api, "/subscriptions", 1, client_id="a")
    assert [(s["filter"], s["group"], s["qos"]) for s in found] == [("$share/g/y", "g", 1), ("x/#", None, 1)]
    assert await everything(api, "/subscriptions", 1, client_id="nobody") == []


async def test_retained_messages_by_filter_with_and_without_payload() -> None:
    world = World()
    api = operator(world)
    world.connect("a").send(Publish("t/1", b"\xff\x00", retain=True), Publish("u", b"y", retain=True))
    [plain] = (await api.get("/retained", params={"filter": "t/+"})).json()["items"]
    assert (plain["topic"], plain["payload_bytes"], plain["payload_base64"]) == ("t/1", 2, None)
    assert plain["publisher"] == "a"
    [full] = (await api.get("/retained?filter=t/%2B&payload=true")).json()["items"]
    assert base64.b64decode(full["payload_base64"]) == b"\xff\x00"
    assert (await api.get("/retained", params={"filter": "a/#/b"})).status_code == 400


async def test_groups_show_the_state_of_each_member() -> None:
    world = World()
    api = operator(world)
    for name in ("m1", "m2", "m3"):
        world.connect(name, V311, clean_start=False).subscribe("$share/crew/jobs/#", qos=1)
    for name in ("m2", "m3"):
        world.broker.sessions[name].outlet.lost("cut")  # type: ignore[union-attr]
    world.connect("boss").send(Publish("jobs/1", b"x", 1, packet_id=1))
    [group] = await everything(api, "/groups", 1)
    assert (group["name"], group["filter"], group["member_count"]) == ("crew", "jobs/#", 3)
    states = [(m["client_id"], m["connected"], m["in_flight_messages"], m["share"]) for m in group["members"]]
    assert states == [("m1", True, 1, 1.0), ("m2", False, 0, 0.0), ("m3", False, 0, 0.0)]


async def test_an_operator_publishes_text_and_bytes() -> None:
    world = World()
    api = operator(world)
    reader = world.connect("reader")
    reader.subscribe("news")
    answer = await api.post("/publish", json={"topic": "news", "payload": "grüß", "qos": 1, "retain": True})
    assert answer.json() == {"matched": True, "refused": False}
    [packet] = reader.read()
    assert (packet.payload, packet.qos) == ("grüß".encode(), 1)
    encoded = base64.b64encode(b"\x00\xff").decode()
    unheard = await api.post("/publish", json={"topic": "else", "payload_base64": encoded})
    assert unheard.json() == {"matched": False, "refused": False}
    late = world.connect("late")
    late.subscribe("news", packet_id=9)
    world.check()
    assert world.broker.retained.get(b"news") is not None


async def test_a_publish_is_answered_when_it_is_kept() -> None:
    store = SlowStore()
    world = World(store)
    api = operator(world)
    answer = asyncio.ensure_future(api.post("/publish", json={"topic": "a", "payload": "x", "retain": True}))
    while not store.turns:
        await asyncio.sleep(0)
    assert not answer.done()
    while not answer.done():
        store.keep_all()  # first the turn with the message, then the one that waits for it
        await asyncio.sleep(0)
    assert (await answer).is_success


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b'{"topic": "a", "qos": 3}', 400),
        (b'{"topic": "a", "qqos": 1}', 400),
        (b'{"topic": "a/#"}', 400),
        (b'{"topic": ""}', 400),
        (b'{"topic": "$SYS/broker/version"}', 400),
        (b'{"topic": "a", "payload": "x", "payload_base64": "eA=="}', 400),
        (b'{"topic": "a", "payload": "' + b"x" * 2048 + b'"}', 413),
        (b" " * 200_000, 413),
    ],
)
async def test_a_publish_that_can_not_be_is_refused_with_a_reason(body: bytes, status: int) -> None:
    answer = await operator(World(packet_bytes_max=1024)).post("/publish", content=body)
    assert answer.status_code == status
    assert answer.json()["status"] == status
    assert answer.json()["detail"]


async def test_no_room_for_a_retained_message_is_said() -> None:
    api = operator(World(retained_messages_max=1))
    body = {"payload": "x", "retain": True}
    assert (await api.post("/publish", json={"topic": "a", **body})).is_success
    assert (await api.post("/publish", json={"topic": "b", **body})).status_code == 507


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "after=%25%25", "after=YQBi", "colour=red"]
)
async def test_a_wrong_query_is_refused(query: str) -> None:
    answer = await operator(World()).get(f"/clients?{query}")
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith(query.partition("=")[0])


async def test_reload_is_there_only_where_something_can_be_reloaded() -> None:
    world = World()
    assert (await operator(world).post("/reload")).status_code == 404
    done: list[bool] = []
    assert (await operator(world, reload=lambda: done.append(True)).post("/reload")).is_success
    assert done == [True]

    def refuse() -> None:
        raise ConfigError("line 3 is wrong")

    refused = await operator(world, reload=refuse).post("/reload")
    assert (refused.status_code, refused.json()["detail"]) == (409, "line 3 is wrong")


async def test_a_wrong_address_or_method_is_a_problem_too() -> None:
    api = operator(World())
    assert (await api.get("/nowhere")).json()["status"] == 404
    assert (await api.post("/health")).json()["status"] == 405


async def test_a_session_can_be_deleted_with_its_connection() -> None:
    world = World(sessions_max=2)
    api = operator(world)
    here = world.connect("here", clean_start=False, properties=Properties(session_expiry_s=100))
    world.connect("line/1", clean_start=False, properties=Properties(session_expiry_s=100)).vanish()
    assert (await api.get("/sessions/line%2F1")).json()["away_s"] == 0
    assert (await api.delete("/sessions/line%2F1")).json() == {"sessions": 1}
    assert (await api.delete("/sessions/line%2F1")).status_code == 404
    world.connect("third")  # there is room again
    assert (await api.delete("/sessions/here")).json() == {"sessions": 1}
    assert here.expect(Disconnect).reason == 0x98
    assert set(world.broker.sessions) == {"third"}


async def test_sessions_can_be_deleted_by_user_and_by_how_long_they_were_away() -> None:
    world = World()
    api = operator(world)

    def away(client_id: str, owner: str | None) -> None:
        world.connect(client_id, clean_start=False, properties=Properties(session_expiry_s=1000)).vanish()
        world.broker.sessions[client_id].owner = owner

    away("long", "ada")
    world.pass_time(60)
    away("brief", "ada")
    away("other", "bob")
    world.connect("here")
    world.pass_time(1)
    for unclear in ("", "?user=", "?user=&away_s=0", "?user=ada&away_s=null", "?user=ada&away_s="):
        assert (await api.delete(f"/sessions{unclear}")).status_code == 400
    assert (await api.delete("/sessions?away_s=50")).json() == {"sessions": 1}
    assert set(world.broker.sessions) == {"brief", "other", "here"}
    assert (await api.delete("/sessions?away_s=50&user=bob")).json() == {"sessions": 0}
    assert (await api.delete("/sessions?user=ada&away_s=0")).json() == {"sessions": 1}
    assert (await api.delete("/sessions?away_s=0")).json() == {"sessions": 1}
    assert set(world.broker.sessions) == {"here"}
