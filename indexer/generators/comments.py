"""The first telling sentence of a comment or docstring."""

from __future__ import annotations

from collections.abc import Iterable

from indexer.core.patterns import pattern

# Nobody states a summary later than this; a licence of a thousand lines is not read through.
CLIP = 4096
MAX_SAID = 400

_MARKER = pattern(rb"^\s*(?:/\*+!?|\*+/|///?!?|//!|\*|#+!?|--+|;+)?[ \t]?")
_CLOSER = pattern(rb"\s*\*+/\s*$")
_DECORATION = pattern(rb"[-=*~_#/\\+.:<>|\s]*")
_BOILERPLATE = pattern(
    rb"(?i)copyright|licen[cs]ed (?:under|to)|spdx-|all rights reserved|\(c\) ?\d{4}"
    rb"|permission is hereby granted|under the terms of|licen[cs]e agreement"
)
_DIRECTIVE = pattern(
    rb"(?i)(?:eslint|jshint|jslint|globals? |prettier|istanbul|c8 ignore|@ts-|@flow|@jsx|<reference"
    rb"|go:|\+build|nolint|clang-|vim?:|-\*-|!/|region\b|endregion\b|pragma\b|type: ignore"
    rb"|todo\b|fixme\b|xxx\b|noinspection|@(?:file|fileoverview|module|author|since|version)\s*$)"
)
_TAG = pattern(rb"@(?:file|fileoverview|brief|module|overview|summary|description)\s+")
_ANY_TAG = pattern(rb"@\w+")
_INLINE_TAG = pattern(rb"\{@\w+\s+([^{}]*)\}|</?[a-zA-Z][^<>]{0,40}>")
_ENDS = pattern(rb"[.!?](?=[\"')\]]*(?:\s|$))")
_ABBREVIATION = pattern(rb"(?i)(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|resp|no|fig|eg|ie|[a-z])\.)$")
_FIELD = pattern(rb":\w+|>>>|[-*] |(?:Args|Arguments|Parameters|Returns|Raises|Yields):")
_DOCSTRING = pattern(rb"^[rRbBuU]{0,2}(\"\"\"|'''|\"|')")


def first_said(comments: Iterable[bytes]) -> bytes:
    """The first sentence of a comment that says something, without comment marks."""
    said: list[bytes] = []
    for comment in comments:
        for line in _CLOSER.sub(b"", comment[:CLIP]).split(b"\n"):
            words = _CLOSER.sub(b"", _MARKER.sub(b"", line, count=1).strip())
            plain = _DECORATION.fullmatch(words) or _DIRECTIVE.match(words)
            if said and (plain or _ANY_TAG.match(words)):
                # The paragraph is over.
                return _sentence(said)
            if not words or plain:
                continue
            words = _TAG.sub(b"", words, count=1)
            if _ANY_TAG.match(words):
                # Tags come after the description: there is none.
                return b""
            if b"<" in words or b"{@" in words:
                words = _INLINE_TAG.sub(rb"\1", words)
            said.append(words)
            if _is_enough(said):
                return _sentence(said)
    return _sentence(said)


def _is_enough(said: list[bytes]) -> bool:
    """Whether the last line ends a sentence, or more than a sentence has been read."""
    return _ENDS.search(said[-1]) is not None or sum(map(len, said)) > MAX_SAID


def _sentence(said: list[bytes]) -> bytes:
    """The first sentence of some lines, or as much of it as anybody reads."""
    text = b" ".join(b" ".join(said).split())
    for found in _ENDS.finditer(text):
        # An abbreviation is no end, and a sentence of one word says too little.
        if not _ABBREVIATION.search(text, max(0, found.start() - 8), found.end()):
            return text[: found.end()]
    return text


def is_boilerplate(comments: Iterable[bytes]) -> bool:
    """Whether this is a licence header, which says nothing about its file."""
    return any(_BOILERPLATE.search(comment[:CLIP]) for comment in comments)


def docstring_said(literal: bytes) -> bytes:
    """The first sentence of a Python string literal; an f-string is no docstring."""
    opened = _DOCSTRING.match(literal)
    if opened is None:
        return b""
    text = literal[opened.end() :]
    if text.endswith(opened[1]):
        text = text[: -len(opened[1])]
    said: list[bytes] = []
    for line in text[:CLIP].split(b"\n"):
        words = line.strip()
        if not words or _DECORATION.fullmatch(words):
            if said:
                break
            continue
        if said and _FIELD.match(words):
            break
        said.append(words)
        if _is_enough(said):
            break
    return _sentence(said)
