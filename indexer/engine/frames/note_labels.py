"""Notes that go stale or are fresh again: told when the tree or what they are bound to moves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from indexer.core import paths
from indexer.core.changes import Change
from indexer.core.frames import FrameId, Freshness
from indexer.core.tree import Tree
from indexer.engine.frames.freshness import ON, judge
from indexer.engine.make.events import Event

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames


class NoteLabels:
    """What was last told of notes; costs the paths that moved and the notes on their way up."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._told: dict[FrameId, Freshness] = {}

    def after_batch(
        self, before: Tree, now: Tree, changes: Sequence[Change], carried: Iterable[Event]
    ) -> list[Event]:
        """The notes that a new tree makes something else of, in order of their paths."""
        notes = self._frames.heads.notes
        if not notes:
            return []
        arrived = {event.frame_id for event in carried}
        moved = {where for one in changes for where in (one.path, *paths.ancestors(one.path))}
        return list(self._changed(now, before, sorted(moved & notes.keys()), arrived))

    def after_frames(self, tree: Tree, events: Sequence[Event]) -> list[Event]:
        """The notes that frames which were made since make something else of."""
        notes = self._frames.heads.notes
        made = {(e.path, e.type) for e in events if e.frame_id is not None and e.path in notes}
        bound = {
            head.frame_id
            for path in sorted({path for path, _ in made})
            for _, head in notes[path]
            if (path, (self._frames.note_inputs(head.frame_id) or {}).get(ON)) in made
        }
        where = sorted({path for path, _ in made})
        return [one for one in self._changed(tree, None, where, ()) if one.frame_id in bound]

    def _changed(
        self, now: Tree, before: Tree | None, where: Sequence[str], arrived: Iterable[object]
    ) -> Iterator[Event]:
        frames, known = self._frames, set(arrived)
        listed = [
            (path, slot, head)
            for path in where
            for slot, head in sorted(frames.heads.notes_at(path), key=lambda n: (n[0], n[1][0]))
        ]
        for tree in filter(None, (before, now)):
            frames.load_notes(tree, ((path, head.frame_id) for path, _, head in listed))
        for path, slot, head in listed:
            old = self._told.get(head.frame_id)
            if old is None and before is not None:
                then = judge(frames, before, path, *slot, head).freshness
                old = None if then is Freshness.UNKNOWN else then
            judged = judge(frames, now, path, *slot, head)
            if judged.freshness is Freshness.UNKNOWN:
                # Told when it can be: what it is bound to is about to be made again.
                self._told.setdefault(head.frame_id, old or Freshness.FRESH)
                continue
            self._told[head.frame_id] = judged.freshness
            if head.frame_id not in known and judged.freshness is not (old or Freshness.FRESH):
                said = judged.freshness.value, path, slot[0], head.frame_id, judged.because
                yield Event(*said)
