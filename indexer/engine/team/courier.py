"""Notes between a running service and its team: given soon after they are written, and taken."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Final

from indexer.engine.team.notes import NoteExchange
from indexer.errors import MerkleError
from indexer.shared.base import SharedError

LOOK_EVERY: Final = 10.0
"""Seconds between two looks for others' notes where no server tells of them."""

REST: Final = 5.0
"""Seconds until another try after trouble that is not the team's store's."""

PATIENCE: Final = 0.25
"""Seconds that the end of a service waits for a conversation; nothing hangs on how it ends."""


class NoteCourier:
    """Exchanges notes on a thread of its own, over a connection that it has to itself.

    What is due is known by what is stored, so a service that dies, or a server that is away, only
    delays it. Nothing waits for this thread.
    """

    def __init__(self, notes: NoteExchange) -> None:
        self.member = notes.client.member
        self.problem: str | None = None
        """Why notes are not exchanged now."""
        self._notes, self._client = notes, notes.client
        self._refused = 0
        self._ending = threading.Event()
        self._told, self._tells = socket.socketpair()
        self._told.setblocking(False)
        self._tells.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="notes", daemon=True)
        self._thread.start()

    def nudge(self) -> None:
        """Notes may have been written here."""
        # Full: it has been told, and has yet to look. Closed: it has ended.
        with contextlib.suppress(OSError):
            self._tells.send(b"n")

    def close(self) -> None:
        """End the thread; one that waits for a silent server is left to itself."""
        self._ending.set()
        self.nudge()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        with self._told, self._tells, contextlib.closing(self._client):
            while not self._ending.is_set():
                self._forget_nudges()
                try:
                    self._exchange()
                    self.problem = None
                    self._client.wait_for_notes(LOOK_EVERY, self._told.fileno())
                except SharedError as error:
                    self.problem = error.message
                    self._ending.wait(self._client.rests_for)
                except MerkleError as error:
                    self.problem = error.message
                    self._ending.wait(REST)
                except Exception as error:
                    # A thread that nobody waits for must not end unnoticed.
                    self.problem = f"{type(error).__name__}: {error}"
                    self._ending.wait(REST)

    def _forget_nudges(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._told.recv(4096):
                pass

    def _exchange(self) -> None:
        # Taken first: that tells whether the store is still the one that was given notes before.
        unsound = self._notes.take().unsound
        total = self._client.refused.total()
        refused, self._refused = unsound + total - self._refused, total
        if refused:
            self._notes.add_refused(refused)
        if self._client.may_write:
            self._notes.give()
