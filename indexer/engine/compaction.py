"""Growth: forget the bodies of old deterministic frames, and rows that later ones repeat.

What people wrote stays, and so do the ids of every frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.core.frames import GENERATED_AGENT_PREFIX
from indexer.engine.documents import JsonObject
from indexer.engine.manifests import named_by_manifests
from indexer.store.sessions import FRAME_ATTRIBUTE, SessionStore
from indexer.store.share_queue import ShareQueue

if TYPE_CHECKING:
    from indexer.engine.engine import Engine


def compact(engine: Engine, keep_seconds: float) -> JsonObject:
    """Drop bodies that no head, note, manifest, session, team or young frame wants."""
    horizon = engine.clock.now_ns() - int(keep_seconds * 1e9)
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
        wanted = frame.created_ns >= horizon or frame.frame_id.hex() in named
        if wanted or not frame.agent.startswith(GENERATED_AGENT_PREFIX):
            kept.add(frame.content)
        else:
            old.add(frame.content)
    dropped = [content for content in sorted(old - kept) if engine.shelf.has_body(content)]
    if dropped:
        engine.frames.drop_bodies(dropped)
        engine.framing.postings.fold()
        engine.shelf.forget()
    repeated = engine.frames.drop_repeated_heads()
    engine.database.checkpoint()
    return {"dropped": len(dropped), "kept": len(kept), "repeated_heads": repeated}
