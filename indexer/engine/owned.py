"""A workspace that this process owns, before anything of it is opened."""

from __future__ import annotations

from pathlib import Path

from indexer.core.hashing import workspace_hash
from indexer.store.layout import Layout, read_format
from indexer.store.lock import DEFAULT_WAIT, OwnerLock


class Owned:
    """The lock, and what must be known before the database may be opened."""

    def __init__(self, root: Path, *, role: str = "command", wait: float = DEFAULT_WAIT) -> None:
        self.root = root
        self.layout = Layout(root)
        self.format = read_format(root, or_older=True)
        self.algorithm = workspace_hash(self.format.hash_name)
        self.lock = OwnerLock(self.layout.lock, role)
        self.lock.acquire(wait)
        try:
            self.lock_identity = self.lock.identity()
        except BaseException:
            self.lock.release()
            raise

    @property
    def read_only(self) -> bool:
        """Whether the index can be read and nothing can be written to it."""
        return self.lock.read_only

    def release(self) -> None:
        """Let go of it."""
        self.lock.release()
