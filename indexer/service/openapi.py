"""The service's OpenAPI description, made from the operations' own signatures."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Final

from indexer import __version__
from indexer.core.arguments import Shape, alternatives, object_schema
from indexer.engine.documents import keys_of
from indexer.service.operations import OPERATIONS, Operation
from indexer.service.routes import FIXED, JSON, OF_SESSIONS

_ERROR: Final = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "hint", "exit_code"],
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "hint": {"type": "string"},
                "exit_code": {"type": "integer", "minimum": 1, "maximum": 6},
            },
        }
    },
}
_PLAIN: Final = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}
_REFUSALS: Final = {
    "400": "the request is not what this description says; nothing was done",
    "409": "the request could not be carried out or checked",
    "413": "the body is too long",
    "415": "the body is declared to be something else than JSON",
    "422": "what is named is not there, or not allowed, as `code` tells; nothing was done",
    "503": "the service is stopping, or too much is asked at a time",
}


def openapi_document(server: type) -> dict[str, Any]:
    """Every route with its arguments; `server` is the class that answers the fixed ones."""
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {"Error": _ERROR}
    for fixed in FIXED:
        summary = inspect.cleandoc(getattr(server, fixed.handler).__doc__ or "")
        kind = "object" if fixed.media == JSON else "string"
        paths[fixed.path] = {
            "get": {
                "operationId": fixed.handler,
                "summary": summary.partition("\n")[0],
                "responses": _responses({fixed.media: {"schema": {"type": kind}}}),
            }
        }
    for name, operation in OPERATIONS.items():
        paths[f"/v1/{name}"] = {
            "get" if operation.get else "post": _operation(name, operation, schemas)
        }
    for route in OF_SESSIONS:
        described = _operation(route.operation, OPERATIONS[route.operation], schemas)
        del described["requestBody"]
        named = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
        identity = route.path.removeprefix("/v1/").replace("/", "-").replace("{name}-", "")
        paths[route.path] = {"get": {**described, "operationId": identity, "parameters": [named]}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "merkle",
            "version": __version__,
            "description": "The service of one workspace, over its Unix socket (docs/events.md).",
        },
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _operation(name: str, operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    required, optional, documents = operation.signature
    described: dict[str, Any] = {"operationId": name, "summary": operation.summary}
    if operation.get:
        described["parameters"] = [
            {"name": key, "in": "query", "required": key in required, "schema": shape.schema}
            for key, shape in {**required, **optional}.items()
        ]
    else:
        described["requestBody"] = _body(required, optional, alternatives(operation.function))
    may_be = [_schema(document, schemas) for document in documents]
    schema = may_be[0] if len(may_be) == 1 else {"anyOf": may_be}
    described["responses"] = _responses({JSON: {"schema": schema}})
    return described


def _schema(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """What a declared type allows; documents are described once, under their names."""
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if typing.is_typeddict(kind):
        name = kind.__name__
        if name not in schemas:
            # Before what is in it, which may hold more of the same.
            described = schemas[name] = {"type": "object", "required": list(keys_of(kind))}
            described["properties"] = {
                key: _schema(one, schemas) for key, one in typing.get_type_hints(kind).items()
            }
        return {"$ref": f"#/components/schemas/{name}"}
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is list:
        return {"type": "array", "items": _schema(inner[0], schemas)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(inner[1], schemas)}
    return {"anyOf": [_schema(one, schemas) for one in inner]} if inner else {}


def _body(
    required: Mapping[str, Shape], optional: Mapping[str, Shape], exactly_one: Sequence[str]
) -> dict[str, Any]:
    schema = object_schema(required, optional)
    if exactly_one:
        schema["oneOf"] = [
            {
                "required": [given],
                "properties": {
                    name: optional[name].schema if name == given else {"type": "null"}
                    for name in exactly_one
                },
            }
            for given in exactly_one
        ]
    return {"required": bool(required), "content": {JSON: {"schema": schema}}}


def _responses(content: dict[str, Any]) -> dict[str, Any]:
    error = {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "200": {"description": "the result", "content": content},
        **{status: {"description": text, "content": error} for status, text in _REFUSALS.items()},
    }
