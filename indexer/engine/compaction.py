"""Growth: forget the bodies of old deterministic frames; rows and what people wrote stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.core.frames import GENERATED_AGENT_PREFIX
from indexer.engine.documents import JsonObject

if TYPE_CHECKING:
    from indexer.engine.engine import Engine


def compact(engine: Engine, keep_seconds: float) -> JsonObject:
    """Drop bodies that no head, note or young frame names."""
    horizon = engine.clock.now_ns() - int(keep_seconds * 1e9)
    kept = {head.content for heads in engine.shelf.slots.values() for head in heads.values()}
    # What a model wrote was paid for.
    kept |= engine.frames.model_contents()
    old = set()
    for stored in engine.frames.all_frames():
        frame = stored.frame
        if not frame.agent.startswith(GENERATED_AGENT_PREFIX) or frame.created_ns >= horizon:
            kept.add(frame.content)
        else:
            old.add(frame.content)
    dropped = [content for content in sorted(old - kept) if engine.shelf.has_body(content)]
    if dropped:
        engine.frames.drop_bodies(dropped)
        engine.shelf.forget()
    engine.database.checkpoint()
    return {"dropped": len(dropped), "kept": len(kept)}
