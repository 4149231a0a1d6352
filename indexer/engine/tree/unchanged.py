"""A look at the whole workspace before its database is opened: most find nothing changed.

It is the same look by the same rules, compared with the stat cache as it was when the database was
last closed (`store/standing.py`). Where something has changed, what was seen is handed on to the
engine, which opens the database and goes on from there.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from indexer.core import paths
from indexer.core.clock import SystemClock
from indexer.core.garbage import no_cycle_collection
from indexer.core.listing import Listing
from indexer.core.progress import Progress, begin
from indexer.engine.owned import Owned
from indexer.engine.tree.disk import check_root, database_files
from indexer.engine.tree.results import (
    ScanDocument,
    StatusDocument,
    pairs,
    scan_document,
    status_document,
)
from indexer.errors import MerkleError
from indexer.scan import shared_walk
from indexer.scan.previous import ListingsBefore, NothingBefore, Previous
from indexer.scan.scopes import Scopes
from indexer.scan.shared_walk import is_worth_reading, walk_shared
from indexer.scan.walk import Observed, Walker
from indexer.store.noted import Noted
from indexer.store.roots import Remarks
from indexer.store.standing import Standing, journal_stamp, read_listings, read_standing

CONFIG: Final = "config"
JOURNAL: Final = "journal"
"""Keys beside what `status` counted: what, besides the database, that depends on."""


class FirstLook(NamedTuple):
    """What stands, and what is on disk."""

    owned: Owned
    standing: Standing | None
    """None where nothing has been recorded yet."""
    listings: dict[str, Listing]
    scopes: Scopes
    observed: Observed
    began: float
    declared: str | None = None
    """What stands for the declared types, where that was found out meanwhile."""

    @property
    def unchanged(self) -> Standing | None:
        """What stands, where the database, too, would be left as it is."""
        if self.standing is None or not self.observed.unchanged or self.observed.unreadable:
            return None
        remarks = Remarks(pairs(self.observed.skipped), ())
        return self.standing if remarks == self.standing.remarks else None

    def scan(self) -> ScanDocument | None:
        """What a scan gives, where nothing has changed."""
        standing = self.unchanged
        if standing is None:
            return None
        seconds = time.monotonic() - self.began
        return scan_document(standing.root, [], self.observed.hashed, 0, standing.remarks, seconds)

    def status(self) -> StatusDocument | None:
        """What a status gives, where nothing has changed and nothing has to be counted anew."""
        owned, standing = self.owned, self.unchanged
        counts = standing and standing.counts
        if standing is None or counts is None:
            return None
        if counts[JOURNAL] != journal_stamp(owned.layout):
            return None
        if counts[CONFIG] != (self.declared or _declared(owned)):
            return None
        return status_document(
            str(owned.root), owned.algorithm.name, standing.root, "current",
            {"added": [], "modified": [], "removed": []}, standing.remarks, counts,
            read_only=owned.read_only,
        )  # fmt: skip


def look_first(
    owned: Owned,
    progress: Progress | None = None,
    *,
    may_fork: bool = False,
    counted: bool = False,
    meanwhile: Callable[[], object] | None = None,
) -> FirstLook | None:
    """Look at everything, where what is recorded can be known without the database.

    With `may_fork`, by several processes where that pays; only for a command of its own. Then
    what is needed next is done here while the others look: with `counted`, loading what `status`
    needs besides, and `meanwhile`.
    """
    began = time.monotonic()
    known = _known(owned)
    if known is None:
        return None
    standing, listings = known
    walker = _walker(owned, ListingsBefore(listings, owned.algorithm.size), progress)
    begin(progress, "scanning", "entries", standing.root.totals.nodes)
    declared: list[str | None] = []

    def load() -> None:
        if counted and standing.counts is not None:
            declared.append(_declared(owned))
        if meanwhile is not None:
            meanwhile()

    with no_cycle_collection():
        try:
            observed = walk_shared(walker, listings, load) if may_fork else walker.walk()
        except OSError:
            # The ordinary way says what is wrong.
            return None
    scopes, found = walker.scopes, declared[0] if declared else None
    return FirstLook(owned, standing, listings, scopes, observed, began, found)


def read_first(
    owned: Owned, progress: Progress | None, meanwhile: Callable[[], object]
) -> FirstLook | None:
    """Read everything by several processes where nothing has ever been recorded.

    Only for a command of its own. None where there is a database, or it does not pay.
    """
    began = time.monotonic()
    if os.path.lexists(owned.layout.database) or os.path.lexists(owned.layout.wal):
        return None
    check_root(owned)
    walker = _walker(owned, NothingBefore(), progress)
    begin(progress, "scanning", "entries")
    if not is_worth_reading(owned.root, walker.scopes):
        return None
    with no_cycle_collection():
        try:
            observed = walk_shared(walker, None, meanwhile)
        except OSError:
            # The ordinary way says what is wrong.
            return None
    return FirstLook(owned, None, {}, walker.scopes, observed, began)


@contextlib.contextmanager
def look_beside(
    owned: Owned, watch: Callable[[str], int], keeps: Sequence[int]
) -> Iterator[Callable[[], tuple[FirstLook, dict[str, int]] | None] | None]:
    """Let another process look at everything and watch it while this one loads what it needs.

    What it gives waits for the look and the numbers of the watches, and is None where anything has
    changed; None itself where what is recorded cannot be known without the database.
    """
    began, known = time.monotonic(), _known(owned)
    if known is None:
        yield None
        return
    standing, listings = known
    walker = _walker(owned, ListingsBefore(listings, owned.algorithm.size))
    # The rules of the root as they are before the look: that tells when git's own, which no watch
    # covers, have moved since. Those of other folders are read when they are needed.
    walker.scopes.of(paths.ROOT)
    with shared_walk.looked_beside(walker, listings, watch, keeps) as answer:
        if answer is None:
            yield None
            return

        def found() -> tuple[FirstLook, dict[str, int]] | None:
            told = answer()
            if told is None:
                return None
            first = FirstLook(owned, standing, listings, walker.scopes, told[0], began)
            return (first, told[1]) if first.unchanged else None

        yield found


@contextlib.contextmanager
def contents_compared(owned: Owned) -> Iterator[Callable[[], bool] | None]:
    """Let another process read every file while this one opens the database, where that can be.

    What it gives tells whether all of them have the contents that are recorded; only for a
    command of its own.
    """
    known = _known(owned)
    if known is None:
        yield None
        return
    _, listings = known
    walker = _walker(owned, ListingsBefore(listings, owned.algorithm.size))
    with shared_walk.contents_compared(walker, listings) as answer:
        yield answer


def _known(owned: Owned) -> tuple[Standing, dict[str, Listing]] | None:
    """What is recorded, where that can be known without the database."""
    layout = owned.layout
    standing = read_standing(layout) if owned.format.ids else None
    noted = Noted(layout.noted).read()
    if standing is None or noted is None or (noted.seq, noted.root) != standing.root[:2]:
        return None
    listings = read_listings(layout, standing.listed)
    if listings is None:
        return None
    check_root(owned)
    return standing, listings


def _walker(owned: Owned, before: Previous, progress: Progress | None = None) -> Walker:
    return Walker(
        owned.root, owned.algorithm, Scopes(owned.root), before, SystemClock().now_ns(),
        progress=progress, own=database_files(owned.layout),
    )  # fmt: skip


def _declared(owned: Owned) -> str | None:
    """What stands for the declared types now; None where they cannot be read."""
    # Imported late: a scan needs nothing of frames.
    from indexer.core.tokens import DEFAULT_TOKENIZER, TiktokenCounter
    from indexer.engine.frames.types import DeclaredTypes

    try:
        return DeclaredTypes(owned.root, TiktokenCounter(encoding_name=DEFAULT_TOKENIZER)).digest()
    except MerkleError:
        return None
