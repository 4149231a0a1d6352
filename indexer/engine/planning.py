"""What a regeneration would do and cost, before anything is done.

What is known exactly is simulated exactly: a node whose answer is in the memo passes it on to the
folder above. Where a folder's children have yet to be written, its input is estimated from above.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from indexer.core import paths
from indexer.core.frames import BodyHash, ChildBody, Head, MemoKey, key_of_file, key_of_folder
from indexer.core.tree import Tree
from indexer.engine.documents import JsonObject
from indexer.engine.events import Event
from indexer.engine.freshness import judge, parts_of
from indexer.engine.held_up import held_up
from indexer.engine.llm_settings import LlmSettings, load_llm_settings
from indexer.engine.types import FileMaker, FolderMaker, FrameType
from indexer.engine.workers import Task, read_exactly
from indexer.errors import MerkleError
from indexer.generators.base import FileInput
from indexer.generators.llm.budget import NOTHING
from indexer.generators.llm.writer import Known, ModelWriter, Request
from indexer.regenerate.plan import Step, stale_steps
from indexer.synthesis.base import ChildInput

if TYPE_CHECKING:
    from indexer.engine.engine import Engine


class Planned(NamedTuple):
    """One frame that would be made."""

    step: Step
    type: str
    reuse: bool
    because: str
    writer: ModelWriter | None
    """What asks a model for it; None where none is needed."""
    source: BodyHash | None
    """The frame that is read in place of a file, where it is known."""
    children: tuple[ChildBody, ...] | None
    """A folder's children, where all of them are known."""
    is_guess: bool
    """Whether what it is made from has yet to be made itself."""


@dataclass(slots=True)
class Totals:
    """What a plan comes to."""

    calls: int = 0
    reused: int = 0
    tokens: int = 0
    tokens_out: int = 0
    cost: Decimal = NOTHING
    unpriced: set[str] = field(default_factory=set)
    """Models without a price."""

    def document(self) -> JsonObject:
        """As JSON has it; a cost that is not known in full is none."""
        return {
            "calls": self.calls,
            "reused": self.reused,
            "tokens": self.tokens,
            "tokens_out": self.tokens_out,
            "cost": None if self.unpriced else float(self.cost),
            "unpriced": sorted(self.unpriced),
        }


class Plan:
    """Collected on the writing thread; its tokens are counted on any."""

    def __init__(
        self, engine: Engine, tree: Tree, chosen: Sequence[FrameType], path: str, recursive: bool
    ) -> None:
        self._engine = engine
        self._settings: LlmSettings | None = None
        self._known: dict[tuple[str, str], BodyHash | None] = {}
        """What a planned frame will say, by type and path; None where that is not known."""
        self.steps: list[Planned] = []
        self.held_up: list[Event] = []
        """Folders that are asked for alone while frames below them are stale."""
        for declared in chosen:
            head_of = engine.shelf.heads_of(declared.name)
            for step in stale_steps(tree, declared.rules, head_of, path, recursive=recursive):
                event = None if recursive else held_up(engine, declared, step)
                if event is None:
                    self.steps.append(self._planned(tree, declared, step))
                else:
                    self.held_up.append(event)

    @property
    def settings(self) -> LlmSettings:
        """Prices and limits."""
        if self._settings is None:
            self._settings = load_llm_settings(self._engine.root)
        return self._settings

    @property
    def asks(self) -> list[Planned]:
        """The frames that a model would write."""
        return [one for one in self.steps if one.writer is not None and not one.reuse]

    # -- collecting

    def _planned(self, tree: Tree, declared: FrameType, step: Step) -> Planned:
        engine, rules = self._engine, declared.rules
        agent = rules.agent_for(step.entry)
        head = engine.shelf.head(step.path, rules.type, agent)
        because = "it has no frame yet"
        if head is not None:
            because = judge(engine, tree, step.path, rules.type, agent, head).because
        source = children = key = None
        made: FileMaker | FolderMaker | None
        if step.entry.folder is None:
            source, key, guess = self._of_file(declared, step)
            made = declared.file
        else:
            children, guess = self._of_folder(tree, declared, step)
            made = declared.folder
            if children is not None and made is not None:
                key = key_of_folder(made.print, declared.name, children)
        content = engine.shelf.memo(key)[1] if key is not None else None
        self._known[(declared.name, step.path)] = content
        writer = made.writer if made is not None else None
        return Planned(
            step, declared.name, content is not None, because, writer, source, children, guess
        )

    def _of_file(
        self, declared: FrameType, step: Step
    ) -> tuple[BodyHash | None, MemoKey | None, bool]:
        """The frame a file's is made from, its memo key, and whether both are still open."""
        assert declared.file is not None
        name = paths.text_to_bytes(paths.split(step.path)[1])
        made_by, kind = declared.file.print, declared.name
        if declared.input is None:
            return None, key_of_file(made_by, kind, name, step.entry.content_id), False
        source = self._known.get((declared.input, step.path))
        if (declared.input, step.path) not in self._known:
            read = self._engine.types[declared.input]
            head = self._engine.shelf.head(step.path, read.name, read.rules.agent_for(step.entry))
            if head is not None and read.rules.is_current(head, step.entry):
                source = head.content
        if source is None:
            return None, None, True
        return source, key_of_file(made_by, kind, name, source), False

    def _of_folder(
        self, tree: Tree, declared: FrameType, step: Step
    ) -> tuple[tuple[ChildBody, ...] | None, bool]:
        """A folder's children with what they will say; None where that is not known of all."""
        planned = self._known

        def head_at(path: str, frame_type: str, agent: str) -> Head | None:
            head = self._engine.shelf.head(path, frame_type, agent)
            said = planned.get((frame_type, path))
            if said is None:
                return head
            # Only what it says counts for a memo key.
            # A stand-in whose ids nobody reads.
            blank = head or Head(b"", b"", said, None, None, None)  # type: ignore[arg-type]
            return blank._replace(content=said)

        bodies = []
        for part in parts_of(self._engine, tree, declared, step.path, step.entry, head_at):
            if part.own and planned.get((declared.name, part.path), b"") is None:
                return None, True
            bodies.append(part.body)
        return tuple(bodies), False

    # -- counting

    def document(self) -> tuple[list[JsonObject], Totals]:
        """The plan as JSON has it, tokens counted, and its totals."""
        totals = Totals()
        entries = [self._entry(one, totals) for one in self.steps]
        return entries, totals

    def _entry(self, one: Planned, totals: Totals) -> JsonObject:
        entry: JsonObject = {
            "path": one.step.path,
            "type": one.type,
            "action": "reuse" if one.reuse else "generate",
            "because": one.because,
            "tokens": 0,
        }
        totals.reused += one.reuse
        if one.writer is None:
            return entry
        tokens = 0 if one.reuse else self.tokens_of(one)
        calls = int(tokens > 0)
        out = one.writer.max_output_tokens * calls
        price = self.settings.prices.get(one.writer.model)
        cost = price.of(tokens, out) if price else None
        if calls and cost is None:
            totals.unpriced.add(one.writer.model)
        totals.calls += calls
        totals.tokens += tokens
        totals.tokens_out += out
        totals.cost += cost or NOTHING
        told = None if cost is None else float(cost)
        return entry | {
            "tokens": tokens,
            "tokens_out": out,
            "cost": told,
            "calls": calls,
            "model": one.writer.model,
            "estimated": one.is_guess,
        }

    def tokens_of(self, one: Planned) -> int:
        """Input tokens of a frame's request; 0 when there is nothing to ask."""
        assert one.writer is not None
        request = self._request(one, one.writer)
        if isinstance(request, int):
            return request
        return 0 if isinstance(request, Known) else request.tokens

    def _request(self, one: Planned, writer: ModelWriter) -> Request | Known | int:
        """The very request, or its size as a guess."""
        entry, engine = one.step.entry, self._engine
        name = paths.split(one.step.path)[1]
        if entry.folder is not None:
            if one.children is None:
                return writer.estimate(len(entry.folder.entries), 0)
            return writer.of_folder(self._inputs(one.children))
        if one.is_guess:
            # An outline is shorter than its file.
            return writer.estimate(0, entry.size // 4)
        if one.source is not None:
            text = engine.shelf.bodies([one.source]).get(one.source, "")
            return writer.of_file(FileInput(name, text.encode()))
        try:
            task = Task(one.step.path, entry.content_id, entry.size)
            return writer.of_file(
                FileInput(name, read_exactly(engine.root, engine.algorithm, task))
            )
        except (OSError, MerkleError):
            # It changed since; nearly every text has more than three bytes to a token.
            return writer.estimate(0, entry.size // 3)

    def _inputs(self, children: Iterable[ChildBody]) -> list[ChildInput]:
        bodies = self._engine.shelf.bodies(body for _, _, body in children if body is not None)
        return [
            ChildInput(paths.bytes_to_text(name), kind, bodies.get(body) if body else None)
            for name, kind, body in children
        ]
