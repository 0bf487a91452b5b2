"""The table of endpoints as an ASGI application: requests are taken apart, answers put together."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from braidmq.admin.cluster_endpoints import CLUSTER_ENDPOINTS
from braidmq.admin.desk import Desk, RefusedError
from braidmq.admin.endpoints import ENDPOINTS, RELOAD, Call, Endpoint, Parameter, query_of
from braidmq.admin.guard import guard
from braidmq.admin.metrics import Metrics
from braidmq.admin.openapi import JSON, document
from braidmq.admin.streaming import Stream
from braidmq.admin.views import Problem, Readiness

BODY_OVERHEAD_BYTES: Final = 64 * 1024
STREAMS: Final = (
    ("/metrics", "text/plain", "The broker's numbers, for Prometheus", ()),
    (
        "/trace",
        "text/event-stream",
        "What happens to the messages of a client or a topic, as it happens",
        (
            Parameter("client_id", str, "", "The client to follow."),
            Parameter("filter", str, "", "The topic filter of the messages to follow."),
        ),
    ),
)

Answer = Callable[[Request], Awaitable[Response]]


def make_app(desk: Desk, metrics: Metrics) -> Starlette:
    """The admin API of one broker."""
    endpoints = list(ENDPOINTS)
    endpoints += [RELOAD] if desk.reload is not None else []
    endpoints += CLUSTER_ENDPOINTS if desk.cluster is not None else ()
    description = _json(document(endpoints, STREAMS))

    async def show_metrics(request: Request) -> Response:
        return Response(await metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def follow(request: Request) -> Response:
        query = request.query_params
        stream = Stream(desk, query.get("client_id", ""), query.get("filter", ""))
        return StreamingResponse(stream.events(), media_type="text/event-stream")

    async def show_description(request: Request) -> Response:
        return description

    routes = [_route(desk, endpoint) for endpoint in endpoints]
    check = guard(desk.config.admin.token)
    for path, answer in (
        ("/metrics", show_metrics),
        ("/trace", follow),
        ("/openapi.json", show_description),
    ):
        routes.append(Route(path, _guarded(check, answer), methods=["GET"]))
    return Starlette(routes=routes, exception_handlers={HTTPException: _not_found, RefusedError: _refused})


def _route(desk: Desk, endpoint: Endpoint) -> Route:
    async def answer(request: Request) -> Response:
        call = Call(
            desk,
            request.path_params,
            query_of(endpoint, request.query_params),
            await _body(desk, endpoint, request),
        )
        result = await endpoint.handler(call)
        return _json(result, 503 if isinstance(result, Readiness) and not result.ready else 200)

    guarded = answer if endpoint.is_public else _guarded(guard(desk.config.admin.token), answer)
    # Client ids may have slashes; those of a path are written %2F, and decoded before they come here.
    return Route(endpoint.path.replace("{client_id}", "{client_id:path}"), guarded, methods=[endpoint.method])


def _guarded(check: Callable[[str, dict[str, str]], Any], answer: Answer) -> Answer:
    async def guarded(request: Request) -> Response:
        denial = check(request.method, dict(request.headers))
        if denial is not None:
            raise RefusedError(denial.status, denial.detail)
        return await answer(request)

    return guarded


async def _body(desk: Desk, endpoint: Endpoint, request: Request) -> Any:
    if endpoint.body is None:
        return None
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > 2 * desk.broker.limits.packet_bytes_max + BODY_OVERHEAD_BYTES:
            raise RefusedError(413, "the request is too large")
    try:
        return msgspec.json.decode(data, type=endpoint.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RefusedError(400, f"the body is not as expected: {error}") from error


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type=JSON)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    response = _json(Problem(error.status, error.detail), error.status)
    if error.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json(Problem(error.status_code, error.detail), error.status_code)
