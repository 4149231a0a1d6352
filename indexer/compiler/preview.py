"""Looking at a payload safely: redacted, without control characters, and short."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from indexer.core.canonical import canonical_json
from indexer.core.secrets import is_secret_name, redact

_MAX_DEPTH: Final = 40
"""Levels that are looked into; no message is as deep, and a preview would be over long before."""
_HIDDEN: Final = "[redacted:field]"

# Controls, invisible and direction-changing characters, lone surrogates. The list is spelled
# out because Python's own tables change between versions, and a preview must not.
_UNSAFE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escape_controls(text: str) -> str:
    """The text with everything a terminal might act on written out."""
    return _UNSAFE.sub(lambda found: _escaped_character(found[0]), text)


def preview(payload: object, limit: int) -> tuple[str, bool]:
    """At most `limit` characters of a payload, and whether that is less than all of it.

    Of what has a text, that is the text; of anything else its JSON.
    """
    # Redaction comes first: a secret cut in half is no longer recognised.
    clean = _redacted(payload, 0)
    text = clean if isinstance(clean, str) else "\n".join(texts_of(clean))
    if not text and not isinstance(clean, str):
        text = redact(canonical_json(clean).decode())
    start = text[: limit + 1]
    if not _UNSAFE.search(start):
        return start[:limit], len(start) > limit
    pieces: list[str] = []
    used = 0
    for character in start:
        piece = _escaped_character(character)
        if used + len(piece) > limit:
            return "".join(pieces), True
        pieces.append(piece)
        used += len(piece)
    return "".join(pieces), False


def texts_of(payload: object) -> Iterator[str]:
    """The text a reader would see: a string, the content of a message, the text of its parts."""
    if isinstance(payload, str):
        yield payload
    elif isinstance(payload, Mapping):
        for key in ("content", "text"):
            inner = payload.get(key)
            parts = inner if isinstance(inner, (list, tuple)) else [inner]
            for part in parts:
                text = part.get("text") if isinstance(part, Mapping) else part
                if isinstance(text, str):
                    yield text


def _redacted(value: object, depth: int) -> object:
    if isinstance(value, str):
        return redact(value)
    if depth >= _MAX_DEPTH and isinstance(value, (Mapping, list, tuple)):
        return "[nested]"
    if isinstance(value, Mapping):
        named = any(
            isinstance(value.get(key), str) and is_secret_name(value[key])
            for key in ("name", "key", "header")
        )
        return {
            redact(key): _HIDDEN
            if is_secret_name(key) or (named and key == "value")
            else _redacted(value[key], depth + 1)
            for key in sorted(value)
        }
    if isinstance(value, (list, tuple)):
        # Headers are often written as pairs.
        if len(value) == 2 and isinstance(value[0], str) and is_secret_name(value[0]):
            return [redact(value[0]), _HIDDEN]
        return [_redacted(item, depth + 1) for item in value]
    return value


def _escaped_character(character: str) -> str:
    if not _UNSAFE.match(character):
        return character
    code = ord(character)
    width = "x{:02x}" if code < 0x100 else "u{:04x}" if code < 0x10000 else "U{:08x}"
    return _SHORT.get(character, "\\" + width.format(code))
