"""The frames of an open workspace: their stores, what of them is in memory, and declared types."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from indexer.core.clock import Clock
from indexer.core.frames import FrameId
from indexer.core.hashing import WorkspaceHash
from indexer.core.tokens import TiktokenCounter
from indexer.core.tree import Tree
from indexer.engine.code.known import KnownFacts
from indexer.engine.code.symbols import FileSymbols
from indexer.engine.frames.freshness import symbol_in
from indexer.engine.frames.heads import HeadCache
from indexer.engine.frames.inputs import InputChains
from indexer.engine.frames.states import MissingCounts, StateCounts
from indexer.engine.frames.types import DeclaredTypes, FrameType
from indexer.store.code import CodeStore
from indexer.store.database import Database
from indexer.store.frames import FrameStore
from indexer.store.postings import PostingStore


class Frames:
    """What has to be known of frames to judge, to read and to make them."""

    def __init__(
        self,
        root: Path,
        algorithm: WorkspaceHash,
        database: Database,
        clock: Clock,
        counter: TiktokenCounter,
    ) -> None:
        self.root = root
        self.algorithm = algorithm
        self.clock = clock
        self.counter = counter
        self.store = FrameStore(database)
        self.postings = PostingStore(database)
        self.code = KnownFacts(CodeStore(database))
        self.heads = HeadCache(self.store, self.postings, self.code)
        self.declared = DeclaredTypes(root, counter)
        self.symbols = FileSymbols(self)
        self.input_chains = InputChains()
        self.missing = MissingCounts(self)
        self.states = StateCounts(self)
        self.left_behind: set[bytes | None] = set()
        """Configurations that no request has: a type that was declared once left them behind."""
        self._note_inputs: dict[FrameId, dict[str, Any] | None] = {}

    @property
    def types(self) -> dict[str, FrameType]:
        """The declared frame types, as last read."""
        return self.declared.types

    def note_inputs(self, frame_id: FrameId) -> dict[str, Any] | None:
        """What a note is bound to; frames never change, so neither does this."""
        if frame_id not in self._note_inputs:
            stored = self.store.frame(frame_id)
            inputs = stored.frame.inputs if stored else None
            self._note_inputs[frame_id] = None if inputs is None else self.store.inputs(inputs)
        return self._note_inputs[frame_id]

    def remember_inputs(self, frame_id: FrameId, document: dict[str, Any]) -> None:
        """What a note that was just written is bound to, so that it is not looked up."""
        self._note_inputs[frame_id] = document

    def load_notes(self, tree: Tree, notes: Iterable[tuple[str, FrameId]]) -> None:
        """Read at once what is needed to judge many notes, by their paths and ids."""
        listed = list(notes)
        self.load_note_inputs(frame_id for _, frame_id in listed)
        bound = ((path, tree.get(path), symbol_in(self.note_inputs(one))) for path, one in listed)
        self.symbols.load(
            (path, entry, symbol)
            for path, entry, symbol in bound
            if entry is not None and symbol is not None
        )

    def load_note_inputs(self, frame_ids: Iterable[FrameId]) -> None:
        """Read in one query what many notes are bound to."""
        missing = [one for one in frame_ids if one not in self._note_inputs]
        self._note_inputs.update(self.store.note_inputs(missing))
