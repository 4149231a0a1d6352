"""The one predicate: is a head's basis what it would be now? And if not, because of what."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from indexer.core import filestat, paths
from indexer.core.frames import (
    ON_CONTENT,
    ON_LISTING,
    ON_SYMBOL,
    BasisHash,
    BodyHash,
    Fingerprint,
    FrameId,
    Freshness,
    Head,
    basis_of_content,
    basis_of_frame,
    basis_of_listing,
    basis_of_symbol,
    is_generated,
)
from indexer.core.hashing import WorkspaceHash
from indexer.core.ids import ContentId
from indexer.core.kinds import Kind
from indexer.core.tree import Entry, Tree
from indexer.engine.frames.inputs import FINGERPRINT, children_document
from indexer.engine.frames.recipe import IsFresh, expected_basis, parts_of
from indexer.engine.frames.types import FrameType, requested_rules

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames

ON: Final = "/on"
CONTENT_ID: Final = "/content_id"
KIND: Final = "/kind"
SHA256: Final = "/sha256"
"""Names in a note's list of inputs; no child can be called that, as names contain no slash."""
_KINDS: Final = {kind.label: kind for kind in Kind}


class Judged(NamedTuple):
    """A frame's freshness, and what made it so where it is not fresh."""

    freshness: Freshness
    because: str = ""


FRESH = Judged(Freshness.FRESH)


def judge(
    frames: Frames,
    tree: Tree,
    path: str,
    frame_type: str,
    agent: str,
    head: Head,
    *,
    explain: bool = True,
) -> Judged:
    """Whether a head is fresh in a tree that is known to be what is on disk.

    What exactly moved is looked for only to explain it, and costs more than the rest.
    """
    entry = tree.get(path)
    judged = _judge(frames, tree, path, entry, frame_type, agent, head, explain)
    unread = _why_unread(entry) if entry is not None else None
    if unread is not None and judged.freshness in (Freshness.FRESH, Freshness.STALE):
        return Judged(Freshness.UNKNOWN, unread)
    return judged


def freshness_of(
    frames: Frames, tree: Tree, path: str, frame_type: str, agent: str, head: Head
) -> Freshness:
    """As `judge` without a reason, for those who judge many."""
    return judge(frames, tree, path, frame_type, agent, head, explain=False).freshness


def _why_unread(entry: Entry) -> str | None:
    """Why it cannot be told what a node holds now."""
    if entry.folder is not None:
        count = entry.folder.unreadable
        return f"{count} of the files below it cannot be read now" if count else None
    problem = filestat.problem_of(entry.stat)
    if problem == errno.EAGAIN:
        return "it keeps changing while it is read"
    return f"it cannot be read now: {os.strerror(problem).lower()}" if problem else None


def _judge(
    frames: Frames,
    tree: Tree,
    path: str,
    entry: Entry | None,
    frame_type: str,
    agent: str,
    head: Head,
    explain: bool,
) -> Judged:
    """As `judge` by what was last read, though a file may not be readable now."""
    if is_generated(agent):
        return _judge_generated(frames, tree, path, entry, frame_type, agent, head, explain)
    if entry is None:
        return Judged(Freshness.ORPHANED, "the path is gone or ignored now")
    return _judge_note(frames, path, entry, head)


def fresh_in(frames: Frames, tree: Tree) -> IsFresh:
    """Whether heads are fresh by what was last read of a tree, which frames are made from."""
    return lambda path, frame_type, agent, head: (
        _judge(frames, tree, path, tree.get(path), frame_type, agent, head, False).freshness
        is Freshness.FRESH
    )


def _judge_generated(
    frames: Frames,
    tree: Tree,
    path: str,
    entry: Entry | None,
    frame_type: str,
    agent: str,
    head: Head,
    explain: bool,
) -> Judged:
    declared = frames.types.get(frame_type)
    if declared is None:
        return _judge_requested(frames, tree, path, entry, frame_type, agent, head)
    if not declared.rules.covers(path):
        return Judged(Freshness.UNMANAGED, f"outside the scope of type {frame_type}")
    if entry is None:
        return Judged(Freshness.ORPHANED, "the path is gone or ignored now")
    if not declared.rules.wants(entry) or agent != declared.rules.agent_for(entry):
        return Judged(Freshness.UNMANAGED, f"type {frame_type} keeps no frame by {agent} here")
    if declared.rules.is_current(head, entry):
        return FRESH
    because = _culprit(frames, tree, declared, path, entry, head) if explain else ""
    return Judged(Freshness.STALE, because)


def _judge_requested(
    frames: Frames,
    tree: Tree,
    path: str,
    entry: Entry | None,
    frame_type: str,
    agent: str,
    head: Head,
) -> Judged:
    """A folder's frame of a type that is not declared holds as long as what it was made from.

    What a type that is no longer declared left behind is kept by nobody.
    """
    unmanaged = Judged(Freshness.UNMANAGED, f"type {frame_type} is not declared")
    if head.config in frames.left_behind:
        return unmanaged
    inputs = frames.note_inputs(head.frame_id) or {}
    made_by = Fingerprint(bytes.fromhex(inputs.get(FINGERPRINT, "")))
    rules = requested_rules(frame_type, path, agent, made_by)
    if not made_by or head.config != rules.folder_config:
        # All heads with this configuration are of that kind: what the others were made from does
        # not have to be read.
        frames.left_behind.add(head.config)
        return unmanaged
    if entry is None:
        return Judged(Freshness.ORPHANED, "the path is gone or ignored now")
    if entry.folder is None or rules.is_current(head, entry):
        return FRESH if entry.folder is not None else Judged(Freshness.STALE, "it is no folder now")
    requested = FrameType(frame_type, None, None, None, rules)
    parts = list(parts_of(frames, requested, path, entry, fresh_in(frames, tree)))
    now = children_document(made_by, [part.frame(frames.algorithm) for part in parts])
    for name in sorted({*inputs, *now} - {FINGERPRINT}):
        where = paths.join(path, name)
        if name not in now:
            return Judged(Freshness.STALE, f"{where} is gone")
        if name not in inputs:
            return Judged(Freshness.STALE, f"{where} came")
        if inputs[name] != now[name]:
            return Judged(Freshness.STALE, f"the frames of {where} changed")
    for part in parts:
        if part.own and part.head is not None:
            below = _judge(frames, tree, part.path, part.entry, frame_type, agent, part.head, True)
            if below.freshness is not Freshness.FRESH:
                return below
    return FRESH


def stale_child(
    frames: Frames, declared: FrameType, path: str, entry: Entry
) -> tuple[str, Entry, Head | None] | None:
    """The first child of a folder whose frame is missing or not current."""
    return next(stale_children(frames, declared, path, entry), None)


def stale_children(
    frames: Frames, declared: FrameType, path: str, entry: Entry
) -> Iterator[tuple[str, Entry, Head | None]]:
    """The children of a folder whose frames are missing or not current."""
    assert entry.folder is not None
    rules = declared.rules
    frames.heads.load_heads(paths.join(path, name) for name in entry.folder.entries)
    for name, child in entry.folder.entries.items():
        if rules.wants(child):
            where = paths.join(path, name)
            head = frames.heads.head(where, declared.name, rules.agent_for(child))
            if not rules.is_current(head, child):
                yield where, child, head


def _culprit(
    frames: Frames, tree: Tree, declared: FrameType, path: str, entry: Entry, head: Head
) -> str:
    """The very thing that moved, by going down where ids differ."""
    start = path
    while True:
        if head.config != declared.rules.config_for(entry):
            return f"the configuration of type {declared.name} changed"
        if entry.folder is None:
            break
        below = stale_child(frames, declared, path, entry)
        if below is None:
            break
        path, entry, found = below
        if found is None:
            return f"{path} has no frame yet"
        head = found
    if expected_basis(frames, declared, path, entry, fresh_in(frames, tree)) == head.basis:
        return "it was invalidated" if path == start else f"{path} was invalidated"
    if entry.folder is not None:
        what = "entries or their frames" if declared.rules.gathers else "entries"
        return f"its {what} changed" if path == start else f"the {what} of {path} changed"
    return "its content changed" if path == start else f"{path} changed"


def _judge_note(frames: Frames, path: str, entry: Entry, head: Head) -> Judged:
    document = frames.note_inputs(head.frame_id)
    if document is None:
        return Judged(Freshness.UNKNOWN, "what it was bound to is not recorded")
    on = document[ON]
    symbol = symbol_in(document)
    if symbol is not None:
        return _judge_by_symbol(frames, path, entry, symbol, head)
    now = note_basis_now(frames, path, entry, on)
    if now is None:
        return Judged(Freshness.UNKNOWN, f"its {on} frame is missing or not fresh")
    if now == head.basis:
        return FRESH
    if on == ON_CONTENT:
        return Judged(Freshness.STALE, "the content it was written about changed")
    if on == ON_LISTING:
        return Judged(Freshness.STALE, "the folder's entries changed")
    return Judged(Freshness.STALE, f"the {on} it was written about changed")


def _judge_by_symbol(frames: Frames, path: str, entry: Entry, symbol: str, head: Head) -> Judged:
    """A note about a symbol holds while the file has that text under that name."""
    found = frames.symbols.named(path, entry, symbol)
    if found is None:
        return Judged(Freshness.UNKNOWN, "the symbols of the file cannot be read now")
    raw = paths.text_to_bytes(path)
    if any(basis_of_symbol(raw, symbol, one.sha256) == head.basis for one in found):
        return FRESH
    if not found:
        return Judged(Freshness.STALE, f"the symbol {symbol} is gone")
    several = f" (the file has {len(found)} of that name)" if len(found) > 1 else ""
    return Judged(Freshness.STALE, f"the text of {symbol} changed{several}")


def symbol_in(document: Mapping[str, Any] | None) -> str | None:
    """The symbol that a note is bound to, from its list of inputs; None for none."""
    on = str((document or {}).get(ON, ""))
    return on.removeprefix(ON_SYMBOL) if on.startswith(ON_SYMBOL) else None


class Place(NamedTuple):
    """What of a node a note is about, and at which line that begins now."""

    symbol: str | None = None
    line: int | None = None


def place_of(frames: Frames, path: str, entry: Entry | None, frame_id: FrameId) -> Place:
    """Where a note stands: nowhere in particular unless it is bound to a symbol.

    Of several symbols of one name it is the one with the text it was written about, or the first.
    """
    document = frames.note_inputs(frame_id) or {}
    symbol = symbol_in(document)
    if symbol is None:
        return Place()
    found = frames.symbols.named(path, entry, symbol) if entry is not None else None
    if not found:
        return Place(symbol)
    same = (one for one in found if one.sha256.hex() == document[SHA256])
    return Place(symbol, next(same, found[0]).line)


def note_basis_now(frames: Frames, path: str, entry: Entry, on: str) -> BasisHash | None:
    """The basis a note on that would have now; None when it cannot be told."""
    document = bound_document(frames, path, entry, on)
    return None if document is None else note_basis(frames.algorithm, path, document)


def bound_document(frames: Frames, path: str, entry: Entry, on: str) -> dict[str, Any] | None:
    """What a note on that is bound to now, as its list of inputs."""
    if on == ON_CONTENT:
        return {ON: on, KIND: entry.kind.label, CONTENT_ID: entry.content_id.hex()}
    if on == ON_LISTING:
        if entry.folder is None:
            return None
        children = {name: [child.kind.label, ""] for name, child in entry.folder.entries.items()}
        return {ON: on, **children}
    if on.startswith(ON_SYMBOL):
        found = frames.symbols.named(path, entry, on.removeprefix(ON_SYMBOL))
        return {ON: on, SHA256: found[0].sha256.hex()} if found else None
    head = fresh_head(frames, path, entry, on)
    return None if head is None else {ON: on, SHA256: head.content.hex()}


def fresh_head(frames: Frames, path: str, entry: Entry, frame_type: str) -> Head | None:
    """The generated head of a type at a node, when it is fresh."""
    declared = frames.types.get(frame_type)
    if declared is None or not declared.rules.covers(path):
        return None
    head = frames.heads.head(path, frame_type, declared.rules.agent_for(entry))
    return head if declared.rules.is_current(head, entry) else None


def note_basis(algorithm: WorkspaceHash, path: str, document: dict[str, Any]) -> BasisHash:
    """The basis of a note at a path, from what it is bound to."""
    raw = paths.text_to_bytes(path)
    on = document[ON]
    if on == ON_CONTENT:
        content_id = ContentId(bytes.fromhex(document[CONTENT_ID]))
        return basis_of_content(algorithm.node_id(_KINDS[document[KIND]], raw, content_id))
    if on == ON_LISTING:
        children = [
            (paths.text_to_bytes(name), value[0])
            for name, value in document.items()
            if not name.startswith("/")
        ]
        return basis_of_listing(raw, sorted(children))
    text = bytes.fromhex(document[SHA256])
    if on.startswith(ON_SYMBOL):
        return basis_of_symbol(raw, on.removeprefix(ON_SYMBOL), text)
    return basis_of_frame(raw, on, BodyHash(text))
