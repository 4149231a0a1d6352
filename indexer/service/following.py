"""Following what changes: a callback that is told by a service, or by this process itself."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from indexer.core.changes import Change
from indexer.service.client import connect
from indexer.service.events import change_events, frame_events, session_event

if TYPE_CHECKING:
    from indexer.engine.make.events import Event
    from indexer.store.roots import Root

Callback = Callable[[dict[str, Any]], object]
"""Takes one event, as docs/events.md has them."""

_PAUSE: Final = 0.2
"""Seconds between two looks for a service."""

_MISSED: Final = {"event": "missed"}


class Following:
    """A callback that is told of events until it is closed.

    What this process does itself it tells on the thread that does it; what a service does, on a
    thread of its own, which also finds the service's successor. Nothing is repeated: when it
    follows a service anew, the callback is told `missed`, and whoever asks then knows all until
    then.
    """

    def __init__(self, root: Path, callback: Callback, done: Callable[[Following], None]) -> None:
        self._root = root
        self._callback = callback
        self._done = done
        self._closed = threading.Event()
        self._connection: socket.socket | None = None
        lines = self._open()
        self._thread = threading.Thread(
            target=self._follow, args=(lines,), name="merkle-following", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Tell nothing more."""
        self._closed.set()
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._done(self)

    # -- what this process does itself

    def publish(self, root: Root, changes: list[Change]) -> None:
        """A batch was recorded."""
        self._tell_all(change_events(root, changes))

    def publish_frames(self, events: list[Event]) -> None:
        """Something happened to frames."""
        self._tell_all(frame_events(events))

    def publish_session(self, name: str) -> None:
        """A session was written to."""
        self._tell(session_event(name))

    # -- what a service does

    def _open(self) -> Iterator[str] | None:
        """The lines of a service's stream, from where it says that it is connected."""
        client = connect(self._root)
        if client is None:
            return None
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(client.address)
            # Not 1.1: the answer then comes without the lengths of its pieces in between.
            connection.sendall(b"GET /v1/events HTTP/1.0\r\nHost: merkle\r\n\r\n")
            lines = iter(connection.makefile(encoding="utf-8", newline="\n"))
            if any(line.startswith(": connected") for line in lines):
                self._connection = connection
                return lines
        except OSError:
            pass
        connection.close()
        return None

    def _follow(self, lines: Iterator[str] | None) -> None:
        while not self._closed.is_set():
            if lines is not None:
                with contextlib.suppress(OSError):
                    for line in lines:
                        # The last one of a service that was killed may be cut short.
                        if line.startswith("data: ") and line.endswith("\n"):
                            self._tell(json.loads(line.removeprefix("data: ")))
                self._leave()
            self._closed.wait(_PAUSE)
            lines = None if self._closed.is_set() else self._open()
            if lines is not None:
                self._tell(dict(_MISSED))
        self._leave()

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # -- telling

    def _tell_all(self, events: list[dict[str, Any]]) -> None:
        for event in events:
            self._tell(event)

    def _tell(self, event: dict[str, Any]) -> None:
        if self._closed.is_set():
            return
        try:
            self._callback(event)
        except Exception:
            # What is told of is done: a callback that fails must not undo or stop it.
            logging.getLogger("indexer").exception("a callback failed on %s", event["event"])
