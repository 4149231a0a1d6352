"""A look at everything by other processes, begun before what the service is made of is loaded.

Loading it takes as long as the look. The others set a watch on each folder before they look at it,
on the descriptor that all have: what happens from then on is kept there by the kernel for the
service. Where anything has changed, or cannot be told, the service looks itself.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Self

from indexer.engine.owned import Owned
from indexer.engine.tree.unchanged import FirstLook, look_beside
from indexer.errors import MerkleError
from indexer.store.lock import SERVICE_ROLE
from indexer.watch.mounts import Mounts
from indexer.watch.watcher import WatchesAhead, watches_ahead


class SeenAhead(NamedTuple):
    """What was seen, and the watches that were set before."""

    look: FirstLook
    watches: WatchesAhead
    watched: Mapping[str, int]


class Ahead:
    """The workspace, owned for a service, and the look that is under way."""

    def __init__(self, owned: Owned, watches: WatchesAhead) -> None:
        self.owned, self._watches = owned, watches
        # From before the look on: what is mounted meanwhile hides a folder, and no watch tells.
        self._mounts = Mounts(owned.root)
        self._looking = contextlib.ExitStack()
        self._result: Callable[[], tuple[FirstLook, dict[str, int]] | None] | None = None

    @classmethod
    def begin(cls, root: Path) -> Self | None:
        """Begin, where what is recorded is known without the database; None elsewhere."""
        with contextlib.ExitStack() as opening:
            try:
                owned = Owned(root, role=SERVICE_ROLE, wait=0.0)
                opening.callback(owned.release)
                watches = watches_ahead(root)
                if watches is None:
                    return None
                ahead = cls(owned, watches)
                opening.callback(ahead.close)
                look = look_beside(owned, watches.add, keeps=(watches.number,))
                ahead._result = ahead._looking.enter_context(look)
            except (MerkleError, OSError):
                # The ordinary way waits, or says what is wrong.
                return None
            if ahead._result is None:
                return None
            opening.pop_all()
            return ahead

    def take(self) -> SeenAhead | None:
        """Wait for what was seen, once; None where the service has to look itself."""
        try:
            found = self._result() if self._result is not None else None
        finally:
            # Others have much in memory, and take a moment to end that nobody need wait for.
            threading.Thread(target=self._looking.close, daemon=True).start()
        if found is None or self._mounts.have_changed():
            # The service sets its own, and there are only so many.
            self._watches.discard()
            return None
        return SeenAhead(found[0], self._watches, found[1])

    def close(self) -> None:
        """End what is under way, and let go of what nobody has taken over."""
        self._looking.close()
        self._mounts.close()
        self._watches.discard()
        self.owned.release()
