"""Whether the context that blocks of a session show still holds, proved when it is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from indexer.compose.rendering import numbered
from indexer.core.fence import unfenced
from indexer.core.frames import FRAME_ATTRIBUTE, OUTLINER
from indexer.engine.code.outlines import Outline, symbol_lines
from indexer.engine.code.source import SourceDocument, show
from indexer.engine.frames.find import UnknownFrameError
from indexer.engine.frames.read import FrameDocument, get_frame
from indexer.engine.tree.scan import tree_as_on_disk
from indexer.errors import MerkleError
from indexer.sessions.content import text_of
from indexer.sessions.context import CONTENT_ID, FRESH, PATH, SYMBOL, Label, is_context
from indexer.sessions.effective import Effective

if TYPE_CHECKING:
    from indexer.core.tree import Tree
    from indexer.engine.frames.opened import Frames
    from indexer.engine.workspace import Engine

_LINE: Final = re.compile(r"^( *)[0-9]+: ", re.MULTILINE)
_MOVED: Final = Label("stale", "its symbols begin at other lines")


def labels_of(engine: Engine, items: Iterable[Effective]) -> dict[str, Label]:
    """The label of every block of context that names its frame or its file, by the block."""
    frame_of, shown = cache(partial(get_frame, engine)), partial(show, engine)
    known: dict[str, Label] = {}
    outlines: dict[str, tuple[str, str]] = {}
    labels: dict[str, Label] = {}
    for item in items:
        if not is_context(item.node):
            continue
        frame = item.node.attributes.get(FRAME_ATTRIBUTE)
        if isinstance(frame, str):
            if frame not in known:
                known[frame] = _label(frame_of, frame)
                if known[frame].freshness == FRESH:
                    found = frame_of(frame)
                    tree = tree_as_on_disk(engine, found["path"])
                    if outline := _outline(engine.frames, tree, found):
                        outlines[frame] = outline
            moved = frame in outlines and _has_moved(*outlines[frame], item)
            labels[item.node.id] = _MOVED if moved else known[frame]
        elif isinstance(item.node.attributes.get(CONTENT_ID), str):
            labels[item.node.id] = _label_of_lines(shown, item)
    return labels


def _outline(frames: Frames, tree: Tree, found: FrameDocument) -> tuple[str, str] | None:
    """What an outline says, without lines and with those of now; None of any other frame."""
    path, content = found["path"], found["content"]
    entry = tree.get(path)
    if found["agent"] != OUTLINER or not content or entry is None:
        return None
    (lines,) = symbol_lines(frames, [Outline(path, entry.content_id, content)])
    return content, numbered(content, lines)


def _has_moved(content: str, lined: str, item: Effective) -> bool:
    """Whether a block shows an outline with lines that are not those of now."""
    text = unfenced(text_of(item.content))
    if any(shown.rstrip("\n") in text for shown in (lined, content)):
        return False
    # An author may have made something else of it, which is not judged by its lines.
    return _LINE.sub(r"\1", content).rstrip("\n") in _LINE.sub(r"\1", text)


def _label_of_lines(shown: Callable[[str], SourceDocument], item: Effective) -> Label:
    """Whether a file still has the lines that a block shows: as a whole, or in the same symbol."""
    given = item.node.attributes
    path, symbol = str(given.get(PATH, "")), given.get(SYMBOL)
    try:
        if shown(f"path:{path}")["content_id"] == given[CONTENT_ID]:
            return Label(FRESH)
        if symbol is None:
            return Label("stale", f"{path} has changed")
        now = shown(f"path:{path}::{symbol}")["content"]
    except MerkleError as error:
        return Label("stale", error.message)
    same = now.rstrip("\n") in unfenced(text_of(item.content))
    return Label(FRESH) if same else Label("stale", f"{path}::{symbol} has changed")


def _label(frame_of: Callable[[str], FrameDocument], frame: str) -> Label:
    try:
        found = frame_of(frame)
    except UnknownFrameError:
        return Label("unknown", "its frame is not stored here")
    if found["freshness"] != FRESH and found["superseded_by"] is not None:
        later = frame_of(found["superseded_by"])
        if later["freshness"] == FRESH and later["content"] == found["content"]:
            # What took its place says the same.
            return Label(FRESH)
    return Label(found["freshness"], found["because"] or None)
