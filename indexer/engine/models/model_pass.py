"""Keeping a type that models write: frames from known answers, questions for the rest.

The pass never waits. Each step takes in what has come, makes the frames that it allows (a file's,
then the folders above it whose children are all current) as every other pass does, and asks for
what that left over, as much as there is room.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from indexer.core import paths
from indexer.core.frames import FrameId, MemoKey
from indexer.core.kinds import Kind
from indexer.core.progress import Progress, begin
from indexer.core.tree import Tree
from indexer.engine.make.events import Event
from indexer.engine.make.item import FolderSource, Item, TextSource
from indexer.engine.make.one_pass import CHUNK, OnePass
from indexer.engine.make.workers import read_exactly
from indexer.engine.models.backoff import Backoff
from indexer.engine.models.calls import Answered, ModelCalls, Prepare
from indexer.engine.models.intake import Intake
from indexer.generators.base import FileInput
from indexer.generators.llm.writer import ModelWriter
from indexer.regenerate.plan import Step, chunks

Rank = tuple[int, bool, int, str]
"""Stalest first (by the number under which its present frame was stored; none yet: 0), files
before folders, smallest first; the path decides ties."""

_LOOK_AGAIN: Final = 0.5
"""Seconds before looking whether another run has the answer that both want."""


@dataclass(slots=True)
class _Want:
    """A question, and the nodes that need its answer."""

    first: Item
    """The one that decides when it is asked."""
    steps: dict[str, Step] = field(default_factory=dict)


class ModelPass:
    """One type in one part of the workspace, a step at a time, on the writing thread."""

    def __init__(
        self,
        one: OnePass,
        calls: ModelCalls,
        intake: Intake,
        tree_now: Callable[[], Tree],
        *,
        within: str = paths.ROOT,
        recursive: bool = True,
        progress: Progress | None = None,
        most_wanted: int | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        one.patient = True
        self._pass, self._team, self._heads = one, one.team, one.frames.heads
        self.type, self.outcome = one.type, one.outcome
        self._calls, self._intake, self._tree_now = calls, intake, tree_now
        self._within, self._recursive = within, recursive
        self._progress = progress
        self._most_wanted = most_wanted
        """Ask nothing at all when more than this would be needed."""
        self._backoff = backoff
        """Questions that failed before; None where somebody asks for them now."""
        self._tree: Tree | None = None
        self._steps: dict[str, Step] = {}
        self._open: dict[str, set[str]] = {}
        """Per folder, the children whose frames it waits for."""
        self._chunks: deque[list[Step]] = deque()
        self._files = 0
        self._wanted: dict[MemoKey, _Want] = {}
        self._queue: list[tuple[Rank, MemoKey]] = []
        self._unranked: list[MemoKey] = []
        self._failed: set[MemoKey] = set()
        self._elsewhere = False
        """Whether another run asks for something that is wanted here."""
        self._is_shared = False
        self._is_rest_made = False
        self.is_waiting = False
        """Whether the next step can do nothing before an answer has come."""
        self.too_many = 0
        """How many calls would be needed, where that is more than may be made unasked."""

    # -- the steps

    @property
    def waiting(self) -> int:
        """Nodes that still have no current frame and did not fail."""
        failed = {
            event.path
            for event in self.outcome.events
            if event.action == "failed" and event.type == self.type.name
        }
        stale = self._pass.still_stale(self._steps.values())
        return sum(step.path not in failed for step in stale)

    def step(self) -> bool:
        """Go on as far as is possible without waiting; True when there is nothing left to do."""
        self.is_waiting = False
        self._is_shared = self._team.begin()
        self._take_in(self._intake.take_in(self._calls))
        if self._tree_now() is not self._tree:
            self._plan()
        if self._chunks:
            self._run(self._chunks.popleft())
        if not self._chunks:
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
        return self._is_shared and self._elsewhere and not self._calls.under_way

    def wait_for_team(self, seconds: float) -> None:
        """Wait a moment for another machine."""
        self._team.wait(seconds)

    def close(self) -> None:
        """End the worker processes; answers under way are the caller's."""
        self._team.let_go_of_idle(self._calls)
        self._pass.close()

    def _plan(self) -> None:
        """Look at everything that is stale in the tree as it is now."""
        self._tree = self._pass.tree = self._tree_now()
        self._wanted, self._queue, self._unranked = {}, [], []
        stale = self._pass.stale(self._within, recursive=self._recursive)
        self._steps = {step.path: step for step in stale}
        begin(self._progress, f"asking a model ({self.type.name})", "frames", len(self._steps))
        self._open = {}
        for path in self._steps:
            if path:
                self._open.setdefault(paths.split(path)[0], set()).add(path)
        self._files = sum(step.entry.kind is Kind.FILE for step in self._steps.values())
        self._chunks = deque(chunks(iter(self._steps.values()), CHUNK))
        self._is_rest_made = False

    def _run(self, chunk: list[Step]) -> None:
        """Make what can be made of a chunk, and put up the folders that are ready after it."""
        for item in self._pass.run_steps(chunk, self._files):
            self._want(item)
        left = {step.path for step in self._pass.still_stale(chunk)}
        ready: dict[str, Step] = {}
        for path, _ in chunk:
            parent = paths.split(path)[0]
            siblings = self._open.get(parent)
            if not path or path in left or siblings is None:
                continue
            siblings.discard(path)
            above = self._steps.get(parent)
            if not siblings and above is not None:
                ready[parent] = above
        if ready:
            later = {path for chunk in self._chunks for path, _ in chunk}
            stale = self._pass.still_stale(ready.values())
            due = [step for step in stale if step.path not in later]
            if due:
                self._chunks.appendleft(due)
        done = len(chunk) - len(left)
        if self._progress is not None and done:
            self._progress(done)

    def _take_in(self, answers: list[Answered]) -> None:
        """Make the frames that answers allow."""
        steps: dict[str, Step] = {}
        for one in answers:
            want = self._wanted.get(one.key)
            if one.body is not None:
                if one.meta is not None or want is not None:
                    self._pass.new.add(one.key)
                if self._backoff is not None:
                    self._backoff.worked((one.key, one.generation))
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
        if self._backoff is not None:
            self._backoff.failed((one.key, one.generation))
        problem = one.problem or "no answer"
        for path in want.steps if want else ():
            self.outcome.events.append(Event("failed", path, self.type.name, None, problem))

    # -- the questions

    def _want(self, item: Item) -> None:
        """There is no answer for this yet."""
        key = item.key
        if key in self._failed or self._rests(key):
            return
        known = self._wanted.get(key)
        if known is None:
            known = self._wanted[key] = _Want(item)
            self._unranked.append(key)
        known.steps[item.step.path] = item.step

    def _rests(self, key: MemoKey) -> bool:
        """Whether this failed a while ago; another generation of it is another question."""
        if self._backoff is None:
            return False
        return self._backoff.rests((key, self._heads.memo(key)[0]))

    def _rank_new(self) -> None:
        """Put what is newly wanted in its place, all with one question to the store."""
        rules = self.type.rules
        head_of = self._heads.heads_of(rules.type)
        wanted = {key: self._wanted[key].first for key in self._unranked if key in self._wanted}
        heads: dict[MemoKey, FrameId] = {}
        for key, item in wanted.items():
            head = head_of(item.step.path, rules.agent_for(item.step.entry))
            if head is not None:
                heads[key] = head.frame_id
        since = self._heads.store.made_at(heads.values())
        for key, item in wanted.items():
            path, entry = item.step
            size = entry.size if entry.folder is None else len(entry.folder.entries)
            number = since.get(heads[key], 0) if key in heads else 0
            heapq.heappush(self._queue, ((number, entry.folder is not None, size, path), key))
        self._unranked = []

    def _ask(self) -> None:
        """Begin calls, the first in rank first, while there is room."""
        had = self._team.look_again(self._wanted)
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
            generation, content = self._heads.memo(key)
            if content is not None:
                # Another run has got it meanwhile.
                known.update(self._wanted.pop(key).steps)
            elif (
                self._calls.is_claimed(key)
                or (ours := self._team.is_ours(key, self._calls)) is False
            ):
                self._elsewhere = True
                again.append((rank, key))
            elif ours is None:
                known.update(self._wanted.pop(key).steps)
            else:
                writer, prepare = self._prepared(want.first)
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

    def _prepared(self, item: Item) -> tuple[ModelWriter, Prepare]:
        """Who makes the request, and how; bodies are read here, files on the calling thread."""
        made = self.type.folder if item.step.entry.folder is not None else self.type.file
        assert made is not None
        assert made.writer is not None
        writer, source = made.writer, item.source
        if isinstance(source, FolderSource):
            children = self._pass.bodies.inputs_of(source.bodies)
            return writer, lambda: writer.of_folder(children)
        name = paths.split(source.path)[1]
        if isinstance(source, TextSource):
            text = self._pass.bodies.of(source.content).encode()
            return writer, lambda: writer.of_file(FileInput(name, text))
        frames = self._pass.frames
        root, algorithm, file = frames.root, frames.algorithm, source
        return writer, lambda: writer.of_file(FileInput(name, read_exactly(root, algorithm, file)))

    def _make_the_rest(self) -> None:
        """Folders that no model writes are made from what there is, as in any other type."""
        made = self.type.folder
        if not self._is_rest_made and made is not None and made.writer is None:
            self._is_rest_made = True
            folders = [step for step in self._steps.values() if step.entry.folder is not None]
            self._pass.patient = not self._recursive
            for chunk in chunks(iter(self._pass.still_stale(folders)), CHUNK):
                self._pass.run_steps(chunk)
            self._pass.patient = True
