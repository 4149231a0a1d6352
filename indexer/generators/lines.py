"""Lines fit to be shown: one line each, within a width, without control characters."""

from __future__ import annotations

import codecs

from indexer.core.patterns import pattern

ELLIPSIS = "…"

_CONTROL = bytes(set(range(32)) - set(b"\t\n")) + b"\x7f"
# Other line ends, C1 controls, and marks that reorder what is read.
_INVISIBLE = pattern("[\x80-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


def shown(text: bytes) -> str:
    """Bytes as text: bad UTF-8 marked, carriage returns and control characters gone."""
    decoded = text.translate(None, _CONTROL).decode("utf-8", "replace")
    return decoded if decoded.isascii() else _INVISIBLE.sub("", decoded)


def head(content: bytes, size: int) -> bytes:
    """The first bytes of a content, not ending inside a character."""
    if len(content) <= size:
        return content
    piece = content[:size]
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(piece, final=False)
    unfinished = len(decoder.getstate()[0])
    return piece[: size - unfinished] if unfinished else piece


def cut(text: str, width: int) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= width else text[: width - 1].rstrip() + ELLIPSIS


def squeezed(text: str) -> str:
    """Runs of white space as single blanks."""
    return " ".join(text.split())
