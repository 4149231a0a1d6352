"""Finding out what code says of itself, where no frame that is made brings it along."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import nullcontext
from itertools import islice
from typing import TYPE_CHECKING

from indexer.core import paths
from indexer.core.clock import Clock
from indexer.core.code import FactsKey
from indexer.core.progress import Progress, begin
from indexer.core.tree import Tree
from indexer.engine.make.one_pass import CHUNK
from indexer.engine.make.pace import Pace
from indexer.engine.make.workers import FileSource, GeneratorPool, Maker
from indexer.generators.facts import facts_key
from indexer.generators.outline import OutlineGenerator
from indexer.store.frames import FrameBatch

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames


class CodePass:
    """Makes the facts that files lack, a stored chunk at a time.

    An outline's generator gives them with the outline. What is left is what came otherwise: an
    outline that was known already, a workspace that declares none, an index from before.
    """

    def __init__(self, frames: Frames, clock: Clock | None = None) -> None:
        """With a clock, a piece takes no longer than others may wait for this thread."""
        self._frames = frames
        self._pace = None if clock is None else Pace(clock.monotonic, CHUNK)
        self._pool: GeneratorPool | None = None
        self._failed: set[FactsKey] = set()
        """What could not be read: not tried again in this pass."""

    def pieces(
        self, tree: Tree, within: str = paths.ROOT, progress: Progress | None = None
    ) -> Generator[None]:
        """Make everything that is missing in a part of the workspace, yielding in between."""
        if progress is not None:
            begin(progress, "reading code", "files", sum(1 for _ in self._missing(tree, within)))
        try:
            while made := self.run_some(tree, within):
                if progress is not None:
                    progress(made)
                yield
        finally:
            self.close()

    def run_some(self, tree: Tree, within: str = paths.ROOT) -> int:
        """Make the next that are missing; how many those were."""
        with self._pace.piece() if self._pace is not None else nullcontext(CHUNK) as size:
            wanted = list(islice(self._missing(tree, within), size))
            if wanted:
                self._make(wanted, len(wanted) if len(wanted) < size else size + CHUNK)
            elif not self._frames.store.database.read_only:
                self._frames.code.note_complete(tree, self._frames.declared.settings.size_limit)
        return len(wanted)

    def close(self) -> None:
        """End the worker processes, if there are any."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _make(self, wanted: list[FileSource], expected: int) -> None:
        batch = FrameBatch()
        for source, made in zip(wanted, self._workers().run(wanted, expected), strict=True):
            batch.code.update(made.facts)
            if not made.facts:
                self._failed.add(facts_key(source.path, source.content_id))
        if batch:
            self._frames.heads.add(batch)

    def _workers(self) -> GeneratorPool:
        if self._pool is None:
            generator = OutlineGenerator()
            self._pool = GeneratorPool(self._frames, generator, Maker(generator.name, (), False))
        return self._pool

    def _missing(self, tree: Tree, within: str) -> Iterator[FileSource]:
        """One file for each content whose facts are missing."""
        limit = self._frames.declared.settings.size_limit
        begun = set[FactsKey]()
        for key, path, entry in self._frames.code.missing(tree, limit, within):
            if key not in begun and key not in self._failed:
                begun.add(key)
                yield FileSource(path, entry.content_id, entry.size)
