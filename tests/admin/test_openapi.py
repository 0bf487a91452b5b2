"""The OpenAPI document: it names every route there is, and its schemas fit the answers."""

import re
from typing import Any

import pytest

from braidmq.admin.app import make_app
from braidmq.admin.metrics import Metrics
from braidmq.wire import Publish
from tests.admin.operator import make_desk, operator
from tests.broker.world import World


async def description(world: World, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = (await operator(world, **options).get("/openapi.json")).json()
    return found


@pytest.mark.parametrize("options", [{}, {"reload": lambda: None}])
async def test_it_names_exactly_the_routes_that_exist(options: dict[str, Any]) -> None:
    world = World()
    desk = make_desk(world, **options)
    routes = {
        (method.lower(), route.path.replace(":path", ""))  # type: ignore[attr-defined]
        for route in make_app(desk, Metrics(desk)).routes
        for method in route.methods - {"HEAD"}  # type: ignore[attr-defined]
    }
    found = await description(world, **options)
    described = {(method, path) for path, item in found["paths"].items() for method in item}
    assert described | {("get", "/openapi.json")} == routes


async def test_every_reference_leads_to_a_schema_and_every_operation_has_its_own_name() -> None:
    answer = await operator(World()).get("/openapi.json")
    found = answer.json()
    assert found["openapi"] == "3.1.0"
    references = set(re.findall(r'"#/components/schemas/([^"]+)"', answer.text))
    assert references == set(found["components"]["schemas"])
    operations = [operation for path in found["paths"].values() for operation in path.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    assert all(operation["responses"] for operation in operations)


async def test_path_parameters_are_described() -> None:
    for path, item in (await description(World()))["paths"].items():
        for operation in item.values():
            described = {p["name"] for p in operation.get("parameters", ()) if p["in"] == "path"}
            assert described == set(re.findall(r"{(\w+)}", path))


async def test_answers_have_the_properties_that_their_schemas_name() -> None:
    world = World()
    client = world.connect("one")
    client.subscribe("$share/g/a", "b")
    client.send(Publish("kept", b"x", retain=True))
    api = operator(world)
    found = await description(world)
    schemas = found["components"]["schemas"]
    for path in ("/health", "/ready", "/clients", "/sessions", "/subscriptions", "/retained", "/groups"):
        schema = found["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        check((await api.get(path)).json(), schema, schemas)


def check(value: Any, schema: dict[str, Any], schemas: dict[str, Any]) -> None:
    """The value has exactly the properties of its schema, all the way down."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if isinstance(value, list):
        assert value
        for item in value:
            if schema["items"]:
                check(item, schema["items"], schemas)
    elif isinstance(value, dict):
        assert set(value) == set(schema["properties"])
        for name, inner in value.items():
            if isinstance(inner, list) and inner:
                check(inner, schema["properties"][name], schemas)
