"""Keeping a type that models write: frames from known answers, questions for the rest.

The pass never waits. Each step takes in what has come, makes the frames that it allows (a file's,
then the folders above it whose children are all current), and asks for as much as there is room.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from indexer.core import paths
from indexer.core.frames import Action, FrameId, MemoKey
from indexer.core.kinds import Kind
from indexer.core.tree import Tree
from indexer.engine.frames.types import FrameType
from indexer.engine.make.events import Event, Outcome
from indexer.engine.make.item import Source, TextSource
from indexer.engine.make.one_pass import CHUNK, one_pass
from indexer.engine.make.workers import FileSource, read_exactly
from indexer.engine.models.calls import Answered, ModelCalls, Prepare
from indexer.engine.models.intake import take_in, take_in_left
from indexer.engine.team.models import ModelTeam
from indexer.generators.base import FileInput
from indexer.generators.llm.writer import ModelWriter
from indexer.regenerate.plan import Step, chunks, stale_steps

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine

Rank = tuple[int, bool, int, str]
"""Stalest first (by the number under which its present frame was stored; none yet: 0), files
before folders, smallest first; the path settles ties."""

_LOOK_AGAIN: Final = 0.5
"""Seconds before looking whether another run has the answer that both want."""


@dataclass(slots=True)
class _Want:
    """A question, and the nodes that need its answer."""

    source: Source
    first: Step
    """The node that decides when it is asked."""
    steps: dict[str, Step] = field(default_factory=dict)

    @property
    def is_folder(self) -> bool:
        """Whether it is about a folder."""
        return self.first.entry.folder is not None


class ModelPass:
    """One type in one part of the workspace, a step at a time, on the writing thread."""

    def __init__(
        self,
        engine: Engine,
        declared: FrameType,
        outcome: Outcome,
        calls: ModelCalls,
        *,
        within: str = paths.ROOT,
        recursive: bool = True,
        progress: Callable[[int], None] | None = None,
        asked_by: str | None = None,
        most_wanted: int | None = None,
    ) -> None:
        self._engine = engine
        self.type = declared
        self.outcome = outcome
        self._calls = calls
        self._within, self._recursive = within, recursive
        self._progress = progress
        self._most_wanted = most_wanted
        """Ask nothing at all when more than this would be needed."""
        self._tree: Tree | None = None
        self._pass = one_pass(
            engine, declared, outcome, asked_by=asked_by, answers=self, patient=True
        )
        self._team = ModelTeam(engine, calls, share=declared.share)
        self._steps: dict[str, Step] = {}
        self._open: dict[str, set[str]] = {}
        """Per folder, the children whose frames it waits for."""
        self._chunks: deque[list[Step]] = deque()
        self._files = 0
        self._wanted: dict[MemoKey, _Want] = {}
        self._queue: list[tuple[Rank, MemoKey]] = []
        self._unranked: list[MemoKey] = []
        self._new: set[MemoKey] = set()
        """Answers of this pass that no frame holds yet."""
        self._failed: set[MemoKey] = set()
        self._elsewhere = False
        """Whether another run asks for something that is wanted here."""
        self._left: list[Step] | None = None
        self.is_waiting = False
        """Whether the next step can do nothing before an answer has come."""
        self.too_many = 0
        """How many calls would be needed, where that is more than may be made unasked."""

    # -- what the regeneration asks

    def want(self, key: MemoKey, step: Step, source: Source) -> None:
        """There is no answer for this key yet."""
        if key in self._failed:
            return
        known = self._wanted.get(key)
        if known is None:
            known = self._wanted[key] = _Want(source, step)
            self._unranked.append(key)
        known.steps[step.path] = step

    def action(self, key: MemoKey) -> Action:
        """Generated for the first frame that holds a new answer, reused for every other one."""
        if key in self._new:
            self._new.discard(key)
            return Action.GENERATED
        return Action.REUSED

    def _rank_new(self) -> None:
        """Put what is newly wanted in its place, all with one question to the store."""
        rules, cache = self.type.rules, self._engine.frames.heads
        heads: dict[MemoKey, FrameId] = {}
        for key in self._unranked:
            if key in self._wanted:
                step = self._wanted[key].first
                head = cache.head(step.path, rules.type, rules.agent_for(step.entry))
                if head is not None:
                    heads[key] = head.frame_id
        since = self._engine.frames.store.made_at(heads.values())
        for key in self._unranked:
            want = self._wanted.get(key)
            if want is not None:
                folder, entry = want.first.entry.folder, want.first.entry
                size = entry.size if folder is None else len(folder.entries)
                number = since.get(heads[key], 0) if key in heads else 0
                rank = (number, folder is not None, size, want.first.path)
                heapq.heappush(self._queue, (rank, key))
        self._unranked = []

    # -- the steps

    @property
    def waiting(self) -> int:
        """Nodes that still have no current frame and did not fail."""
        rules, failed = self.type.rules, {path for path, _ in self._failures()}
        head_of = self._engine.frames.heads.heads_of(rules.type)
        return sum(
            path not in failed
            and not rules.is_current(head_of(path, rules.agent_for(step.entry)), step.entry)
            for path, step in self._steps.items()
        )

    def _failures(self) -> list[tuple[str, str]]:
        return [
            (event.path, event.because)
            for event in self.outcome.events
            if event.action == "failed" and event.type == self.type.name
        ]

    def step(self) -> bool:
        """Go on as far as is possible without waiting; True when there is nothing left to do."""
        self.is_waiting = False
        # What the database missed is known all the same, and must not be asked for again.
        self._engine.records.catch_up()
        take_in_left(self._engine)
        self._take_in(take_in(self._engine, self._calls))
        if self._engine.tree is not self._tree:
            self._plan()
        if self._chunks:
            self._run(self._chunks.popleft())
            return False
        self._ask()
        if self._chunks:
            return False
        if self._calls.under_way or (self._elsewhere and self._calls.stopped is None):
            self.is_waiting = True
            return False
        self._make_the_rest()
        return True

    def wait(self) -> None:
        """Wait for an answer, of a model or of whoever else asks for the same."""
        self._calls.wait(_LOOK_AGAIN if self._elsewhere else None)

    @property
    def waits_for_team(self) -> bool:
        """Whether another machine or run has to answer, and no call of this one is under way."""
        return self._team.is_on and self._elsewhere and not self._calls.under_way

    def wait_for_team(self, seconds: float) -> None:
        """Wait a moment for another machine."""
        self._team.wait(seconds)

    def close(self) -> None:
        """End the worker processes; answers under way are the caller's."""
        self._team.close()
        self._pass.close()

    def _plan(self) -> None:
        """Look at everything that is stale in the tree as it is now."""
        engine, rules = self._engine, self.type.rules
        self._tree = self._pass.tree = engine.tree
        self._wanted, self._queue, self._unranked = {}, [], []
        heads = engine.frames.heads
        head_of, current = heads.heads_of(rules.type), heads.current_below(rules)
        stale = stale_steps(
            self._tree, rules, head_of, self._within, recursive=self._recursive, settled=current
        )
        self._steps = {step.path: step for step in stale}
        self._open = {}
        for path in self._steps:
            if path:
                self._open.setdefault(paths.split(path)[0], set()).add(path)
        self._files = sum(step.entry.kind is Kind.FILE for step in self._steps.values())
        self._chunks = deque(chunks(iter(self._steps.values()), CHUNK))
        self._left = None

    def _run(self, chunk: list[Step]) -> None:
        """Make what can be made of a chunk, and put up the folders that are ready after it."""
        self._pass.run_steps(chunk, self._files)
        rules = self.type.rules
        head_of = self._engine.frames.heads.heads_of(rules.type)
        ready: dict[str, Step] = {}
        done = 0
        for step in chunk:
            if not rules.is_current(head_of(step.path, rules.agent_for(step.entry)), step.entry):
                continue
            done += 1
            parent = paths.split(step.path)[0]
            siblings = self._open.get(parent)
            if not step.path or siblings is None:
                continue
            siblings.discard(step.path)
            above = self._steps.get(parent)
            if not siblings and above is not None:
                ready[parent] = above
        if ready:
            later = {path for chunk in self._chunks for path, _ in chunk}
            due = [step for step in self._still_stale(ready.values()) if step.path not in later]
            if due:
                self._chunks.appendleft(due)
        if self._progress is not None and done:
            self._progress(done)

    def _take_in(self, answers: list[Answered]) -> None:
        """Make the frames that answers allow."""
        steps: dict[str, Step] = {}
        for one in answers:
            want = self._wanted.get(one.key)
            if one.body is not None:
                if one.meta is not None or want is not None:
                    self._new.add(one.key)
                if want is not None:
                    del self._wanted[one.key]
                    steps.update(want.steps)
            elif one.problem is not None:
                self._fail(one, self._wanted.pop(one.key, None))
            elif want is not None:
                # A cap did not allow it: still wanted, by the next run.
                self._unranked.append(one.key)
        if steps:
            self._chunks.appendleft(list(self._with_folders(steps).values()))

    def _with_folders(self, steps: dict[str, Step]) -> dict[str, Step]:
        """Steps with the folders above that wait for nothing else, so that one store does."""
        found, added = dict(steps), list(steps)
        while added:
            parents = {paths.split(path)[0] for path in added if path}
            added = []
            for parent in sorted(parents, key=lambda path: (-path.count("/"), path)):
                above = self._steps.get(parent)
                if above is None or parent in found:
                    continue
                if self._open.get(parent, set()) <= found.keys():
                    found[parent] = above
                    added.append(parent)
        return found

    def _fail(self, one: Answered, want: _Want | None) -> None:
        self._failed.add(one.key)
        problem = one.problem or "no answer"
        for path in want.steps if want else ():
            self.outcome.events.append(Event("failed", path, self.type.name, None, problem))

    def _ask(self) -> None:
        """Begin calls, the first in rank first, while there is room."""
        had = self._team.fetch(self._wanted)
        known = {path: step for key in had for path, step in self._wanted.pop(key).steps.items()}
        if known:
            self._chunks.append(list(self._with_folders(known).values()))
            return
        if self._most_wanted is not None:
            needed = self._needed()
            self.too_many = needed if needed > self._most_wanted else 0
            if self.too_many:
                return
        self._rank_new()
        again: list[tuple[Rank, MemoKey]] = []
        self._elsewhere = False
        while self._queue and self._calls.has_room:
            rank, key = heapq.heappop(self._queue)
            want = self._wanted.get(key)
            if want is None or self._calls.is_asked(key):
                continue
            generation, content = self._engine.frames.heads.memo(key)
            if content is not None:
                # Another run has got it meanwhile.
                known.update(self._wanted.pop(key).steps)
            elif self._calls.is_claimed(key) or (ours := self._team.is_ours(key)) is False:
                self._elsewhere = True
                again.append((rank, key))
            elif ours is None:
                known.update(self._wanted.pop(key).steps)
            else:
                writer = self._writer(want)
                prepare = self._prepare(want, writer)
                self._calls.ask(key, generation, writer, prepare, due=self._team.gets_answers)
        for item in again:
            heapq.heappush(self._queue, item)
        if known:
            self._chunks.append(list(self._with_folders(known).values()))

    def _needed(self) -> int:
        """Calls that this pass may need: questions, and folders that will ask one."""
        folders = 0
        if self.type.folder is not None and self.type.folder.writer is not None:
            asked = {path for want in self._wanted.values() for path in want.steps}
            folders = sum(
                step.entry.folder is not None and path not in asked and bool(self._open.get(path))
                for path, step in self._steps.items()
            )
        return len(self._wanted) + folders

    def _writer(self, want: _Want) -> ModelWriter:
        made = self.type.folder if want.is_folder else self.type.file
        assert made is not None
        assert made.writer is not None
        return made.writer

    def _prepare(self, want: _Want, writer: ModelWriter) -> Prepare:
        """What makes the request; bodies are read here, files on the calling thread."""
        source = want.source
        if isinstance(source, FileSource):
            root, algorithm, file = self._engine.root, self._engine.algorithm, source
            return lambda: writer.of_file(
                FileInput(paths.split(file.path)[1], read_exactly(root, algorithm, file))
            )
        if isinstance(source, TextSource):
            text = self._pass.body_of(source.content).encode()
            return lambda: writer.of_file(FileInput(paths.split(source.path)[1], text))
        children = self._pass.inputs_of(source.bodies)
        return lambda: writer.of_folder(children)

    def _make_the_rest(self) -> None:
        """Folders that no model writes are made from what there is, as in any other type."""
        made = self.type.folder
        if self._left is None and made is not None and made.writer is None:
            self._left = [step for step in self._steps.values() if step.entry.folder is not None]
            self._pass.patient = not self._recursive
            for chunk in chunks(iter(self._still_stale(self._left)), CHUNK):
                self._pass.run_steps(chunk)
            self._pass.patient = True

    def _still_stale(self, steps: Iterable[Step]) -> list[Step]:
        rules = self.type.rules
        head_of = self._engine.frames.heads.heads_of(rules.type)
        return [
            step
            for step in steps
            if not rules.is_current(head_of(step.path, rules.agent_for(step.entry)), step.entry)
        ]
