"""Change events for subscribers: a bounded queue each, so that a slow reader harms only itself."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from indexer.core.changes import Change, summarize

if TYPE_CHECKING:
    from indexer.engine.make.events import Event
    from indexer.store.roots import Root

QUEUE: Final = 10_000
"""Events that wait for a reader at most."""


def change_events(root: Root, changes: list[Change]) -> list[dict[str, Any]]:
    """One event per changed node in order of their paths, then one for the new root."""
    summary = summarize(changes)
    renamed = {rename.new: rename.old for rename in summary.renamed}
    found: list[dict[str, Any]] = []
    by_path = {change.path: change for change in changes}
    words = {
        path: word
        for word, listed in (
            ("added", summary.added),
            ("modified", summary.modified),
            ("removed", summary.removed),
        )
        for path in listed
    }
    for path, word in sorted(words.items()):
        change = by_path[path]
        entry = change.new or change.old
        assert entry is not None
        event: dict[str, Any] = {
            "event": "node",
            "seq": root.seq,
            "change": word,
            "path": path,
            "kind": entry.kind.label,
            "content_id": change.new.content_id.hex() if change.new else None,
        }
        if path in renamed:
            event["renamed_from"] = renamed[path]
        found.append(event)
    found.append({"event": "root", "seq": root.seq, "root": root.root.hex(), "cause": root.cause})
    return found


def frame_events(events: list[Event]) -> list[dict[str, Any]]:
    """One event per frame that something happened to."""
    return [
        {
            "event": "frame",
            "action": event.action,
            "path": event.path,
            "type": event.type,
            "frame_id": event.frame_id.hex() if event.frame_id else None,
            "because": event.because,
        }
        for event in events
    ]


def session_event(name: str) -> dict[str, Any]:
    """A session was written to."""
    return {"event": "session", "name": name}


class Broadcast:
    """Hands events from the writing thread to any number of asynchronous readers."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queues: set[asyncio.Queue[dict[str, Any] | None]] = set()
        self._closed = False

    def publish(self, root: Root, changes: list[Change]) -> None:
        """Called on the writing thread after a commit."""
        if self._queues:
            self.publish_told(change_events(root, changes))

    def publish_frames(self, events: list[Event]) -> None:
        """Called on the writing thread after frames were stored."""
        if self._queues:
            self.publish_told(frame_events(events))

    def publish_session(self, name: str) -> None:
        """Called on any thread after a session was written to."""
        self.publish_told([session_event(name)])

    def publish_told(self, events: list[dict[str, Any]]) -> None:
        """Called on any thread with events as readers get them."""
        # A loop that has ended has no readers left.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._deliver, events)

    def _deliver(self, events: list[dict[str, Any]]) -> None:
        for queue in self._queues:
            for event in events:
                if queue.qsize() >= QUEUE:
                    # Too slow: tell it that it missed something rather than grow without end.
                    while not queue.empty():
                        queue.get_nowait()
                    queue.put_nowait({"event": "missed"})
                queue.put_nowait(event)

    def close(self) -> None:
        """End every stream, also one that is only about to begin."""
        self._closed = True
        for queue in self._queues:
            queue.put_nowait(None)

    @property
    def readers(self) -> int:
        """How many streams are open."""
        return len(self._queues)

    async def follow(self, heartbeat: float = 15.0) -> AsyncGenerator[list[dict[str, Any]]]:
        """What has happened, as soon as something has, until the service stops or the reader goes.

        The first list is empty, and so is one now and then, as a sign of life.
        """
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._queues.add(queue)
        try:
            yield []
            while not (self._closed and queue.empty()):
                try:
                    found = [await asyncio.wait_for(queue.get(), heartbeat)]
                except TimeoutError:
                    yield []
                    continue
                while not queue.empty():
                    found.append(queue.get_nowait())
                events = [event for event in found if event is not None]
                if events:
                    yield events
                if len(events) < len(found):
                    return
        finally:
            self._queues.discard(queue)

    async def stream(self, heartbeat: float = 15.0) -> AsyncIterator[bytes]:
        """Server-sent events until the service stops or the reader goes."""
        comment = b": connected\n\n"
        async with contextlib.aclosing(self.follow(heartbeat)) as batches:
            async for events in batches:
                if not events:
                    yield comment
                    comment = b": still here\n\n"
                for event in events:
                    data = json.dumps(event)
                    yield f"event: {event['event']}\ndata: {data}\n\n".encode()
