"""An operator at the desk of a test world: the admin API without sockets."""

from collections.abc import Callable
from typing import Any

import httpx

from braidmq.admin.app import make_app
from braidmq.admin.desk import Desk
from braidmq.admin.metrics import Metrics
from braidmq.config import AdminConfig, Config
from tests.broker.world import World

ADDRESS = "http://127.0.0.1:8080"
TOKEN = "a-token-that-is-long-enough"


def make_desk(
    world: World, token: str | None = None, *, reload: Callable[[], None] | None = None, **admin: Any
) -> Desk:
    config = Config(limits=world.broker.limits, admin=AdminConfig(**({"port": 8080, "token": token} | admin)))
    return Desk(world.broker, lambda: config, lambda: world.now, world.broker.hub.end_turn, reload)


def operator(
    world: World, token: str | None = None, *, address: str = ADDRESS, **options: Any
) -> httpx.AsyncClient:
    """A caller of the API of a broker that has been told `token`."""
    desk = make_desk(world, token, **options)
    app = make_app(desk, Metrics(desk))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=address)
