"""What an index is and how far its history went, noted apart from what it says itself.

A root costs no sync of its own: the database syncs its log with every batch, and the tree can be
read from the disk again. What cannot be had again is the history, and that it is shorter than it
was must be said. So the newest root is noted here, in place and without a sync. After a kill it is
there; after a power cut it may be an older one, and then less is known of what is gone, but nothing
wrong is said. With it stands what `format.json` says, so that damage there is known as damage.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Final, NamedTuple

from indexer.core.ids import NodeId
from indexer.store.own_folder import open_own_file, own_folder, read_own_file

_SIZE: Final = 256
"""Bytes of the file, more than a note ever has: what is written covers what was there."""


class LastKnown(NamedTuple):
    """The format of an index, its newest id, and its newest root with its number (0: none yet)."""

    version: int
    hash_name: str
    index_id: str
    seq: int = 0
    root: NodeId = NodeId(b"")


class LostRoots(NamedTuple):
    """Roots that were recorded and are gone: their numbers, the last one's id, when it was seen."""

    first: int
    last: int
    root: NodeId
    at_ns: int


class Noted:
    """The file of one workspace; only the owner of the index writes it."""

    def __init__(self, path: Path, of: LastKnown | None = None) -> None:
        self._path = path
        self._of = of
        """What the index is, for whoever notes its roots."""
        self._descriptor: int | None = None

    def read(self) -> LastKnown | None:
        """What was noted last; None where there is nothing that holds."""
        with contextlib.suppress(OSError, ValueError):
            text, _, checksum = read_own_file(self._path).decode("ascii").strip().rpartition(" ")
            if _checksum(text) == checksum:
                version, hash_name, index_id, seq, root = text.split(" ")
                return LastKnown(
                    int(version), hash_name, index_id, int(seq), NodeId(bytes.fromhex(root))
                )
        return None

    def write(self, note: LastKnown) -> None:
        """LastKnown it; where that cannot be done, less is known after a loss."""
        text = " ".join([*map(str, note[:4]), note.root.hex()])
        with contextlib.suppress(OSError):
            if self._descriptor is None:
                with own_folder(self._path.parent) as folder:
                    self._descriptor = open_own_file(folder, self._path, os.O_WRONLY | os.O_CREAT)
            os.pwrite(self._descriptor, f"{text} {_checksum(text)}".ljust(_SIZE).encode(), 0)

    def note_root(self, seq: int, root: NodeId) -> None:
        """LastKnown the newest root."""
        if self._of is not None:
            self.write(self._of._replace(seq=seq, root=root))

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
