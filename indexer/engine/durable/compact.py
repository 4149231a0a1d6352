"""Growth: forget the bodies of old deterministic frames, and rows that later ones repeat.

What people wrote stays, and so do the ids of every frame.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from indexer.core.frames import GENERATED_AGENT_PREFIX, BodyHash
from indexer.engine.documents import JsonObject
from indexer.engine.search.manifests import named_by_manifests
from indexer.store.frames import FrameStore
from indexer.store.postings import PARTS
from indexer.store.sessions import FRAME_ATTRIBUTE, SessionStore
from indexer.store.share_queue import ShareQueue

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine


class Compaction:
    """Drops bodies at once and folds what is left a part at a time, so that others get a turn."""

    def __init__(self, engine: Engine, keep_seconds: float) -> None:
        self._engine = engine
        self._horizon = engine.clock.now_ns() - int(keep_seconds * 1e9)
        self._dropped = self._kept = self._repeated = 0
        self._steps = self._begin()

    def step(self) -> bool:
        """Go on; True when it is done."""
        return next(self._steps, True)

    def wait(self) -> None:
        """There is always something to do."""

    def leave(self) -> None:
        """Nothing is under way between two steps."""

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
        engine, postings = self._engine, self._engine.framing.postings
        kept, unwanted = self._sorted_out()
        self._kept, self._dropped = len(kept), len(unwanted)
        if unwanted:
            engine.frames.drop_bodies(unwanted)
            engine.shelf.forget()
        if postings.are_to_be_folded():
            for part in range(PARTS):
                yield False
                postings.fold(part)
            postings.note_folded()
        for part in range(PARTS):
            yield False
            self._repeated += FrameStore(engine.database).drop_repeated_heads(part, PARTS)
        engine.database.checkpoint()

    def _sorted_out(self) -> tuple[set[BodyHash], list[BodyHash]]:
        """The bodies that heads, notes, manifests, sessions, the team or young frames want.

        And the rest.
        """
        engine = self._engine
        kept = {head.content for heads in engine.shelf.slots.values() for head in heads.values()}
        # What a model wrote was paid for.
        kept |= engine.frames.model_contents()
        kept |= named_by_manifests(engine.frames)
        # Nor may the team lose what it has yet to be given.
        due = [engine.shelf.memo(key)[1] for key in ShareQueue(engine.database).waiting()]
        kept.update(content for content in due if content is not None)
        named = SessionStore(engine.database).attribute_values(FRAME_ATTRIBUTE)
        old = set()
        for stored in engine.frames.all_frames():
            frame = stored.frame
            wanted = frame.created_ns >= self._horizon or frame.frame_id.hex() in named
            if wanted or not frame.agent.startswith(GENERATED_AGENT_PREFIX):
                kept.add(frame.content)
            else:
                old.add(frame.content)
        return kept, [one for one in sorted(old - kept) if engine.shelf.has_body(one)]
