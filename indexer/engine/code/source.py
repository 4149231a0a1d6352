"""`show`: a file's own text, read and hashed at that moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypedDict

from indexer.core import paths
from indexer.core.arguments import Count
from indexer.core.kinds import Kind
from indexer.core.secrets import find_secrets
from indexer.engine.code.symbols import found_among, split_symbol, symbols_in
from indexer.engine.make.workers import ChangedError
from indexer.engine.tree.resolve import UnknownNodeError, resolve_node
from indexer.engine.tree.scan import tree_as_on_disk
from indexer.errors import UsageError
from indexer.generators.fallback import as_text
from indexer.scan.reading import read_content

if TYPE_CHECKING:
    from indexer.core.code import CodeSymbol
    from indexer.engine.workspace import Engine

_LOOKS: Final = 5
"""How often a file is looked at that changes while it is read."""


class NoTextError(UsageError):
    """What is asked for has no such text."""

    code = "no_text"


class SourceDocument(TypedDict):
    """Result of `show`."""

    path: str
    symbol: str | None
    node_id: str
    content_id: str
    lines: list[int]
    """The first and the last that is shown; the last is before the first where there are none."""
    line_count: int
    content: str
    masked: int
    """Secrets that are not shown."""
    others: list[int]
    """The first lines of further symbols of the same name."""
    freshness: str


def show(
    engine: Engine, node: str, *, first: Count | None = None, last: Count | None = None
) -> SourceDocument:
    """The text of a file, of a symbol in it (`PATH::SYMBOL`) or of some lines, as on disk now.

    The id is that of exactly the bytes that are shown. Secrets are masked.
    """
    node, symbol = split_symbol(engine.tree, node)
    path = resolve_node(engine.tree, engine.trees, node)["path"]
    for _ in range(_LOOKS):
        tree = tree_as_on_disk(engine, path)
        entry = tree.get(path)
        if entry is None:
            raise UnknownNodeError(f"{paths.on_screen(path)} is gone", hint="run `merkle scan`")
        if entry.kind is not Kind.FILE:
            raise NoTextError(
                f"{paths.on_screen(path)} is a {entry.kind.label}, which has no text",
                hint="`merkle get-node` shows what is known of it",
            )
        try:
            content = read_content(engine.root, path, entry.size)
        except OSError as error:
            raise ChangedError(
                f"{paths.on_screen(path)} cannot be read: {error.strerror or error}"
            ) from error
        if content is not None and engine.algorithm.of_file(content) == entry.content_id:
            break
    else:
        raise ChangedError(
            f"{paths.on_screen(path)} changes faster than it can be read", hint="try again"
        )
    text = as_text(content)
    if text is None:
        raise NoTextError(
            f"{paths.on_screen(path)} is no text",
            hint="`merkle get-node` shows what is known of it",
        )
    lines = text.decode("utf-8", "replace").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    found: Sequence[CodeSymbol] = []
    if symbol is not None:
        found = found_among(symbols_in(path, content), path, symbol)
        first, last = found[0].line, found[0].end_line
    begin = 1 if first is None else max(1, first)
    end = len(lines) if last is None else min(last, len(lines))
    if begin > end and (first, last) != (None, None):
        raise NoTextError(
            f"{paths.on_screen(path)} has {len(lines)} lines", hint="give lines that it has"
        )
    shown, masked = masked_lines(lines, begin, end)
    return {
        "path": path,
        "symbol": found[0].symbol if found else None,
        "node_id": tree.node_id(path, entry).hex(),
        "content_id": entry.content_id.hex(),
        "lines": [begin, end],
        "line_count": len(lines),
        "content": shown,
        "masked": masked,
        "others": [one.line for one in found[1:]],
        "freshness": "fresh",
    }


def masked_lines(lines: Sequence[str], begin: int, end: int) -> tuple[str, int]:
    """Some lines of a text without its secrets, and how many those are; lines stay lines."""
    text = "".join(f"{line}\n" for line in lines)
    starts = sum(len(line) + 1 for line in lines[: begin - 1])
    ends = starts + sum(len(line) + 1 for line in lines[begin - 1 : end])
    pieces, done, count = [], starts, 0
    for secret in find_secrets(text):
        if secret.end <= starts or secret.start >= ends:
            continue
        cut, stop = max(secret.start, starts), min(secret.end, ends)
        pieces += [text[done:cut], f"[redacted:{secret.kind}]", "\n" * text.count("\n", cut, stop)]
        done, count = stop, count + 1
    pieces.append(text[done:ends])
    return "".join(pieces), count
