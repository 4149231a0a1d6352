"""Keep away from the parser what would occupy it for minutes.

Error recovery takes time by the square of what it does not understand, and a running parse cannot
be stopped. A file that is large and not what its name says is therefore told apart beforehand, by
tests that depend on its bytes alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from indexer.generators.treesitter import parser_of

if TYPE_CHECKING:
    from tree_sitter import Node

SMALL = 16 * 1024
LARGE = 64 * 1024
SAMPLE = 4 * 1024
MAX_UNCLOSED = 2000
PIECE = 32
STRIDE = 128
MIN_PIECES = 32

_LINE = re.compile(rb"\n(?=[^\s)\]}])")
_LETTER = re.compile(rb"[A-Za-z_@#/]")


def is_tractable(language: str, source: bytes) -> bool:
    """Whether parsing ends in reasonable time."""
    if len(source) <= SMALL:
        return True
    if _unclosed(source) > MAX_UNCLOSED or not _is_varied(source):
        return False
    return len(source) <= LARGE or _begins_well(language, source)


def _unclosed(source: bytes) -> int:
    count = source.count
    return (
        abs(count(b"(") - count(b")"))
        + abs(count(b"[") - count(b"]"))
        + abs(count(b"{") - count(b"}"))
    )


def _is_varied(source: bytes) -> bool:
    """Whether it is more than a few bytes over and over."""
    end = min(len(source), LARGE)
    pieces = {source[at : at + PIECE] for at in range(0, end, STRIDE)}
    return len(pieces) >= MIN_PIECES


def _begins_well(language: str, source: bytes) -> bool:
    """Whether the beginning is text in this language; in doubt it is."""
    sample = _sample(source)
    if sample is None:
        return True
    return _errors(parser_of(language).parse(sample).root_node) <= len(sample) // 20


def _sample(source: bytes) -> bytes | None:
    """The beginning, up to where a declaration may end; None where there is no such place."""
    ends = [found.end() for found in _LINE.finditer(source, 0, SAMPLE)]
    for end in reversed(ends[-40:]):
        sample = source[:end]
        # Not inside a docstring or a comment, where every line may begin anyhow.
        if (
            sample.count(b'"""') % 2 == 0
            and sample.count(b"'''") % 2 == 0
            and sample.count(b"/*") == sample.count(b"*/")
            and (_LETTER.match(source, end) or not _unclosed(sample))
        ):
            return sample
    return None


def _errors(root: Node) -> int:
    """How many pieces the parser could not fit into any declaration."""
    found = 0
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type == "ERROR":
            found += node.child_count
        waiting.extend(child for child in node.children if child.type == "ERROR")
    return found
