"""The OpenAPI 3.1 document, made from the table of endpoints and the definitions of what they answer."""

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

import braidmq
from braidmq.admin.endpoints import Endpoint, Parameter
from braidmq.admin.views import Problem

REFERENCE: Final = "#/components/schemas/{name}"
JSON: Final = "application/json"

TextAnswer = tuple[str, str, str, tuple[Parameter, ...]]  # path, media type, summary, parameters


def document(endpoints: Iterable[Endpoint], streams: Iterable[TextAnswer]) -> dict[str, Any]:
    """The whole document. `streams` are answers that aren't JSON."""
    table = list(endpoints)
    types = [Problem, *(e.answer for e in table), *(e.body for e in table if e.body is not None)]
    schemas, components = msgspec.json.schema_components(types, ref_template=REFERENCE)
    schema_of = {repr(type_): schema for type_, schema in zip(types, schemas, strict=True)}
    paths: dict[str, Any] = {}
    for endpoint in table:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schema_of)
    for path, media_type, summary, parameters in streams:
        content = {media_type: {"schema": {"type": "string"}}}
        paths[path] = {
            "get": {
                "operationId": path.strip("/"),
                "summary": summary,
                "parameters": list(map(_query_parameter, parameters)),
                "responses": {"200": _response("Text", content)},
            }
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "BraidMQ admin API", "version": braidmq.__version__},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],  # on loopback a broker may be told to need none
    }


def _operation(endpoint: Endpoint, schema_of: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.handler.__name__,
        "summary": endpoint.summary,
        "parameters": [*_path_parameters(endpoint.path), *map(_query_parameter, endpoint.parameters)],
        "responses": {"200": _response("Done", {JSON: {"schema": schema_of[repr(endpoint.answer)]}})},
    }
    if endpoint.body is not None:
        content = {JSON: {"schema": schema_of[repr(endpoint.body)]}}
        operation["requestBody"] = {"required": True, "content": content}
    problem = {JSON: {"schema": schema_of[repr(Problem)]}}
    for status in endpoint.problems if endpoint.is_public else (401, 403, *endpoint.problems):
        operation["responses"][str(status)] = _response("Refused", problem)
    if endpoint.is_public:
        operation["security"] = [{}]
    return operation


def _response(description: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": content}


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", path)
    ]


def _query_parameter(parameter: Parameter) -> dict[str, Any]:
    schema = msgspec.json.schema(parameter.type)
    if parameter.default is not None:
        schema["default"] = parameter.default
    return {"name": parameter.name, "in": "query", "description": parameter.description, "schema": schema}
