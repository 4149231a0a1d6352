"""What happens, told to an open page: one short message per batch, however large the batch."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, Final

from indexer.service.events import Broadcast

NAMED: Final = 40
"""How many changed paths a message names."""
RETRY: Final = 1000
"""Milliseconds after which a browser looks for a service that has gone."""
PAUSE: Final = 0.15
"""Seconds between two messages: what happens meanwhile goes into one."""


def message(events: list[dict[str, Any]]) -> dict[str, Any]:
    """A batch of events as the page needs it: which paths, how many, and the root after it."""
    nodes = list(dict.fromkeys(e["path"] for e in events if e["event"] == "node"))
    frames = list(dict.fromkeys(e["path"] for e in events if e["event"] == "frame"))
    roots = [e["root"] for e in events if e["event"] == "root"]
    return {
        "nodes": len(nodes),
        "frames": len(frames),
        "paths": nodes[:NAMED] + frames[:NAMED],
        "root": roots[-1] if roots else None,
        "sessions": [e["name"] for e in events if e["event"] == "session"][:NAMED],
        "missed": any(e["event"] == "missed" for e in events),
    }


async def stream(broadcast: Broadcast) -> AsyncIterator[bytes]:
    """Server-sent events for one open page."""
    yield f"retry: {RETRY}\n".encode()
    async with contextlib.aclosing(broadcast.follow()) as batches:
        async for events in batches:
            if not events:
                yield b": here\n\n"
                continue
            yield f"event: change\ndata: {json.dumps(message(events))}\n\n".encode()
            await asyncio.sleep(PAUSE)
