"""Making what is stale again: leaves first, from the memo where it can, in small transactions."""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from indexer.core import paths
from indexer.core.frames import Action, BodyHash, ChildBody, Head, MemoKey, body_hash
from indexer.core.kinds import Kind
from indexer.core.tree import Tree
from indexer.core.twice import NonDeterministicError
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
from indexer.engine.frames.types import FrameType, others_than
from indexer.engine.make.bodies import Bodies
from indexer.engine.make.events import Event, Outcome
from indexer.engine.make.item import (
    FolderSource,
    Item,
    Result,
    TextSource,
    place,
)
from indexer.engine.make.pace import Pace
from indexer.engine.make.processes import OtherCodeError
from indexer.engine.make.second_run import Code, SecondRun
from indexer.engine.make.workers import (
    ChangedError,
    FileSource,
    Generated,
    GeneratorPool,
    Maker,
    read_exactly,
)
from indexer.engine.models.questions import Answers, NoAnswers, about_model
from indexer.engine.team.chunk import TeamChunk
from indexer.generators.base import FileInput
from indexer.generators.llm.writer import ModelWriter
from indexer.regenerate.plan import Step, stale_steps, waves
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

_PLANNED: Final = 5000
"""Frames that are planned at a time."""


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
    _second_runs: dict[str, SecondRun] = field(default_factory=dict)
    """By what it makes, where custom code is checked."""
    patience: float | None = None
    """Seconds to wait for what another machine computes; None: as long as it does."""
    pace: Pace | None = None
    """How long a piece may take; None where nobody waits for this thread."""
    _chunk: TeamChunk | None = None
    _walk: Iterator[Step] | None = None
    """The look for what is stale that `run_some` goes on with."""
    _walked_files: int = 0
    _stuck: set[tuple[str, bytes]] = field(default_factory=set)
    """What could not be made current with the content it has: not tried again in this pass."""

    def __post_init__(self) -> None:
        self._bodies = Bodies(self.frames.heads)

    def pieces(self, within: str = paths.ROOT, *, recursive: bool = True) -> Generator[None]:
        """Make everything that is stale in the scope, a piece before each value that comes.

        In between the tree may move on, which whoever asks for the next piece puts in.
        """
        planned, steps = self.tree, list[Step]()
        try:
            for step in self._stale(within, recursive):
                steps.append(step)
                if len(steps) % _PLANNED == 0:
                    yield
            files = sum(step.entry.kind is Kind.FILE for step in steps)
            begin = 0
            while begin < len(steps):
                with self._piece() as size:
                    chunk = steps[begin : begin + size]
                    begin += len(chunk)
                    now = chunk if self.tree is planned else list(self._still_stale(chunk))
                    self._run_chunk(now, files)
                    files -= sum(step.entry.kind is Kind.FILE for step in chunk)
                if self.progress is not None:
                    self.progress(len(chunk) - (self._chunk.told_of if self._chunk else 0))
                yield
            self._give_what_is_due()
        finally:
            self.close()

    def _piece(self) -> AbstractContextManager[int]:
        if self._is_shared:
            return nullcontext(TEAM_CHUNK)
        return self.pace.piece() if self.pace is not None else nullcontext(CHUNK)

    def _still_stale(self, chunk: Iterable[Step]) -> Iterator[Step]:
        """What a plan for an earlier tree still asks for, with what is there now."""
        rules = self.type.rules
        head_of = self.frames.heads.heads_of(rules.type)
        for path, _ in chunk:
            entry = self.tree.get(path)
            if entry is None or not rules.wants(entry):
                continue
            if not rules.is_current(head_of(path, rules.agent_for(entry)), entry):
                yield Step(path, entry)

    def run_some(self, tree: Tree, limit: int | None = None) -> bool:
        """Make the next stale frames of a tree; True when something was made or tried."""
        with nullcontext(limit) if limit is not None else self._piece() as size:
            chunk = list(islice(self._from_walk(tree), size))
            if not chunk and self._walk is not None:
                # What was passed by may have become stale since.
                self._walk = None
                chunk = list(islice(self._from_walk(tree), size))
            files = sum(step.entry.kind is Kind.FILE for step in chunk)
            self._walked_files += files
            # Full chunks of files mean that there is more to come, and workers are worth it.
            self._run_chunk(chunk, files if len(chunk) < size else size + self._walked_files)
        return bool(chunk)

    def _from_walk(self, tree: Tree) -> Iterator[Step]:
        """What is stale, from where the last look at the same tree ended.

        Without folders' frames each look begins anew: settled folders are passed by at once.
        """
        if tree is not self.tree or not self.type.rules.has_folder_frames:
            self._walk = None
        self.tree = tree
        if self._walk is None:
            self._walk = self._stale(paths.ROOT, True)
            self._walked_files = 0
        return self._walk

    def run_steps(self, chunk: list[Step], files: int = 0) -> None:
        """Make exactly these, children before parents, where their inputs are there."""
        self._run_chunk(chunk, files)

    def close(self) -> None:
        """End the worker processes, if there are any."""
        for helper in (self._pool, *self._second_runs.values()):
            if helper is not None:
                helper.close()
        self._pool = None
        self._second_runs.clear()

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

    def _run_chunk(self, chunk: list[Step], files: int) -> None:
        """Make and store one group."""
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

    def _take_back_proofs(self, batch: FrameBatch) -> None:
        """What rests on the heads that this batch moves has to be shown again."""
        others = others_than(self.frames.types, self.type.name)
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
            return [self._run_on(one) for one in texts]
        read = [one for one in sources if isinstance(one, FileSource)]
        made = self._workers().run(read, files)
        return [self._run_again(made, one) for made, one in zip(made, read, strict=True)]

    def _run_on(self, source: TextSource) -> Generated:
        text = self.body_of(source.content)
        return self._run_again(self._workers().run_on(source.path, text), source)

    def _run_again(self, made: Generated, source: FileSource | TextSource) -> Generated:
        """What a generator made, once custom code has made the same in another process."""
        maker = self.type.file
        if maker is None or not maker.verify or made.body is None:
            return made
        assert not isinstance(maker.generator, ModelWriter)
        code = Code(maker.name, maker.options, maker.generator.fingerprint_parts())
        try:
            if isinstance(source, FileSource):
                content = read_exactly(self.frames.root, self.frames.algorithm, source)
            else:
                content = self.body_of(source.content).encode()
            name = paths.split(source.path)[1]
            self._second_run("file", code).check(made.body, FileInput(name, content))
        except (OSError, ChangedError):
            return Generated(None, of_place=True)
        except NonDeterministicError as error:
            return Generated(None, f"{type(error).__name__}: {error}")
        return made

    def _second_run(self, kind: str, code: Code) -> SecondRun:
        return self._second_runs.setdefault(kind, SecondRun(code))

    def _synthesized(self, source: FolderSource) -> Generated:
        maker = self.type.folder
        assert maker is not None
        assert not isinstance(maker.policy, ModelWriter)
        inputs = self.inputs_of(source.bodies)
        try:
            body = maker.policy.synthesize(inputs)
            body_hash(body)
            if maker.verify:
                parts = maker.policy.fingerprint_parts()
                tokenizer = self.frames.declared.tokens.tokenizer
                code = Code(maker.name, maker.options, parts, tokenizer)
                self._second_run("folder", code).check(body, inputs)
        except OtherCodeError:
            raise
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
        pace=Pace(engine.clock.monotonic, CHUNK) if engine.in_turns else None,
    )
