"""What changed in one file between two roots, line by line, as far as its texts can be had.

An index holds no contents. The newer text is mostly on disk and the older one in git's history:
a text is used only if its hash is the content id that the root has recorded.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from indexer.core.ids import ContentId
from indexer.core.kinds import Kind
from indexer.core.secrets import mask
from indexer.engine.tree.history import find_root
from indexer.generators.fallback import as_text
from indexer.scan.git import versions
from indexer.scan.reading import read_content

if TYPE_CHECKING:
    from pathlib import Path

    from indexer.core.tree import Entry
    from indexer.engine.frames.opened import Frames
    from indexer.engine.workspace import Engine

LONGEST: Final = 512 << 10
"""Bytes of a text that is compared: the work grows with the square of its lines."""


class LineChange(NamedTuple):
    """One line of a comparison: its sign (`+`, `-`, `@` or a blank) and what it says."""

    sign: str
    text: str


def line_changes(
    engine: Engine, old: str, new: str, path: str
) -> tuple[list[LineChange], str | None]:
    """The lines that differ between two roots, with some around them; or why they are not known."""
    trees = engine.trees
    between = trees.changes_between(find_root(trees, old).seq, find_root(trees, new).seq)
    change = next((one for one in between if one.path == path), None)
    if change is None:
        return [], "It is the same in both."
    sides = [_file_id(entry) for entry in (change.old, change.new)]
    wanted = {one for one in sides if one is not None}
    texts = _texts(engine.frames, engine.tree.get(path), path, wanted)
    if len(texts) < len(wanted):
        return [], "Its text of then is neither on disk nor in git's history, or it is no text."
    before, after = ("" if one is None else texts[one] for one in sides)
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=3)
    # The first two name the files.
    return [LineChange(line[0], line[1:]) for line in list(lines)[2:]], None


def _file_id(entry: Entry | None) -> ContentId | None:
    return entry.content_id if entry is not None and entry.kind is Kind.FILE else None


def _texts(
    frames: Frames, entry: Entry | None, path: str, wanted: set[ContentId]
) -> dict[ContentId, str]:
    """The texts of some contents, each shown to be that content."""
    found: dict[ContentId, str] = {}
    for content in _candidates(frames.root, entry, path):
        content_id = frames.algorithm.of_file(content)
        text = as_text(content) if content_id in wanted else None
        if text is not None and len(text) <= LONGEST:
            found[content_id] = mask(text.decode("utf-8", "replace"))
        if found.keys() >= wanted:
            break
    return found


def _candidates(root: Path, entry: Entry | None, path: str) -> Iterator[bytes]:
    if entry is not None and entry.kind is Kind.FILE and entry.size <= LONGEST:
        try:
            content = read_content(root, path, entry.size)
        except OSError:
            content = None
        if content is not None:
            yield content
    yield from versions(root, path)
