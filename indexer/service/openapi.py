"""The service's OpenAPI description, made from the very tables that the server routes by."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Final

from indexer import __version__
from indexer.engine.workspace import Engine
from indexer.service.arguments import SCHEMAS, Check
from indexer.service.operations import OPERATIONS, Operation
from indexer.service.routes import FIXED, JSON, FixedRoute

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
    "503": "the service is stopping",
}


def openapi_document(summaries: type) -> dict[str, Any]:
    """Every route with its arguments; `summaries` is the class that answers the fixed ones."""
    paths: dict[str, Any] = {}
    for fixed in FIXED:
        method = fixed.method.lower()
        text = _summary(summaries, fixed.handler)
        paths.setdefault(fixed.path, {})[method] = _fixed(fixed, text)
    for name, operation in OPERATIONS.items():
        text = _summary(Engine, operation.method)
        paths[f"/v1/{name}"] = {"post": _operation(name, operation, text)}
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


def _summary(owner: type, method: str) -> str:
    return inspect.cleandoc(getattr(owner, method).__doc__ or "").partition("\n")[0]


def _fixed(route: FixedRoute, summary: str) -> dict[str, Any]:
    described: dict[str, Any] = {"operationId": route.handler, "summary": summary}
    if route.method == "GET":
        described["parameters"] = [
            {"name": name, "in": "query", "required": name in route.required,
             "schema": SCHEMAS[check]}
            for name, check in {**route.required, **route.optional}.items()
        ]  # fmt: skip
    else:
        described["requestBody"] = _body(route.required, route.optional)
    keys = list(route.answer.__annotations__) if route.answer else []
    answer = {"type": "object", "required": keys} if route.media == JSON else {"type": "string"}
    described["responses"] = _responses({route.media: {"schema": answer}})
    return described


def _operation(name: str, operation: Operation, summary: str) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": summary,
        "requestBody": _body(operation.required, operation.may_have),
        "responses": _responses({JSON: {"schema": {"type": "object"}}}),
    }


def _body(required: Mapping[str, Check], optional: Mapping[str, Check]) -> dict[str, Any]:
    properties = {name: SCHEMAS[check] for name, check in required.items()}
    properties |= {
        # None stands for not given.
        name: {"anyOf": [SCHEMAS[check], {"type": "null"}]}
        for name, check in optional.items()
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
