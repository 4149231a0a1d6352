"""Growth: forget the bodies of old deterministic frames, and rows that later ones repeat.

What people wrote stays, and so do the ids of every frame.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from indexer.core.arguments import Amount
from indexer.core.frames import GENERATED_AGENT_PREFIX, BodyHash
from indexer.engine.documents import JsonObject
from indexer.engine.long_work import LongWork
from indexer.engine.search.manifests import named_by_manifests
from indexer.store.database import Database
from indexer.store.postings import PARTS
from indexer.store.sessions import FRAME_ATTRIBUTE, SessionStore
from indexer.store.share_queue import ShareQueue

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames
    from indexer.engine.workspace import Engine


def compact(engine: Engine, keep_seconds: Amount) -> LongWork:
    """Forget the bodies of old deterministic frames."""
    return Compaction(engine.frames, engine.database, keep_seconds)


class Compaction(LongWork):
    """Drops bodies at once and folds what is left a part at a time, so that others get a turn."""

    def __init__(self, frames: Frames, database: Database, keep_seconds: float) -> None:
        self._frames = frames
        self._database = database
        self._horizon = frames.clock.now_ns() - int(keep_seconds * 1e9)
        self._dropped = self._kept = self._repeated = 0
        self._steps = self._begin()

    def step(self) -> bool:
        """Go on; True when it is done."""
        return next(self._steps, True)

    def close(self) -> None:
        """What was done until now stays done; the next compaction does the rest."""
        self._steps.close()

    def document(self) -> JsonObject:
        """What it did."""
        return {
            "dropped": self._dropped,
            "kept": self._kept,
            "repeated_heads": self._repeated,
        }

    def _begin(self) -> Generator[bool]:
        frames, postings = self._frames, self._frames.postings
        kept, unwanted = self._sorted_out()
        self._kept, self._dropped = len(kept), len(unwanted)
        if unwanted:
            frames.store.drop_bodies(unwanted)
            frames.heads.forget()
        if postings.are_to_be_folded():
            for part in range(PARTS):
                yield False
                postings.fold(part)
            postings.note_folded()
        for part in range(PARTS):
            yield False
            self._repeated += frames.store.drop_repeated_heads(part, PARTS)
        self._database.checkpoint()

    def _sorted_out(self) -> tuple[set[BodyHash], list[BodyHash]]:
        """The bodies that heads, notes, manifests, sessions, the team or young frames want.

        And the rest.
        """
        frames = self._frames
        kept = {head.content for heads in frames.heads.slots.values() for head in heads.values()}
        # What a model wrote was paid for.
        kept |= frames.store.model_contents()
        kept |= named_by_manifests(frames.store)
        # Nor may the team lose what it has yet to be given.
        due = [frames.heads.memo(key)[1] for key in ShareQueue(self._database).waiting()]
        kept.update(content for content in due if content is not None)
        named = SessionStore(self._database).attribute_values(FRAME_ATTRIBUTE)
        old = set()
        for stored in frames.store.all_frames():
            frame = stored.frame
            wanted = frame.created_ns >= self._horizon or frame.frame_id.hex() in named
            if wanted or not frame.agent.startswith(GENERATED_AGENT_PREFIX):
                kept.add(frame.content)
            else:
                old.add(frame.content)
        return kept, [one for one in sorted(old - kept) if frames.heads.has_body(one)]
