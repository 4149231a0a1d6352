"""Growth: forget old history, the bodies of old deterministic frames, and give the space back.

What people and models wrote stays, and so does what heads, manifests, sessions and the roots that
are kept name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Final, TypedDict

from indexer.core.arguments import Amount
from indexer.core.frames import (
    FRAME_ATTRIBUTE,
    GENERATED_AGENT_PREFIX,
    BodyHash,
    FrameId,
    is_generated,
)
from indexer.core.progress import Progress, begin, counted, meter_of
from indexer.engine.long_work import LongWork
from indexer.engine.search.manifests import named_by_manifests
from indexer.store.database import Database, put_meta
from indexer.store.forgetting import Forgetting
from indexer.store.postings import PARTS
from indexer.store.rewrite import Rewriting
from indexer.store.sessions import SessionStore
from indexer.store.share_queue import ShareQueue
from indexer.store.trees import TreeStore

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames
    from indexer.engine.workspace import Engine

SAVES_BETWEEN: Final = 16
"""Roots that are recorded before a service looks whether compacting pays."""

PAYS: Final = 1.25
"""How many times its size after the last compaction the index has when compacting pays.

With the history that is kept, half as much as what is there, it stays below twice a fresh one."""

LEAST: Final = 1 << 20
"""Bytes that there are to gain at least, a part of what the file of any fresh index has."""

_COMPACTED: Final = "compacted"
"""What the meta table has of the last compaction: the newest root then, and the size after it."""

_FORGETTING: Final = 5 + 2 * PARTS
"""Steps before the file is written anew: five, and two for each part of the tables."""

_ATTEMPTS: Final = 3
"""How often a copy that writes made outdated is begun again before all of it is one step."""

_LOOKS: Final = 200
"""How often readers are waited for, one step each, before the old file is kept after all."""


class CompactedDocument(TypedDict):
    """Result of `compact`."""

    purged_sessions: int
    dropped: int
    kept: int
    repeated_heads: int
    forgotten_roots: int
    forgotten_frames: int
    bytes_before: int
    bytes_after: int


def compact(
    engine: Engine, keep_seconds: Amount | None = None, *, progress: Progress | None = None
) -> LongWork[CompactedDocument]:
    """Forget old history and the bodies of old deterministic frames, and shrink the index.

    Roots are kept as the settings `history.keep` and `history.keep_count` say. Bodies are kept
    as long as they belong to such a root or, with a time, only if they are younger than that.
    """
    # What people deleted goes when a person says so, not when a service has time.
    purge = engine.sessions.purge
    return Compaction(engine.frames, engine.trees, keep_seconds, purge=purge, progress=progress)


def compacting_pays(trees: TreeStore, database: Database) -> bool:
    """Whether the index grew enough since it was last compacted."""
    head = trees.head()
    rows = database.rows("SELECT value FROM meta WHERE key = ?", [_COMPACTED])
    seq, size = map(int, rows[0][0].split()) if rows else (0, 0)
    if head is None or head.seq - seq < SAVES_BETWEEN:
        return False
    # Not folded before it is measured: the library writes what it folds beside what it replaces.
    return database.size() >= max(PAYS * size, size + LEAST)


class Compaction(LongWork[CompactedDocument]):
    """Drops at once and folds and rewrites what is left in parts, so that others get a turn."""

    def __init__(
        self,
        frames: Frames,
        trees: TreeStore,
        keep_seconds: float | None = None,
        *,
        purge: Callable[[], int] | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._progress = progress
        self._purge, self._purged = purge, 0
        self._frames, self._trees = frames, trees
        self._database: Database = frames.store.database
        self._forgetting = Forgetting(self._database)
        self._now = frames.clock.now_ns()
        values = frames.declared.settings.values
        self._keep_ns = int(float(values["history.keep"] or 0) * 1e9)
        self._keep_count = int(values["history.keep_count"] or 1)
        self._bodies_ns = None if keep_seconds is None else int(keep_seconds * 1e9)
        self._dropped = self._kept = self._repeated = self._roots = self._rows = 0
        self._before = self._after = 0
        self._steps = self._begin()

    def step(self) -> bool:
        """Go on; True when it is done."""
        return next(self._steps, True)

    def close(self) -> None:
        """What was done until now stays done; the next compaction does the rest."""
        self._steps.close()

    def document(self) -> CompactedDocument:
        """What it did."""
        return {
            "purged_sessions": self._purged,
            "dropped": self._dropped,
            "kept": self._kept,
            "repeated_heads": self._repeated,
            "forgotten_roots": self._roots,
            "forgotten_frames": self._rows,
            "bytes_before": self._before,
            "bytes_after": self._after,
        }

    def _begin(self) -> Generator[bool]:
        self._before = self._database.size()
        begin(self._progress, "forgetting what is old", "steps", _FORGETTING)
        # Of what is told next, rows are counted, and steps are no rows.
        meter = meter_of(self._progress)
        for _ in counted(self._forgetting_steps(), meter):
            yield False
        yield from self._rewrite()
        self._note_size()

    def _forgetting_steps(self) -> Iterator[None]:
        """Forget in exactly `_FORGETTING` steps, though there may be nothing to do in some."""
        postings = self._frames.postings
        if self._purge is not None:
            self._purged = self._purge()
        yield
        horizon = self._cut_roots()
        yield
        self._drop(horizon)
        yield
        self._forgetting.drop_facts()
        self._frames.code.forget()
        are_to_be_folded = postings.are_to_be_folded()
        yield
        for part in range(PARTS):
            if are_to_be_folded:
                postings.fold(part)
            yield
        if are_to_be_folded:
            postings.note_folded()
        for part in range(PARTS):
            self._repeated += self._forgetting.drop_repeated_heads(part, PARTS)
            yield
        # Only now: no posting has the number of a body whose row goes.
        self._forgetting.drop_unnamed()
        self._forgetting.put_hashes_in_order()
        self._clear_caches()
        yield

    def _cut_roots(self) -> int:
        """Forget the roots that are too old or too many; gives the time the history begins at."""
        head = self._trees.head()
        if head is None:
            return self._now - self._keep_ns
        young = self._trees.first_seq_since(self._now - self._keep_ns) or head.seq
        kept = self._trees.root_before(self._keep_count - 1)
        first = max(self._trees.oldest_seq(), young, kept.seq if kept else 1)
        if first > self._trees.oldest_seq():
            self._roots = self._trees.forget_before(first)
        oldest = self._trees.root_at(first)
        by_count = oldest.at_ns if oldest is not None and first > young else 0
        return max(self._now - self._keep_ns, by_count)

    def _drop(self, horizon: int) -> None:
        """Drop frames from before the history begins, and bodies that are not to be kept."""
        until = horizon if self._bodies_ns is None else max(horizon, self._now - self._bodies_ns)
        kept, old, named, wanted = self._sorted_out(until)
        self._rows = self._forgetting.drop_frames(GENERATED_AGENT_PREFIX, horizon, named, wanted)
        if self._bodies_ns is None:
            kept |= self._forgetting.contents_in_roots()
        unwanted = [one for one in sorted(old - kept) if self._frames.heads.has_body(one)]
        self._kept, self._dropped = len(kept), len(unwanted)
        if unwanted:
            self._forgetting.drop_bodies(unwanted)
        self._clear_caches()

    def _clear_caches(self) -> None:
        self._frames.heads.forget()
        self._frames.input_chains.forget()

    def _sorted_out(
        self, horizon: int
    ) -> tuple[set[BodyHash], set[BodyHash], set[FrameId], set[BodyHash]]:
        """Which bodies and frames are to be kept.

        Gives the bodies that heads, notes, manifests, sessions, the team or young frames want,
        those of all other frames, the frames that sessions name, and the bodies that manifests
        and the team want.
        """
        frames = self._frames
        wanted = named_by_manifests(frames.store)
        # Nor may the team lose what it has yet to be given.
        due = [frames.heads.memo(key)[1] for key in ShareQueue(self._database).waiting()]
        wanted.update(content for content in due if content is not None)
        kept = {head.content for _, live in frames.heads.live() for _, head in live}
        # What a model wrote was paid for.
        kept |= frames.store.model_contents() | wanted
        attributes = SessionStore(self._database).attribute_values(FRAME_ATTRIBUTE)
        named, old = set[FrameId](), set[BodyHash]()
        for stored in frames.store.all_frames():
            frame = stored.frame
            if frame.frame_id.hex() in attributes:
                named.add(frame.frame_id)
                kept.add(frame.content)
            elif frame.created_ns >= horizon or not is_generated(frame.agent):
                kept.add(frame.content)
            else:
                old.add(frame.content)
        return kept, old, named, wanted

    # -- giving the space back

    def _rewrite(self) -> Generator[bool]:
        """Write the file anew, in steps where nobody writes meanwhile, otherwise in one."""
        for attempt in range(_ATTEMPTS + 1):
            rewriting = Rewriting(self._database, self._progress)
            with contextlib.ExitStack() as stack:
                stack.callback(rewriting.leave)
                yield from self._copy(rewriting, in_one=attempt == _ATTEMPTS)
                for _ in range(_LOOKS):
                    if rewriting.is_outdated:
                        break
                    if self._database.take_place():
                        return
                    yield False
                else:
                    # Another copy would wait for the same readers.
                    return

    def _copy(self, rewriting: Rewriting, *, in_one: bool) -> Iterator[bool]:
        for _ in rewriting.steps():
            if not in_one:
                yield False
                if rewriting.is_outdated:
                    return

    def _note_size(self) -> None:
        head = self._trees.head()
        self._after = self._database.size()
        with self._database.transaction() as connection:
            put_meta(connection, _COMPACTED, f"{head.seq if head else 0} {self._after}")
