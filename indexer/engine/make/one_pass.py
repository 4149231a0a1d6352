"""Making what is stale again: leaves first, from the memo where it can, in small transactions.

One line: the steps of a chunk, what each frame is made from, its result, its place in a batch. A
result is looked up here and then in the team; what neither has is computed, or left for a model.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from indexer.core import paths
from indexer.core.frames import Action, BodyHash, MemoKey
from indexer.core.kinds import Kind
from indexer.core.progress import Progress, begin
from indexer.core.tree import Tree
from indexer.engine.frames.heads import PLACES_AT_ONCE, HeadCache
from indexer.engine.frames.proofs import unproved
from indexer.engine.frames.recipe import file_key
from indexer.engine.frames.types import FrameType, others_than
from indexer.engine.make.bodies import Bodies
from indexer.engine.make.compute import Computing
from indexer.engine.make.events import Event, Outcome
from indexer.engine.make.item import Item, Result, items_of, place
from indexer.engine.make.pace import Pace
from indexer.engine.make.workers import FileSource
from indexer.engine.team.memo import TeamMemo
from indexer.regenerate.plan import Step, stale_steps, waves
from indexer.store.frames import FrameBatch

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames
    from indexer.engine.workspace import Engine

CHUNK: Final = 1000
"""Frames stored together: what a kill in between can cost."""

TEAM_CHUNK: Final = 4000
"""Frames stored together in a team, where each chunk takes a conversation per level of its folders;
what is computed here is stored in smaller portions before."""

AHEAD: Final = 256
"""Steps, at least, of which the files are being read while those before them are stored."""

_PLANNED: Final = 5000
"""Frames that are planned at a time."""


@dataclass(slots=True, eq=False, repr=False)
class OnePass:
    """Passes over one declared type, a stored chunk at a time."""

    frames: Frames
    tree: Tree
    type: FrameType
    outcome: Outcome
    team: TeamMemo
    bodies: Bodies
    progress: Progress | None = None
    asked_by: str | None = None
    """Who asked for it: kept beside the frames, no part of their ids."""
    patient: bool = False
    """Whether folders wait until everything below them is current."""
    pace: Pace | None = None
    """How long a piece may take; None where nobody waits for this thread."""
    new: set[MemoKey] = field(default_factory=set)
    """Results of this pass, answers of models among them, that no frame holds yet."""
    _computing: Computing = field(init=False)
    _walk: Iterator[Step] | None = None
    """The look for what is stale that `run_some` goes on with."""
    _next: deque[Step] = field(default_factory=deque)
    """What comes after the chunk in hand."""
    _walked_files: int = 0
    _stuck: set[tuple[str, bytes]] = field(default_factory=set)
    """What could not be made current with the content it has: not tried again in this pass."""

    def __post_init__(self) -> None:
        self._computing = Computing(self.frames, self.type, self.bodies)

    # -- the steps

    def pieces(self, within: str = paths.ROOT, *, recursive: bool = True) -> Generator[None]:
        """Make everything that is stale in the scope, a piece before each value that comes.

        In between the tree may move on, which whoever asks for the next piece puts in.
        """
        planned, steps = self.tree, list[Step]()
        begin(self.progress, f"looking for stale frames ({self.type.name})", "frames")
        self.team.begin()
        try:
            for step in self.stale(within, recursive=recursive):
                steps.append(step)
                if len(steps) % _PLANNED == 0:
                    yield
            begin(self.progress, f"making frames ({self.type.name})", "frames", len(steps))
            files = sum(step.entry.kind is Kind.FILE for step in steps)
            at = 0
            while at < len(steps):
                with self._piece() as size:
                    chunk = steps[at : at + size]
                    at += len(chunk)
                    self._next = deque(steps[at : at + max(size, AHEAD)])
                    self.run_steps(chunk if self.tree is planned else self._as_now(chunk), files)
                    files -= sum(step.entry.kind is Kind.FILE for step in chunk)
                if self.progress is not None:
                    self.progress(len(chunk) - self.team.told_of)
                yield
            self.team.give_what_is_due()
        finally:
            self.close()

    def _piece(self) -> AbstractContextManager[int]:
        if self.team.begin():
            return nullcontext(TEAM_CHUNK)
        return self.pace.piece() if self.pace is not None else nullcontext(CHUNK)

    def _as_now(self, chunk: Iterable[Step]) -> list[Step]:
        """What a plan for an earlier tree still asks for, with what is there now."""
        found = ((path, self.tree.get(path)) for path, _ in chunk)
        return self.still_stale(
            Step(path, entry)
            for path, entry in found
            if entry is not None and self.type.rules.wants(entry)
        )

    def run_some(self, tree: Tree, limit: int | None = None) -> bool:
        """Make the next stale frames of a tree; True when something was made or tried."""
        with nullcontext(limit) if limit is not None else self._piece() as size:
            chunk = self._chunk_of(tree, size)
            if not chunk and self._walk is not None:
                # What was passed by may have become stale since.
                self._walk = None
                chunk = self._chunk_of(tree, size)
            files = sum(step.entry.kind is Kind.FILE for step in chunk)
            self._walked_files += files
            # Full chunks of files mean that there is more to come, and workers are worth it.
            self.run_steps(chunk, files if len(chunk) < size else size + self._walked_files)
        tried = (step for step in chunk if step.path not in self.team.elsewhere)
        self._stuck |= {(path, entry.content_id) for path, entry in self.still_stale(tried)}
        return bool(chunk)

    def _chunk_of(self, tree: Tree, size: int) -> list[Step]:
        """The next stale frames of a tree; those after them are looked for as well."""
        walk = self._from_walk(tree)
        self._next.extend(islice(walk, max(0, size + max(size, AHEAD) - len(self._next))))
        return [self._next.popleft() for _ in range(min(size, len(self._next)))]

    def _from_walk(self, tree: Tree) -> Iterator[Step]:
        """What is stale, from where the last look at the same tree ended.

        Without folders' frames each look begins anew: what is known to be current below a folder
        is passed by at once.
        """
        if tree is not self.tree or not self.type.rules.has_folder_frames:
            self._walk = None
        self.tree = tree
        if self._walk is None:
            stuck = self._stuck
            self._walk = (
                step for step in self.stale() if (step.path, step.entry.content_id) not in stuck
            )
            self._walked_files = 0
            self._next.clear()
        return self._walk

    def stale(self, within: str = paths.ROOT, *, recursive: bool = True) -> Iterator[Step]:
        """Everything of this type that is missing or not current, children before parents."""
        heads, rules = self.frames.heads, self.type.rules
        return stale_steps(
            self.tree, rules, heads.heads_of(rules.type, few=rules.has_folder_frames), within,
            recursive=recursive, current_below=heads.current_below(rules), entering=heads.load_few,
        )  # fmt: skip

    def still_stale(self, steps: Iterable[Step]) -> list[Step]:
        """Which of some steps have no current frame now."""
        rules = self.type.rules
        head_of = self.frames.heads.heads_of(rules.type)
        return [step for step in steps if not rules.is_made(head_of, step.path, step.entry)]

    # -- a chunk: its items, then a result for each, then their places in one batch

    def run_steps(self, chunk: list[Step], files: int = 0) -> list[Item]:
        """Make and store exactly these, children before parents, where their inputs are there.

        `files` tells how many are still to come in all. Returns those that only a model can write.
        """
        batch, told, unanswered = FrameBatch(), dict[str, list[Event]](), list[Item]()
        self.team.begin()
        self.bodies.shrink(20 * CHUNK, batch)
        for wave in waves(chunk):
            items, failed = items_of(
                self.frames, self.tree, self.type, self._not_elsewhere(wave), batch.heads,
                patient=self.patient,
            )  # fmt: skip
            told |= {event.path: [event] for event in failed}
            for item, result in self._results(items, files, batch):
                if result is None:
                    unanswered.append(item)
                else:
                    told[item.step.path] = place(
                        self.frames, self.tree, self.type, item, result, batch, self.asked_by
                    )
        self._store(batch)
        self.team.give_what_is_due()
        # In the order of the plan, whatever order they were made in.
        self.outcome.events += [event for step in chunk for event in told.get(step.path, ())]
        return unanswered

    def _not_elsewhere(self, wave: list[Step]) -> list[Step]:
        """A wave without the folders below which another machine is computing something."""
        if not self.team.elsewhere:
            return wave
        return [
            step
            for step in wave
            if step.entry.folder is None or not self.team.waits_below(step.path)
        ]

    def _results(
        self, items: list[Item], files: int, batch: FrameBatch
    ) -> Iterator[tuple[Item, Result | None]]:
        """A result per item, in order, None where only a model can write it.

        What another machine is computing still is left out.
        """
        if not items:
            return
        maker = self.type.folder if items[0].step.entry.folder else self.type.file
        written = maker is not None and maker.writer is not None
        missing: dict[MemoKey, list[Item]] = {}
        for item in items:
            # The same name and content twice in one pass is computed once.
            if self._memo(item.key, batch) is None:
                missing.setdefault(item.key, []).append(item)
        for key in self.team.look_up(missing, None if written else batch):
            del missing[key]
        failures: dict[str, str] = {}
        if not written:

            def compute(keys: Iterable[MemoKey]) -> None:
                chosen = {key: missing[key] for key in keys}
                failures.update(self._compute(chosen, files, batch))

            self.team.compute(missing, batch, compute)
            if items[0].step.entry.kind is Kind.FILE:
                self._compute_ahead(batch)
        for item in items:
            path, content = item.step.path, self._memo(item.key, batch)
            if path in failures:
                yield item, Result(None, problem=failures[path])
            elif content is not None:
                about = self._about_model(item.key) if written else {}
                yield item, Result(content, self._action(item.key), about=about)
            elif written:
                yield item, None
            elif path not in self.team.elsewhere:
                yield item, Result(None)

    def _compute_ahead(self, batch: FrameBatch) -> None:
        """Begin with what comes next, unless somebody in the team may have it."""
        if self.team.is_asked or not self._computing.wants_more(len(self._next)):
            return
        lacking: dict[MemoKey, FileSource] = {}
        for path, entry in self._next:
            if entry.kind is Kind.FILE:
                key = file_key(self.type, path, entry.content_id)
                if self._memo(key, batch) is None:
                    lacking.setdefault(key, FileSource(path, entry.content_id, entry.size))
        self._computing.run_ahead(lacking.values())

    def _memo(self, key: MemoKey, batch: FrameBatch) -> BodyHash | None:
        return (batch.memo.get(key) or self.frames.heads.memo(key))[1]

    def _action(self, key: MemoKey) -> Action:
        """Generated for the first frame that holds a new result, reused for every other one."""
        if key not in self.new:
            return Action.REUSED
        self.new.discard(key)
        return Action.GENERATED

    def _about_model(self, key: MemoKey) -> dict[str, Any]:
        """What is kept beside a frame whose content a model wrote."""
        written = self.frames.heads.model(key)
        return {} if written is None else {"model": json.loads(written.meta)}

    def _compute(
        self, missing: dict[MemoKey, list[Item]], files: int, batch: FrameBatch
    ) -> dict[str, str]:
        """Run the generator or policy once per key, into the batch; where and why that failed."""
        failures: dict[str, str] = {}
        while missing:
            again: dict[MemoKey, list[Item]] = {}
            made = self._computing.run([group[0].source for group in missing.values()], files)
            for (key, group), outcome in zip(missing.items(), made, strict=True):
                batch.code.update(outcome.facts)
                if outcome.body is not None:
                    content = self.bodies.add(outcome.body, batch)
                    batch.memo[key] = (self.frames.heads.memo(key)[0], content)
                    self.new.add(key)
                    continue
                # Gone or changed at one place, the same may be had at another.
                retry = outcome.of_place and len(group) > 1
                failed = group[:1] if retry else group
                failures.update(
                    (i.step.path, outcome.problem or "changed meanwhile") for i in failed
                )
                if retry:
                    again[key] = group[1:]
            missing = again
        return failures

    def _store(self, batch: FrameBatch) -> None:
        """Store a batch; what rests on the heads that it moves has to be shown again."""
        heads = self.frames.heads
        others = others_than(self.frames.types, self.type.name)
        for key, head in unproved(heads, batch.heads, self.type.rules, others).items():
            # A folder in this batch was made after its children, and knows.
            batch.heads.setdefault(key, head)
        try:
            if batch:
                heads.add(batch)
        except BaseException:
            # They may name lists that are not stored now.
            self.frames.input_chains.forget()
            raise

    def close(self) -> None:
        """End the worker processes, if there are any."""
        self._computing.close()


def one_pass(
    engine: Engine,
    declared: FrameType,
    outcome: Outcome,
    *,
    progress: Progress | None = None,
    asked_by: str | None = None,
    patient: bool = False,
    patience: float | None = None,
) -> OnePass:
    """A pass over a type of an open workspace, as its tree is now."""
    if engine.as_scanned:
        _load_heads(engine.frames.heads, engine.tree, engine.recorded.changed)
    bodies = Bodies(engine.frames.heads)
    team = TeamMemo(
        lambda: engine.exchange, engine.frames.heads, engine.records, bodies.texts,
        share=declared.share, patience=patience, progress=progress,
    )  # fmt: skip
    return OnePass(
        engine.frames, engine.tree, declared, outcome, team, bodies, progress, asked_by, patient,
        pace=Pace(engine.clock.monotonic, CHUNK) if engine.in_turns else None,
    )  # fmt: skip


def _load_heads(heads: HeadCache, tree: Tree, changed: Iterable[str]) -> None:
    """Read at once the heads that a look for what is stale asks for, from the root to a change."""
    folders = dict.fromkeys(folder for path in changed for folder in paths.ancestors(path))
    wanted = list(folders)
    for path in folders:
        entry = tree.get(path)
        if entry is not None and entry.folder is not None:
            wanted += (paths.join(path, name) for name in entry.folder.entries)
    if len(wanted) <= PLACES_AT_ONCE:
        heads.load_heads(wanted)
