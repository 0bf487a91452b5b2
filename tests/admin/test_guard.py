"""Who may call the admin API."""

import pytest

from tests.admin.operator import ADDRESS, TOKEN, operator
from tests.broker.world import World

GUARDED = ["/clients", "/config", "/metrics", "/openapi.json", "/retained"]


@pytest.mark.parametrize("path", [*GUARDED, "/trace?client_id=x"])
@pytest.mark.parametrize("header", [None, "Bearer wrong", TOKEN, f"bearer {TOKEN}x", "Bearer ü"])
async def test_without_the_right_token_nothing_is_shown(path: str, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header.encode()}
    answer = await operator(World(), TOKEN).get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("path", GUARDED)
async def test_with_the_token_everything_is_shown_under_any_name(path: str) -> None:
    api = operator(World(), TOKEN, address="http://broker.example:8080")
    assert (await api.get(path, headers={"Authorization": f"Bearer {TOKEN}"})).is_success


@pytest.mark.parametrize("path", ["/health", "/ready"])
async def test_whether_it_lives_anybody_may_ask(path: str) -> None:
    assert (await operator(World(), TOKEN, address="http://broker.example").get(path)).is_success


@pytest.mark.parametrize("address", [ADDRESS, "http://localhost:1", "http://[::1]:8080", "http://127.0.0.1"])
async def test_without_a_token_this_machine_may_ask(address: str) -> None:
    assert (await operator(World(), address=address).get("/clients")).is_success


@pytest.mark.parametrize("address", ["http://evil.example", "http://10.0.0.1:8080", "http://127.0.0.1.evil"])
async def test_another_name_that_leads_here_is_refused(address: str) -> None:
    assert (await operator(World(), address=address).get("/clients")).status_code == 403


async def test_a_web_page_can_not_make_the_broker_act() -> None:
    api = operator(World())
    page = {"Origin": "http://evil.example"}
    assert (await api.post("/publish", json={"topic": "a"}, headers=page)).status_code == 403
    assert (await api.delete("/clients/a", headers=page)).status_code == 403
    assert (await api.get("/clients", headers=page)).status_code == 403
    assert (await api.get("/clients", headers={"Origin": ADDRESS})).is_success


async def test_a_picture_of_another_page_can_not_start_a_trace_or_ask_anything_else() -> None:
    api = operator(World())
    for headers in (
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "image"},
        {"Sec-Fetch-Site": "same-site"},  # another port of this machine
        {"Referer": "http://evil.example/page"},
        {"Referer": "http://[evil"},
    ):
        for path in (*GUARDED, "/trace?client_id=x"):
            assert (await api.get(path, headers=headers)).status_code == 403
        assert (await api.delete("/sessions?away_s=0", headers=headers)).status_code == 403
    for headers in ({"Sec-Fetch-Site": "none"}, {"Sec-Fetch-Site": "same-origin", "Referer": f"{ADDRESS}/x"}):
        assert (await api.get("/clients", headers=headers)).is_success


async def test_the_configuration_is_shown_without_its_secrets() -> None:
    answer = await operator(World(), TOKEN).get("/config", headers={"Authorization": f"Bearer {TOKEN}"})
    shown = answer.json()["admin"]
    assert (shown["port"], shown["host"], shown["token"]) == (8080, "127.0.0.1", "***")
    assert TOKEN not in answer.text
