"""Whether the context that blocks of a session show still holds, proved when it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from indexer.core.fence import unfenced
from indexer.core.frames import FRAME_ATTRIBUTE
from indexer.engine.code.source import SourceDocument, show
from indexer.engine.frames.find import UnknownFrameError
from indexer.engine.frames.read import FrameDocument, get_frame
from indexer.errors import MerkleError
from indexer.sessions.content import text_of
from indexer.sessions.context import CONTENT_ID, FRESH, PATH, SYMBOL, Label, is_context
from indexer.sessions.effective import Effective

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine


def labels_of(engine: Engine, items: Iterable[Effective]) -> dict[str, Label]:
    """The label of every block of context that names its frame or its file, by the block."""
    frame_of, shown = partial(get_frame, engine), partial(show, engine)
    known: dict[str, Label] = {}
    labels: dict[str, Label] = {}
    for item in items:
        if not is_context(item.node):
            continue
        frame = item.node.attributes.get(FRAME_ATTRIBUTE)
        if isinstance(frame, str):
            if frame not in known:
                known[frame] = _label(frame_of, frame)
            labels[item.node.id] = known[frame]
        elif isinstance(item.node.attributes.get(CONTENT_ID), str):
            labels[item.node.id] = _label_of_lines(shown, item)
    return labels


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
