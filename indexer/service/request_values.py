"""What a request says: the values in its query or in its body, read within bounds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request

from indexer.core.arguments import COUNT, FLAG, Shape
from indexer.errors import MalformedError

MAX_BODY: Final = 8 << 20
"""Bytes of a request's body; the longest sensible one is a frame with every byte escaped."""


class TooLargeError(MalformedError):
    """The request is longer than any that makes sense."""

    code = "too_large"


class MediaTypeError(MalformedError):
    """The request's body is declared to be something else than JSON."""

    code = "media_type"


def from_query(query: Mapping[str, str], known: Mapping[str, Shape]) -> dict[str, Any]:
    """A query's texts as the values they spell, where they are no texts."""
    return {name: _spelled(text, known.get(name)) for name, text in query.items()}


def _spelled(text: str, shape: Shape | None) -> Any:
    if shape is FLAG and text in ("true", "false"):
        return text == "true"
    if shape is COUNT and text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    return text


async def from_body(request: Request) -> dict[str, Any]:
    """The object in a request's body; nothing at all is an empty one."""
    raw = await _body(request)
    if not raw:
        return {}
    media = request.headers.get("content-type", "application/json").partition(";")[0]
    if media.strip().lower() != "application/json":
        raise MediaTypeError("the body must be application/json", hint="say so in Content-Type")
    try:
        values = json.loads(raw, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"the body is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise MalformedError("the body must be a JSON object")
    return values


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no JSON number")


async def _body(request: Request) -> bytes:
    """The body, refused as soon as it is known to be too long."""
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > MAX_BODY:
            raise TooLargeError(f"the body is longer than {MAX_BODY} bytes")
        pieces.append(piece)
    return b"".join(pieces)
