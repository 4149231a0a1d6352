"""Making what is stale again: leaves first, from the memo where it can, in small transactions."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from indexer.core import paths
from indexer.core.frames import Action, BodyHash, ChildBody, Head, MemoKey, body_hash
from indexer.core.kinds import Kind
from indexer.core.tree import Tree
from indexer.engine.frames.freshness import fresh_head, fresh_in
from indexer.engine.frames.inputs import children_document
from indexer.engine.frames.recipe import (
    Part,
    file_basis,
    file_key,
    folder_basis,
    folder_key,
    parts_of,
)
from indexer.engine.frames.types import FrameType, bystanders
from indexer.engine.make.bodies import Bodies
from indexer.engine.make.events import Event, Outcome
from indexer.engine.make.item import (
    FolderSource,
    Item,
    Result,
    TextSource,
    place,
)
from indexer.engine.make.workers import FileSource, Generated, GeneratorPool, Maker
from indexer.engine.models.questions import Answers, NoAnswers, about_model
from indexer.engine.team.chunk import TeamChunk
from indexer.generators.llm.writer import ModelWriter
from indexer.regenerate.plan import Step, chunks, stale_steps, waves
from indexer.store.frames import FrameBatch
from indexer.synthesis.base import ChildInput

if TYPE_CHECKING:
    from indexer.engine.durable.journal import Records
    from indexer.engine.frames.opened import Frames
    from indexer.engine.team.exchange import Exchange
    from indexer.engine.workspace import Engine

CHUNK: Final = 1000
"""Frames stored together: what a kill in between can cost."""

TEAM_CHUNK: Final = 4000
"""The same in a team, where each chunk takes a conversation per level of its folders; what is
computed here is stored in smaller portions before."""


class Team(NamedTuple):
    """What a pass needs in order to work with a team."""

    exchange: Callable[[], Exchange | None]
    """The dealings with the team that the settings name now."""
    records: Records


@dataclass(slots=True)
class OnePass:
    """Passes over one declared type, a stored chunk at a time."""

    frames: Frames
    tree: Tree
    type: FrameType
    outcome: Outcome
    progress: Callable[[int], None] | None = None
    asked_by: str | None = None
    """Who asked for it: kept beside the frames, no part of their ids."""
    team: Team | None = None
    """How to reach the team, and to journal what it paid for; None where it is not asked."""
    answers: Answers = field(default_factory=NoAnswers)
    """Who is told what a model has to write."""
    patient: bool = False
    """Whether folders wait until everything below them is current."""
    _bodies: Bodies = field(init=False)
    _pool: GeneratorPool | None = None
    patience: float | None = None
    """Seconds to wait for what another machine computes; None: as long as it does."""
    _chunk: TeamChunk | None = None
    _stuck: set[tuple[str, bytes]] = field(default_factory=set)
    """What could not be made current with the content it has: not tried again in this pass."""

    def __post_init__(self) -> None:
        self._bodies = Bodies(self.frames.heads)

    def run(self, within: str = paths.ROOT, *, recursive: bool = True) -> None:
        """Make everything that is stale in the scope."""
        steps = list(self._stale(within, recursive))
        files = sum(step.entry.kind is Kind.FILE for step in steps)
        try:
            for chunk in chunks(iter(steps), TEAM_CHUNK if self._is_shared else CHUNK):
                files -= self._run_chunk(chunk, files)
                if self.progress is not None:
                    self.progress(len(chunk) - (self._chunk.told_of if self._chunk else 0))
            self._give_what_is_due()
        finally:
            self.close()

    def run_some(self, tree: Tree, limit: int = CHUNK) -> bool:
        """Make the first `limit` stale frames of a tree; True when something was made or tried."""
        self.tree = tree
        chunk = list(islice(self._stale(paths.ROOT, True), limit))
        # A full chunk of files means that there is more to come, and workers are worth it.
        files = sum(step.entry.kind is Kind.FILE for step in chunk)
        self._run_chunk(chunk, files if len(chunk) < limit else 2 * limit)
        return bool(chunk)

    def run_steps(self, chunk: list[Step], files: int = 0) -> None:
        """Make exactly these, children before parents, where their inputs are there."""
        self._run_chunk(chunk, files)

    def close(self) -> None:
        """End the worker processes, if there are any."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _stale(self, within: str, recursive: bool) -> Iterator[Step]:
        head_of = self.frames.heads.heads_of(self.type.name)
        current = self.frames.heads.current_below(self.type.rules)
        steps = stale_steps(
            self.tree, self.type.rules, head_of, within, recursive=recursive, settled=current
        )
        return (step for step in steps if (step.path, step.entry.content_id) not in self._stuck)

    def _note_stuck(self, chunk: Iterable[Step]) -> None:
        rules = self.type.rules
        head_of = self.frames.heads.heads_of(rules.type)
        for step in chunk:
            if not rules.is_current(head_of(step.path, rules.agent_for(step.entry)), step.entry):
                self._stuck.add((step.path, step.entry.content_id))

    def _workers(self) -> GeneratorPool:
        if self._pool is None:
            maker = self.type.file
            assert maker is not None
            assert not isinstance(maker.generator, ModelWriter)
            sent = Maker(maker.name, tuple(maker.options.items()), maker.verify)
            self._pool = GeneratorPool(
                self.frames.root, self.frames.algorithm, maker.generator, sent
            )
        return self._pool

    # -- with the team

    @property
    def _exchange(self) -> Exchange | None:
        return self.team.exchange() if self.team is not None else None

    @property
    def _is_shared(self) -> bool:
        return self.type.share and self._exchange is not None

    def _team_chunk(self) -> TeamChunk | None:
        """In a team, who computes what is decided chunk by chunk."""
        exchange, heads = self._exchange, self.frames.heads
        if exchange is None or not self.type.share:
            return None
        generation, texts = (lambda key: heads.memo(key)[0]), self._bodies.texts
        return TeamChunk(exchange, generation, texts, self.patience, self.progress)

    def _give_what_is_due(self) -> None:
        exchange = self._exchange
        if exchange is not None:
            exchange.catch_up()

    # -- a chunk: its items, then a result for each, then their places in one batch

    def _run_chunk(self, chunk: list[Step], files: int) -> int:
        """Make and store one group; returns how many files were in it."""
        batch, told = FrameBatch(), dict[str, list[Event]]()
        self._chunk = self._team_chunk()
        self._bodies.shrink(20 * CHUNK, batch)
        for wave in waves(chunk):
            items = [item for step in wave if (item := self._item(step, batch, told)) is not None]
            for item, result in self._results(items, files, batch):
                told[item.path] = place(
                    self.frames, self.tree, self.type, item, result, batch, self.asked_by
                )
        self._take_back_proofs(batch)
        try:
            if batch:
                self.frames.heads.add(batch)
        except BaseException:
            # They may name lists that are not stored now.
            self.frames.input_chains.forget()
            raise
        elsewhere = self._chunk.elsewhere if self._chunk else ()
        self._note_stuck(step for step in chunk if step.path not in elsewhere)
        self._give_what_is_due()
        # In the order of the plan, whatever order they were made in.
        self.outcome.events += [event for step in chunk for event in told.get(step.path, ())]
        return sum(step.entry.kind is Kind.FILE for step in chunk)

    def _take_back_proofs(self, batch: FrameBatch) -> None:
        """What rests on the heads that this batch moves has to be shown again."""
        others = bystanders(self.frames.types, self.type.name)
        fallen = self.frames.heads.unproved(batch.heads, self.type.rules, others)
        for key, head in fallen.items():
            # A folder in this batch was made after its children, and knows.
            batch.heads.setdefault(key, head)

    def _item(self, step: Step, batch: FrameBatch, told: dict[str, list[Event]]) -> Item | None:
        """What a frame is made from; None where that is not there (yet)."""
        if step.entry.folder is not None:
            return self._folder_item(step, batch)
        path, entry = step
        source: FileSource | TextSource = FileSource(path, entry.content_id, entry.size)
        read = None
        if self.type.input is not None:
            below = fresh_head(self.frames, path, entry, self.type.input)
            if below is None:
                problem = "its input frame is not fresh"
                told[path] = [Event("failed", path, self.type.name, None, problem)]
                return None
            source, read = TextSource(path, below.content), below.frame_id
        seen = source.content if isinstance(source, TextSource) else entry.content_id
        basis = file_basis(self.frames.algorithm, self.type, path, entry, read)
        return Item(step, file_key(self.type, path, seen), source, basis)

    def _folder_item(self, step: Step, batch: FrameBatch) -> Item | None:
        maker, rules = self.type.folder, self.type.rules
        assert maker is not None
        if self._chunk is not None and self._chunk.waits_below(step.path):
            return None
        parts = list(self._parts(step, batch))
        current = all(rules.is_current(one.head, one.entry) for one in parts if one.own)
        if not current and (self.patient or maker.writer is not None):
            return None
        children = [part.frame(self.frames.algorithm) for part in parts]
        bodies = tuple(part.body for part in parts)
        return Item(
            step,
            folder_key(self.type, bodies),
            FolderSource(bodies),
            folder_basis(self.type, step.path, children),
            current,
            children_document(maker.print, children),
        )

    def _parts(self, step: Step, batch: FrameBatch) -> Iterator[Part]:
        heads = self.frames.heads

        def head_at(path: str, frame_type: str, agent: str) -> Head | None:
            new = batch.heads.get((path, frame_type, agent))
            return new or heads.head(path, frame_type, agent)

        is_fresh = fresh_in(self.frames, self.tree)
        return parts_of(self.frames, self.type, step.path, step.entry, is_fresh, head_at)

    # -- results: from the memo here, from the team, computed, or asked of a model

    def _results(
        self, items: list[Item], files: int, batch: FrameBatch
    ) -> Iterator[tuple[Item, Result]]:
        """A result per item, in order, but for those that a model or another machine makes."""
        missing: dict[MemoKey, list[Item]] = {}
        for item in items:
            # The same name and content twice in one pass is computed once.
            if self._memo(item.key, batch) is None:
                missing.setdefault(item.key, []).append(item)
        maker = self.type.folder if items and items[0].step.entry.folder else self.type.file
        written = maker is not None and maker.writer is not None
        taken: Container[MemoKey] = ()
        failures: dict[str, str] = {}
        if written:
            self._take_paid(list(missing))
        elif missing:

            def compute(keys: Iterable[MemoKey]) -> None:
                chosen = {key: missing[key] for key in keys}
                failures.update(self._compute(chosen, files, batch))

            if self._chunk is None:
                compute(missing)
            else:
                taken = self._chunk.get_or_compute(missing, batch, compute)
        elsewhere = self._chunk.elsewhere if self._chunk is not None else ()
        generated: set[MemoKey] = set()
        for item in items:
            content = self._memo(item.key, batch)
            if content is None and written:
                self.answers.want(item.key, item.step, item.source)
            elif written:
                about = about_model(self.frames.heads, item.key)
                yield item, Result(content, self.answers.action(item.key), about=about)
            elif item.path in failures or (content is None and item.path not in elsewhere):
                yield item, Result(None, problem=failures.get(item.path, ""))
            elif content is not None:
                first = item.key in missing and item.key not in generated
                generated.add(item.key)
                ran = first and item.key not in taken
                yield item, Result(content, Action.GENERATED if ran else Action.REUSED)

    def _memo(self, key: MemoKey, batch: FrameBatch) -> BodyHash | None:
        return (batch.memo.get(key) or self.frames.heads.memo(key))[1]

    def _take_paid(self, keys: list[MemoKey]) -> None:
        """Answers of models that another member has; asking for more is not decided here."""
        exchange = self._exchange
        if self._chunk is None or self.team is None or exchange is None or not keys:
            return
        # Imported late: only in a team with types that models write.
        from indexer.engine.team.models import take_paid

        take_paid(exchange, self.frames.heads, self.team.records, keys)

    def _compute(
        self, missing: dict[MemoKey, list[Item]], files: int, batch: FrameBatch
    ) -> dict[str, str]:
        """Run the generator or policy once per key, into the batch; where and why that failed."""
        failures: dict[str, str] = {}
        while missing:
            again: dict[MemoKey, list[Item]] = {}
            made = self._generated([group[0] for group in missing.values()], files)
            for (key, group), outcome in zip(missing.items(), made, strict=True):
                if outcome.body is not None:
                    content = self._bodies.add(outcome.body, batch)
                    batch.memo[key] = (self.frames.heads.memo(key)[0], content)
                    continue
                # Gone or changed at one place, the same may be had at another.
                retry = outcome.of_place and len(group) > 1
                failed = group[:1] if retry else group
                failures.update((i.path, outcome.problem or "changed meanwhile") for i in failed)
                if retry:
                    again[key] = group[1:]
            missing = again
        return failures

    def _generated(self, items: list[Item], files: int) -> list[Generated]:
        """What the generator or policy makes of each; all of a wave have one kind of source."""
        sources = [item.source for item in items]
        if folders := [one for one in sources if isinstance(one, FolderSource)]:
            self._bodies.read(body for one in folders for _, _, body in one.bodies if body)
            return [self._synthesized(one) for one in folders]
        if texts := [one for one in sources if isinstance(one, TextSource)]:
            self._bodies.read(one.content for one in texts)
            return [self._workers().run_on(one.path, self.body_of(one.content)) for one in texts]
        read = [one for one in sources if isinstance(one, FileSource)]
        return self._workers().run(read, files)

    def _synthesized(self, source: FolderSource) -> Generated:
        assert self.type.folder is not None
        assert not isinstance(self.type.folder.policy, ModelWriter)
        inputs = self.inputs_of(source.bodies)
        try:
            body = self.type.folder.policy.synthesize(inputs)
            body_hash(body)
        except Exception as error:  # a custom policy may raise anything
            return Generated(None, f"{type(error).__name__}: {error}")
        return Generated(body)

    def inputs_of(self, bodies: Iterable[ChildBody]) -> list[ChildInput]:
        """A folder's children as a policy sees them."""
        return self._bodies.inputs_of(bodies)

    def body_of(self, content: BodyHash) -> str:
        """A body that must be stored."""
        return self._bodies.of(content)


def one_pass(
    engine: Engine,
    declared: FrameType,
    outcome: Outcome,
    *,
    progress: Callable[[int], None] | None = None,
    asked_by: str | None = None,
    answers: Answers | None = None,
    patient: bool = False,
    patience: float | None = None,
) -> OnePass:
    """A pass over a type of an open workspace, as its tree is now."""
    return OnePass(
        engine.frames,
        engine.tree,
        declared,
        outcome,
        progress,
        asked_by,
        Team(lambda: engine.exchange, engine.records),
        answers or NoAnswers(),
        patient,
        patience=patience,
    )
