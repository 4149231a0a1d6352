"""Every invariant of frames, heads, basis, memo and journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from indexer.core.frames import REPEATING_AGENTS, Frame, FrameId, Head, frame_id, is_generated
from indexer.core.postings import OF_UNIT, text_terms
from indexer.core.terms import count_terms
from indexer.core.tree import Tree
from indexer.engine.documents import Report
from indexer.engine.frames.freshness import fresh_in, note_basis, stale_child
from indexer.engine.frames.recipe import expected_basis
from indexer.engine.frames.types import FrameType
from indexer.engine.search.manifests import check_manifests
from indexer.store.postings import BODIES

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames
    from indexer.store.journal import Journal

POSTINGS_CHECKED: Final = 2000
"""Bodies whose postings are made again and compared; of more than these, an even sample."""

_AT_ONCE: Final = 100
"""Texts that are held at a time: one may have a megabyte, or a whole tree's outlines."""


def check_frames(opened: Frames, tree: Tree, journal: Journal, error: Report) -> int:
    """Check everything about frames; returns how many there are."""
    frames = {stored.frame.frame_id: stored.frame for stored in opened.store.all_frames()}
    for frame in frames.values():
        made = frame_id(frame.basis, frame.type, frame.agent, frame.content)
        if made != frame.frame_id:
            error("frame_id", frame.path, f"frame {frame.frame_id.hex()[:12]} has another id")
    _check_bodies(opened, frames.values(), error)
    _check_heads(opened, tree, frames, error)
    _check_memo(opened, error)
    check_manifests(opened.store, error)
    _check_postings(opened, error)
    for problem in journal.check():
        error("journal", "", str(problem))
    return len(frames)


def _check_bodies(opened: Frames, frames: Iterable[Frame], error: Report) -> None:
    for sha256 in opened.store.wrong_bodies():
        error("body", "", f"body {sha256.hex()[:12]} has another content")
    known = opened.store.body_rows()
    for frame in frames:
        if frame.content not in known:
            error("body", frame.path, f"frame {frame.frame_id.hex()[:12]} has no body")


def _check_heads(
    opened: Frames, tree: Tree, frames: Mapping[FrameId, Frame], error: Report
) -> None:
    for lost in opened.store.lost_notes():
        error("head", "", f"the note {lost.hex()[:12]} is not stored")
    opened.load_note_inputs(
        head.frame_id for notes in opened.heads.notes.values() for _, head in notes
    )
    for (frame_type, agent), live in opened.heads.live():
        declared = opened.types.get(frame_type)
        for path, head in sorted(live, key=lambda one: (one[0], one[1].frame_id)):
            frame = frames.get(head.frame_id)
            if frame is None:
                error("head", path, f"the head of {frame_type} by {agent} is not stored")
                continue
            if (frame.path, frame.type, frame.agent) != (path, frame_type, agent):
                error("head", path, f"the head of {frame_type} by {agent} belongs elsewhere")
            if (frame.basis, frame.content) != (head.basis, head.content):
                error("head", path, f"the head of {frame_type} by {agent} is not its frame")
            if not opened.heads.has_body(head.content):
                error("body", path, f"the head of {frame_type} by {agent} has lost its content")
            if not is_generated(agent):
                _check_note(opened, path, frame, error)
            elif declared is not None:
                _check_generated(opened, tree, declared, path, agent, head, error)


def _check_note(opened: Frames, path: str, frame: Frame, error: Report) -> None:
    document = opened.note_inputs(frame.frame_id)
    if document is None or note_basis(opened.algorithm, path, document) != frame.basis:
        error("basis", path, f"the basis of {frame.type} by {frame.agent} does not follow")


def _check_generated(
    opened: Frames,
    tree: Tree,
    declared: FrameType,
    path: str,
    agent: str,
    head: Head,
    error: Report,
) -> None:
    """A head that counts as fresh must have exactly the basis computed now, from fresh heads."""
    rules, entry = declared.rules, tree.get(path)
    if entry is None or not rules.covers(path) or not rules.wants(entry):
        return
    if agent != rules.agent_for(entry) or not rules.is_current(head, entry):
        return
    if entry.folder is not None and (below := stale_child(opened, declared, path, entry)):
        error("basis", path, f"the {declared.name} frame counts as fresh, {below[0]} does not")
    expected = expected_basis(opened, declared, path, entry, fresh_in(opened, tree))
    if expected is not None and expected != head.basis:
        error("basis", path, f"the {declared.name} frame counts as fresh, its basis moved")


def _check_postings(opened: Frames, error: Report) -> None:
    """Postings of live bodies against their text: of all of them, or of an even sample."""
    # What only repeats has no postings.
    live = sorted(
        {
            head.content
            for slot, live in opened.heads.live()
            if slot[1] not in REPEATING_AGENTS
            for _, head in live
        }
    )
    step = -(-len(live) // POSTINGS_CHECKED) or 1
    stored = {content: opened.heads.body_numbers.get(content) for content in live[::step]}
    numbers = {content: number for content, number in stored.items() if number is not None}
    wanted, found = list(numbers), opened.postings.terms_of(BODIES, list(numbers.values()))
    for begin in range(0, len(wanted), _AT_ONCE):
        for number, length, text in opened.store.live_bodies(wanted[begin : begin + _AT_ONCE]):
            waits = number >= opened.heads.indexed_below
            counts = {} if waits else count_terms(text)
            terms = text_terms(counts, OF_UNIT)
            expected = dict(zip(terms.terms, terms.gains, strict=True))
            if found[number] != expected or length != (None if waits else terms.length):
                error("postings", "", f"the postings of body {number} are not those of its text")


def _check_memo(opened: Frames, error: Report) -> None:
    for key, (_, content) in opened.store.memo().items():
        if content is not None and not opened.heads.has_body(content):
            error("memo", "", f"memo entry {key.hex()[:12]} names a body that is not stored")
