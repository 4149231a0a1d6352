"""Making what is stale again: leaves first, from the memo where it can, in small transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from indexer.core import paths
from indexer.core.frames import Action, BodyHash, ChildBody, ChildFrame, Head, MemoKey
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
from indexer.engine.make.bodies import Bodies, MadeBody
from indexer.engine.make.events import Event, Outcome
from indexer.engine.make.new_frame import MadeFrame, place
from indexer.engine.make.processes import OtherCodeError
from indexer.engine.make.second_run import Code, SecondRun
from indexer.engine.make.workers import (
    ChangedError,
    Generated,
    GeneratorPool,
    Maker,
    Task,
    read_exactly,
)
from indexer.engine.models.questions import (
    Answers,
    FileSource,
    FolderSource,
    NoAnswers,
    TextSource,
    about_model,
)
from indexer.engine.team.chunk import Children, FolderWave, TeamChunk
from indexer.generators.base import FileInput
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

_SHORT_CHUNK: Final = 60
"""Steps up to which each policy reads for itself."""


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
    _fetched: bool = False
    """Whether the bodies that this chunk's policies may need have been read."""
    _bodies: Bodies = field(init=False)
    _pool: GeneratorPool | None = None
    _second_runs: dict[str, SecondRun] = field(default_factory=dict)
    """By what it makes, where custom code is checked."""
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

    def _workers(self) -> GeneratorPool | None:
        maker = self.type.file
        if (
            maker is not None
            and self._pool is None
            and not isinstance(maker.generator, ModelWriter)
        ):
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

    def _begin_chunk(self) -> None:
        """In a team, who computes what is decided chunk by chunk."""
        exchange, heads = self._exchange, self.frames.heads
        self._chunk = None
        if exchange is not None and self.type.share:
            self._chunk = TeamChunk(
                exchange,
                lambda key: heads.memo(key)[0],
                self._bodies.texts,
                self.patience,
                self.progress,
            )

    def _give_what_is_due(self) -> None:
        exchange = self._exchange
        if exchange is not None:
            exchange.catch_up()

    def _share_folders(self, wave: list[Step], chunk: list[Step], batch: FrameBatch) -> FolderWave:
        """Results of a wave's folders: from the team, or computed here for the team too."""
        shared, maker = FolderWave(), self.type.folder
        if self._chunk is None or maker is None:
            return shared
        waiting: dict[MemoKey, list[Step]] = {}
        for step in wave:
            if step.entry.folder is None or self._chunk.waits_below(step.path):
                continue
            children = shared.children[step.path] = self._children(step, batch)
            if not children[2] and (self.patient or maker.writer is not None):
                continue
            key = folder_key(self.type, children[1])
            if self._memo(key, batch)[1] is None:
                shared.first.setdefault(key, step.path)
                waiting.setdefault(key, []).append(step)

        def compute(keys: list[MemoKey]) -> None:
            for key in keys:
                step = waiting[key][0]
                bodies = shared.children[step.path][1]
                shared.computed[key] = self._run_policy(key, step, bodies, chunk, batch)

        if maker.writer is not None:
            self._take_paid(list(waiting))
        else:
            self._chunk.get_or_compute(waiting, batch, compute)
        return shared

    def _take_paid(self, keys: list[MemoKey]) -> None:
        """Answers of models that another member has; asking for more is not decided here."""
        exchange = self._exchange
        if self._chunk is None or self.team is None or exchange is None or not keys:
            return
        # Imported late: only in a team with types that models write.
        from indexer.engine.team.models import take_paid

        take_paid(exchange, self.frames.heads, self.team.records, keys)

    def _memo(self, key: MemoKey, batch: FrameBatch) -> tuple[int, BodyHash | None]:
        return batch.memo.get(key) or self.frames.heads.memo(key)

    # -- a chunk

    def _run_chunk(self, chunk: list[Step], files: int) -> int:
        """Make and store one group; returns how many files were in it."""
        batch = FrameBatch()
        self._begin_chunk()
        of_files = [step for step in chunk if step.entry.kind is Kind.FILE]
        made = self._make_files(of_files, files, batch)
        self._fetched = False
        told: dict[str, list[Event]] = {}
        # Alone all in turn; in a team what can be asked for together.
        for wave in waves(chunk) if self._chunk else [chunk]:
            shared = self._share_folders(wave, chunk, batch)
            for step in wave:
                if self._chunk and step.path in self._chunk.elsewhere:
                    continue
                if step.entry.kind is Kind.FILE:
                    told[step.path] = self._file_frame(step, made.get(step.path), batch)
                else:
                    told[step.path] = self._folder_frame(step, chunk, batch, shared)
        # In the order of the plan, whatever order they were made in.
        events = [event for step in chunk for event in told.get(step.path, ())]
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
        self.outcome.events += events
        return sum(step.entry.kind is Kind.FILE for step in chunk)

    def _take_back_proofs(self, batch: FrameBatch) -> None:
        """What rests on the heads that this batch moves has to be shown again."""
        others = others_than(self.frames.types, self.type.name)
        fallen = self.frames.heads.unproved(batch.heads, self.type.rules, others)
        for key, head in fallen.items():
            # A folder in this batch was made after its children, and knows.
            batch.heads.setdefault(key, head)

    # -- files

    def _make_files(
        self, steps: list[Step], expected: int, batch: FrameBatch
    ) -> dict[str, MadeBody]:
        """A body for every file: from the memo, or by the generator."""
        made: dict[str, MadeBody] = {}
        waiting: dict[MemoKey, list[Step]] = {}
        asked: list[tuple[MemoKey, Step]] = []
        sources: dict[str, BodyHash] = {}
        for step in steps:
            assert self.type.file is not None
            if self.type.input is None:
                key = file_key(self.type, step.path, step.entry.content_id)
            else:
                source = self._input_head(step)
                if source is None:
                    made[step.path] = MadeBody(
                        None, Action.GENERATED, "its input frame is not fresh"
                    )
                    continue
                sources[step.path] = source.content
                key = file_key(self.type, step.path, source.content)
            _, known = self.frames.heads.memo(key)
            if known is not None:
                made[step.path] = self._known_file(key, known)
            elif self.type.file.writer is not None:
                asked.append((key, step))
            else:
                # The same name and content twice in one pass is computed once.
                waiting.setdefault(key, []).append(step)

        self._take_paid([key for key, _ in asked])
        for key, step in asked:
            known = self.frames.heads.memo(key)[1]
            if known is not None:
                made[step.path] = self._known_file(key, known)
            else:
                made[step.path] = self._ask_for_file(key, step, sources.get(step.path))

        def compute(keys: Iterable[MemoKey]) -> None:
            chosen = {key: waiting[key] for key in keys}
            self._compute_files(chosen, sources, expected, batch, made)

        if self._chunk is None:
            compute(waiting)
            return made
        for key, content in self._chunk.get_or_compute(waiting, batch, compute).items():
            made.update((step.path, MadeBody(content, Action.REUSED)) for step in waiting[key])
        return made

    def _compute_files(
        self,
        waiting: dict[MemoKey, list[Step]],
        sources: Mapping[str, BodyHash],
        expected: int,
        batch: FrameBatch,
        made: dict[str, MadeBody],
    ) -> None:
        """Run the generator once per key, at another place where the first is gone."""
        while waiting:
            first = [where[0] for where in waiting.values()]
            outcomes = self._run_generator(first, sources, expected)
            again: dict[MemoKey, list[Step]] = {}
            for (key, where), outcome in zip(waiting.items(), outcomes, strict=True):
                if outcome.body is None and outcome.of_place and len(where) > 1:
                    # Gone or changed here, but another place has the same.
                    made[where[0].path] = _failed(outcome)
                    again[key] = where[1:]
                else:
                    self._take_outcome(key, where, outcome, batch, made)
            waiting = again

    def _known_file(self, key: MemoKey, content: BodyHash) -> MadeBody:
        assert self.type.file is not None
        if self.type.file.writer is None:
            return MadeBody(content, Action.REUSED)
        return MadeBody(
            content, self.answers.action(key), about=about_model(self.frames.heads, key)
        )

    def _ask_for_file(self, key: MemoKey, step: Step, source: BodyHash | None) -> MadeBody:
        entry = step.entry
        wanted = FileSource(step.path, entry.content_id, entry.size)
        self.answers.want(key, step, TextSource(step.path, source) if source else wanted)
        return MadeBody(None, Action.GENERATED, is_pending=True)

    def _run_generator(
        self, steps: list[Step], sources: Mapping[str, BodyHash], expected: int
    ) -> list[Generated]:
        pool = self._workers()
        assert pool is not None
        if self.type.input is None:
            tasks = [Task(step.path, step.entry.content_id, step.entry.size) for step in steps]
            made = pool.run(tasks, expected)
            return [self._checked(one, task) for one, task in zip(made, tasks, strict=True)]
        self._bodies.read(sources[step.path] for step in steps)
        texts = [(step.path, self.body_of(sources[step.path])) for step in steps]
        return [self._checked(pool.run_on(*one), one) for one in texts]

    def _checked(self, made: Generated, source: Task | tuple[str, str]) -> Generated:
        """What a generator made, once it has made the same in another process."""
        maker = self.type.file
        if maker is None or not maker.verify or made.body is None:
            return made
        assert not isinstance(maker.generator, ModelWriter)
        code = Code(maker.name, maker.options, maker.generator.fingerprint_parts())
        try:
            if isinstance(source, Task):
                content = read_exactly(self.frames.root, self.frames.algorithm, source)
            else:
                content = source[1].encode()
            name = paths.split(source[0])[1]
            self._second_run("file", code).check(made.body, FileInput(name, content))
        except (OSError, ChangedError):
            return Generated(None, of_place=True)
        except NonDeterministicError as error:
            return Generated(None, f"{type(error).__name__}: {error}")
        return made

    def _second_run(self, kind: str, code: Code) -> SecondRun:
        return self._second_runs.setdefault(kind, SecondRun(code))

    def _input_head(self, step: Step) -> Head | None:
        """The fresh frame that this type reads instead of the file."""
        assert self.type.input is not None
        return fresh_head(self.frames, step.path, step.entry, self.type.input)

    def _take_outcome(
        self,
        key: MemoKey,
        where: list[Step],
        outcome: Generated,
        batch: FrameBatch,
        made: dict[str, MadeBody],
    ) -> None:
        if outcome.body is None:
            made.update((step.path, _failed(outcome)) for step in where)
            return
        content = self._bodies.add(outcome.body, batch)
        batch.memo[key] = (self.frames.heads.memo(key)[0], content)
        for number, step in enumerate(where):
            action = Action.GENERATED if number == 0 else Action.REUSED
            made[step.path] = MadeBody(content, action)

    def _file_frame(self, step: Step, made: MadeBody | None, batch: FrameBatch) -> list[Event]:
        if made is not None and made.is_pending:
            return []
        if made is None or made.content is None:
            problem = (made.problem or "") if made else ""
            return [Event("failed", step.path, self.type.name, None, problem)]
        node_id = self.tree.node_id(step.path, step.entry)
        source = self._input_head(step) if self.type.input is not None else None
        read = source.frame_id if source else None
        basis = file_basis(self.frames.algorithm, self.type, step.path, step.entry, read)
        agent = self.type.rules.file_agent
        frame = MadeFrame(agent, basis, made.content, made.action, node_id, True, about=made.about)
        return place(self.frames, self.type, step, frame, batch, self.asked_by)

    # -- folders

    def _children(self, step: Step, batch: FrameBatch) -> Children:
        """What a folder's frame is made from, and whether every part of it is current."""
        rules, algorithm, current = self.type.rules, self.frames.algorithm, True
        frames: list[ChildFrame] = []
        bodies: list[ChildBody] = []
        for part in self._parts(step, batch):
            if part.own and not rules.is_current(part.head, part.entry):
                current = False
            frames.append(part.frame(algorithm))
            bodies.append(part.body)
        return frames, bodies, current

    def _parts(self, step: Step, batch: FrameBatch) -> Iterator[Part]:
        heads = self.frames.heads

        def head_at(path: str, frame_type: str, agent: str) -> Head | None:
            new = batch.heads.get((path, frame_type, agent))
            return new or heads.head(path, frame_type, agent)

        is_fresh = fresh_in(self.frames, self.tree)
        return parts_of(self.frames, self.type, step.path, step.entry, is_fresh, head_at)

    def _folder_frame(
        self, step: Step, chunk: list[Step], batch: FrameBatch, shared: FolderWave
    ) -> list[Event]:
        maker = self.type.folder
        assert maker is not None
        children = shared.children.get(step.path) or self._children(step, batch)
        frames, bodies, current = children
        if not current and (self.patient or maker.writer is not None):
            return []
        basis, key = folder_basis(self.type, step.path, frames), folder_key(self.type, bodies)
        action, problem, about = Action.REUSED, None, {}
        if maker.writer is not None:
            if self._memo(key, batch)[1] is None:
                self.answers.want(key, step, FolderSource(tuple(bodies)))
                return []
            action, about = self.answers.action(key), about_model(self.frames.heads, key)
        elif key in shared.computed:
            problem = shared.computed[key]
            action = Action.GENERATED if shared.first[key] == step.path else action
        elif self._memo(key, batch)[1] is None:
            action = Action.GENERATED
            problem = self._run_policy(key, step, bodies, chunk, batch)
        content = self._memo(key, batch)[1]
        if content is None:
            return [Event("failed", step.path, self.type.name, None, problem or "")]
        node_id = self.tree.node_id(step.path, step.entry)
        document = children_document(maker.print, frames)
        agent = self.type.rules.folder_agent
        frame = MadeFrame(agent, basis, content, action, node_id, current, document, about)
        return place(self.frames, self.type, step, frame, batch, self.asked_by)

    def _run_policy(
        self,
        key: MemoKey,
        step: Step,
        bodies: list[ChildBody],
        chunk: list[Step],
        batch: FrameBatch,
    ) -> str | None:
        """Compute a folder's body into the batch; why that failed, if it did."""
        maker = self.type.folder
        assert maker is not None
        assert not isinstance(maker.policy, ModelWriter)
        self._fetch_bodies(step, chunk, batch)
        inputs = self.inputs_of(bodies)
        try:
            made = maker.policy.synthesize(inputs)
            if maker.verify:
                parts = maker.policy.fingerprint_parts()
                tokenizer = self.frames.declared.tokens.tokenizer
                code = Code(maker.name, maker.options, parts, tokenizer)
                self._second_run("folder", code).check(made, inputs)
            content = self._bodies.add(made, batch)
        except OtherCodeError:
            raise
        except Exception as error:  # a custom policy may raise anything
            return f"{type(error).__name__}: {error}"
        batch.memo[key] = (self.frames.heads.memo(key)[0], content)
        return None

    def inputs_of(self, bodies: Iterable[ChildBody]) -> list[ChildInput]:
        """A folder's children as a policy sees them."""
        return self._bodies.inputs_of(bodies)

    def body_of(self, content: BodyHash) -> str:
        """A body that must be stored."""
        return self._bodies.of(content)

    def _fetch_bodies(self, step: Step, chunk: list[Step], batch: FrameBatch) -> None:
        """Read the bodies that a policy is about to see; in a long chunk those of all policies.

        After one edit the rest of the way up is mostly reused, and its bodies lie far apart.
        """
        if len(chunk) <= _SHORT_CHUNK:
            self._read_parts([step], batch)
        elif not self._fetched:
            self._fetched = True
            self._bodies.shrink(20 * CHUNK, batch)
            self._read_parts(chunk, batch)

    def _read_parts(self, steps: Iterable[Step], batch: FrameBatch) -> None:
        """Read in one go what some folders' frames are made from."""
        wanted: set[BodyHash] = set()
        for step in steps:
            if step.entry.folder is not None:
                parts = self._parts(step, batch)
                wanted.update(part.head.content for part in parts if part.head is not None)
        self._bodies.read(wanted)


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


def _failed(outcome: Generated) -> MadeBody:
    return MadeBody(None, Action.GENERATED, outcome.problem or "changed meanwhile")
