"""Everything about frames of an open workspace: stores, caches, declared types, operations."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from indexer.core.frames import FrameId, HeadKey
from indexer.core.tokens import TiktokenCounter
from indexer.core.tree import Tree
from indexer.engine.durable.journal import open_journal
from indexer.engine.frames.heads import Shelf
from indexer.engine.frames.read import States, count_states
from indexer.engine.frames.types import DEFAULT_TOKENIZER, FrameType, load_types
from indexer.engine.late import LateModule
from indexer.engine.models.prompt_files import own_prompts, prompt_contents
from indexer.engine.search.corpus import Corpus
from indexer.engine.settings import Settings, load_settings
from indexer.store.frames import FrameStore
from indexer.store.journal import Journal
from indexer.store.postings import PostingStore
from indexer.synthesis.base import Tokens

if TYPE_CHECKING:
    from indexer.engine.sessions import open_sessions as session_desk
    from indexer.engine.sessions.open_sessions import Desk
    from indexer.engine.team import exchange as sharing
    from indexer.engine.workspace import Engine
else:
    session_desk = LateModule("indexer.engine.sessions.open_sessions")
    sharing = LateModule("indexer.engine.team.exchange")


class Framing:
    """What the engine knows of frames."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.store = FrameStore(engine.database)
        self.postings = PostingStore(engine.database)
        self.shelf = Shelf(self.store, self.postings)
        self.corpus = Corpus(self.shelf, self.postings)
        self.input_chains: dict[HeadKey, tuple[bytes, dict[str, Any] | None, int]] = {}
        self.redone = 0
        self.applied: int | None = None
        """The last journal record that the database has, where this process has seen it stored."""
        self._journal: Journal | None = None
        self._types: tuple[tuple[bytes | None, ...], dict[str, FrameType]] | None = None
        self._prompts: tuple[str, ...] = ()
        """The workspace's own prompts that the types were read with."""
        self._exchange: sharing.Exchange | None = None
        self._counter: TiktokenCounter | None = None
        self._note_inputs: dict[FrameId, dict[str, Any] | None] = {}
        self._states: tuple[object, States] | None = None
        self._desk: Desk | None = None
        self._desk_lock = threading.Lock()

    def open(self) -> None:
        """Open the journal and bring the database up to it, through the engine's own stores."""
        self._journal, self.redone = open_journal(self._engine)

    def close(self) -> None:
        """Let go of the journal and of the team's store."""
        journal = self.give_up()
        if journal is not None:
            journal.close()

    def give_up(self) -> Journal | None:
        """Let go of the team's store only; the journal, for whoever goes on with it."""
        if self._exchange is not None:
            self._exchange.close()
        return self._journal

    @property
    def journal(self) -> Journal:
        """What cannot be recomputed."""
        assert self._journal is not None, "opened before anything is written"
        return self._journal

    @property
    def types(self) -> dict[str, FrameType]:
        """The declared frame types, as last read."""
        if self._types is None:
            self.refresh_types()
        assert self._types is not None
        return self._types[1]

    def refresh_types(self) -> None:
        """Read the declared types again when merkle.toml has changed."""
        root = self._engine.root
        try:
            text: bytes | None = (root / "merkle.toml").read_bytes()
        except OSError:
            text = None
        read = (text, *prompt_contents(root, self._prompts))
        if self._types is None or self._types[0] != read:
            tokens = Tokens(DEFAULT_TOKENIZER, self.count_tokens)
            settings = load_settings(root)
            types = load_types(root, settings.size_limit, tokens)
            self._prompts = own_prompts(types.values())
            self._types = ((text, *prompt_contents(root, self._prompts)), types)
            self._renew_exchange(settings)

    def _renew_exchange(self, settings: Settings) -> None:
        """Deal with the team that the settings name; the same as before, its leases go on."""
        shared = settings.values["shared.url"] is not None
        member = sharing.membership(settings) if shared else None
        if self._exchange is not None:
            if self._exchange.client.member == member:
                return
            self._exchange.close()
        self._exchange = sharing.exchange(self._engine, member) if member is not None else None

    @property
    def exchange(self) -> sharing.Exchange | None:
        """The dealings with the team, where merkle.toml or the environment names its store."""
        _ = self.types
        return self._exchange

    @property
    def counter(self) -> TiktokenCounter:
        """The counter of the workspace's tokenizer; its tables are loaded on first use."""
        if self._counter is None:
            self._counter = TiktokenCounter(encoding_name=DEFAULT_TOKENIZER)
        return self._counter

    def count_tokens(self, text: str) -> int:
        """Tokens of a text."""
        return self.counter.count_text(text)

    @property
    def desk(self) -> Desk:
        """The sessions, which most commands have nothing to do with."""
        with self._desk_lock:
            if self._desk is None:
                self._desk = session_desk.Desk(self._engine)
            return self._desk

    def note_inputs(self, frame_id: FrameId) -> dict[str, Any] | None:
        """What a note is bound to; frames never change, so neither does this."""
        if frame_id not in self._note_inputs:
            stored = self.store.frame(frame_id)
            inputs = stored.frame.inputs if stored else None
            self._note_inputs[frame_id] = None if inputs is None else self.store.inputs(inputs)
        return self._note_inputs[frame_id]

    def load_note_inputs(self, frame_ids: Iterable[FrameId]) -> None:
        """Read in one query what many notes are bound to."""
        missing = [one for one in frame_ids if one not in self._note_inputs]
        self._note_inputs.update(self.store.note_inputs(missing))

    def states(self, present: Tree | None) -> States:
        """Heads by freshness; kept until the tree, a head or the configuration moves.

        Without a tree that is known to be what is on disk, every state is unknown.
        """
        self.refresh_types()
        rules = tuple(declared.rules for declared in self.types.values())
        key = (present.root_id if present else None, self.shelf.version, rules)
        if self._states is None or self._states[0] != key:
            self._states = (key, count_states(self._engine, present))
        return self._states[1]
