"""The service's OpenAPI description, made from the operations' own signatures."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping
from typing import Any, Final

from indexer import __version__
from indexer.core.arguments import Shape
from indexer.service.operations import OPERATIONS, Operation
from indexer.service.routes import FIXED, JSON

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
_REFUSALS: Final = {
    "400": "the request is wrong; nothing was done",
    "409": "the request could not be carried out or checked",
    "413": "the body is too long",
    "415": "the body is declared to be something else than JSON",
    "503": "the service is stopping, or too much is asked at a time",
}


def openapi_document(server: type) -> dict[str, Any]:
    """Every route with its arguments; `server` is the class that answers the fixed ones."""
    paths: dict[str, Any] = {}
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
        paths[f"/v1/{name}"] = {"get" if operation.get else "post": _operation(name, operation)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "merkle",
            "version": __version__,
            "description": "The service of one workspace, over its Unix socket (docs/events.md).",
        },
        "paths": paths,
        "components": {"schemas": {"Error": _ERROR}},
    }


def _operation(name: str, operation: Operation) -> dict[str, Any]:
    required, optional, answer = operation.signature
    described: dict[str, Any] = {"operationId": name, "summary": operation.summary}
    if operation.get:
        described["parameters"] = [
            {"name": key, "in": "query", "required": key in required, "schema": shape.schema}
            for key, shape in {**required, **optional}.items()
        ]
    else:
        described["requestBody"] = _body(required, optional)
    schema: dict[str, Any] = {"type": "object"}
    if typing.is_typeddict(answer):
        schema["required"] = list(answer.__annotations__)
    described["responses"] = _responses({JSON: {"schema": schema}})
    return described


def _body(required: Mapping[str, Shape], optional: Mapping[str, Shape]) -> dict[str, Any]:
    properties = {name: shape.schema for name, shape in required.items()}
    properties |= {
        # None stands for not given.
        name: {"anyOf": [shape.schema, {"type": "null"}]}
        for name, shape in optional.items()
    }
    schema: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return {"required": bool(required), "content": {JSON: {"schema": schema}}}


def _responses(content: dict[str, Any]) -> dict[str, Any]:
    error = {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "200": {"description": "the result", "content": content},
        **{status: {"description": text, "content": error} for status, text in _REFUSALS.items()},
    }
