"""The first telling line of a comment or docstring."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Nobody states a summary later than this; a licence of a thousand lines is not read through.
CLIP = 4096

_MARKER = re.compile(rb"^\s*(?:/\*+!?|\*+/|///?!?|//!|\*|#+!?|--+|;+)?[ \t]?")
_CLOSER = re.compile(rb"\s*\*+/\s*$")
_DECORATION = re.compile(rb"[-=*~_#/\\+.:<>|\s]*")
_BOILERPLATE = re.compile(
    rb"(?i)copyright|licen[cs]ed (?:under|to)|spdx-|all rights reserved|\(c\) ?\d{4}"
    rb"|permission is hereby granted|under the terms of|licen[cs]e agreement"
)
_DIRECTIVE = re.compile(
    rb"(?i)(?:eslint|jshint|jslint|globals? |prettier|istanbul|c8 ignore|@ts-|@flow|@jsx|<reference"
    rb"|go:|\+build|nolint|clang-|vim?:|-\*-|!/|region\b|endregion\b|pragma\b|type: ignore"
    rb"|todo\b|fixme\b|xxx\b|noinspection|@(?:file|fileoverview|module|author|since|version)\s*$)"
)
_TAG = re.compile(rb"@(?:file|fileoverview|brief|module|overview|summary|description)\s+")
_ANY_TAG = re.compile(rb"@\w+")
_INLINE_TAG = re.compile(rb"\{@\w+\s+([^{}]*)\}|</?[a-zA-Z][^<>]{0,40}>")
_DOCSTRING = re.compile(rb"^[rRbBuU]{0,2}(\"\"\"|'''|\"|')")


def comment_line(comments: Iterable[bytes]) -> bytes:
    """The first line that says something, without its comment marks."""
    for comment in comments:
        for line in _CLOSER.sub(b"", comment[:CLIP]).split(b"\n"):
            said = _MARKER.sub(b"", line, count=1).strip()
            said = _CLOSER.sub(b"", said)
            if not said or _DECORATION.fullmatch(said) or _DIRECTIVE.match(said):
                continue
            said = _TAG.sub(b"", said, count=1)
            if _ANY_TAG.match(said):
                # Tags come after the description: there is none.
                return b""
            if b"<" in said or b"{@" in said:
                said = _INLINE_TAG.sub(rb"\1", said)
            said = b" ".join(said.split())
            if said:
                return said
    return b""


def is_boilerplate(comments: Iterable[bytes]) -> bool:
    """Whether this is a licence header, which says nothing about its file."""
    return any(_BOILERPLATE.search(comment[:CLIP]) for comment in comments)


def docstring_line(literal: bytes) -> bytes:
    """The first line of a Python string literal; an f-string is no docstring."""
    opened = _DOCSTRING.match(literal)
    if opened is None:
        return b""
    text = literal[opened.end() :]
    if text.endswith(opened[1]):
        text = text[: -len(opened[1])]
    for line in text[:CLIP].split(b"\n"):
        said = b" ".join(line.split())
        if said and not _DECORATION.fullmatch(said):
            return said
    return b""
