"""What a regeneration would do and cost, before anything is done.

What is known exactly is simulated exactly: a node whose answer is in the memo, or in the team's
store, passes it on to the folder above. Where a folder's children have yet to be written, its input
is estimated from above.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple, TypedDict

from indexer.core import paths
from indexer.core.frames import BodyHash, ChildBody, Head, MemoKey
from indexer.core.tree import Tree
from indexer.engine.frames.freshness import fresh_head, fresh_in, judge
from indexer.engine.frames.recipe import file_key, folder_key, parts_of
from indexer.engine.frames.types import FrameType
from indexer.engine.make.blocked import blocked
from indexer.engine.make.events import Event
from indexer.engine.make.workers import FileSource, read_exactly
from indexer.errors import MerkleError
from indexer.generators.base import FileInput
from indexer.regenerate.plan import Step, stale_steps, waves
from indexer.synthesis.base import ChildInput

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames
    from indexer.engine.models.settings import LlmSettings
    from indexer.engine.team.exchange import Exchange
    from indexer.generators.llm.writer import Known, ModelRequest, ModelWriter

HERE: Final = "here"
TEAM: Final = "team"
"""Where a result that needs not be computed is."""

_ASKED: Final = 1000
"""Keys that the team is asked for in one conversation."""


_PlannedDocument = TypedDict(
    "_PlannedDocument",
    {
        "path": str,
        "type": str,
        "action": str,
        "from": str | None,
        "because": str,
        "tokens": int,
    },
)


class PlannedDocument(_PlannedDocument, total=False):
    """One frame that would be made, and what a model's part in it would come to."""

    tokens_out: int
    cost: float | None
    calls: int
    model: str
    estimated: bool


class TotalsDocument(TypedDict):
    """What a plan comes to."""

    calls: int
    reused: int
    tokens: int
    tokens_out: int
    cost: float | None
    unpriced: list[str]
    team: int
    team_problem: str | None


class Planned(NamedTuple):
    """One frame that would be made."""

    step: Step
    type: str
    known: str | None
    """Where its result is already (`here` or `team`); None where it has to be made."""
    because: str
    writer: ModelWriter | None
    """What asks a model for it; None where none is needed."""
    source: BodyHash | None
    """The frame that is read in place of a file, where it is known."""
    children: tuple[ChildBody, ...] | None
    """A folder's children, where all of them are known."""
    is_guess: bool
    """Whether what it is made from has yet to be made itself."""


class _Input(NamedTuple):
    """What a frame would be made from, as far as that is known."""

    key: MemoKey | None
    source: BodyHash | None = None
    children: tuple[ChildBody, ...] | None = None
    is_guess: bool = False


@dataclass(slots=True, eq=False, repr=False)
class Totals:
    """What a plan comes to."""

    calls: int = 0
    reused: int = 0
    """Results that are known here."""
    team: int = 0
    """Results that only the team has."""
    team_problem: str | None = None
    """Why the team could not be asked."""
    tokens: int = 0
    tokens_out: int = 0
    cost: Decimal = Decimal(0)
    unpriced: set[str] = field(default_factory=set)
    """Models without a price."""

    def document(self) -> TotalsDocument:
        """As JSON has it; a cost that is not known in full is none."""
        return {
            "calls": self.calls,
            "reused": self.reused,
            "tokens": self.tokens,
            "tokens_out": self.tokens_out,
            "cost": None if self.unpriced else float(self.cost),
            "unpriced": sorted(self.unpriced),
            "team": self.team,
            "team_problem": self.team_problem,
        }


class Plan:
    """Collected on the writing thread; its tokens are counted on any."""

    def __init__(
        self,
        frames: Frames,
        tree: Tree,
        chosen: Sequence[FrameType],
        path: str,
        recursive: bool,
        *,
        exchange: Exchange | None = None,
    ) -> None:
        self._frames = frames
        self._tree = tree
        self._is_fresh = fresh_in(frames, tree)
        self._settings: LlmSettings | None = None
        self._known: dict[tuple[str, str], BodyHash | None] = {}
        """What a planned frame will say, by type and path; None where that is not known."""
        self._texts: dict[BodyHash, str] = {}
        """What the team has and the index has not; none of it is stored."""
        self._exchange = exchange
        """The team that is asked for results; None where it is not."""
        self.team_problem: str | None = None
        """Why the team could not be asked."""
        self.steps: list[Planned] = []
        self.blocked: list[Event] = []
        """Folders that are asked for alone while frames below them are stale."""
        for declared in chosen:
            head_of = frames.heads.heads_of(declared.name)
            steps = []
            for step in stale_steps(tree, declared.rules, head_of, path, recursive=recursive):
                event = None if recursive else blocked(frames, declared, step)
                if event is None:
                    steps.append(step)
                else:
                    self.blocked.append(event)
            self.steps += self._of_type(declared, steps)
        self._forget_texts()

    @property
    def settings(self) -> LlmSettings:
        """Prices and limits."""
        if self._settings is None:
            # Imported late: most workspaces declare no model.
            from indexer.engine.models.settings import load_llm_settings

            self._settings = load_llm_settings(self._frames.root)
        return self._settings

    @property
    def asks(self) -> list[Planned]:
        """The frames that a model would write."""
        return [one for one in self.steps if one.writer is not None and one.known is None]

    # -- collecting

    def _of_type(self, declared: FrameType, steps: list[Step]) -> list[Planned]:
        """The frames of one type; with a team, all whose inputs are there in one conversation."""
        exchange = self._exchange if declared.share else None
        made: dict[str, tuple[_Input, str | None]] = {}
        for wave in waves(steps) if exchange is not None else [steps]:
            missing: dict[MemoKey, list[str]] = {}
            for step in wave:
                found = self._input(declared, step)
                content = self._frames.heads.memo(found.key)[1] if found.key is not None else None
                self._known[(declared.name, step.path)] = content
                made[step.path] = (found, None if content is None else HERE)
                if content is None and found.key is not None:
                    missing.setdefault(found.key, []).append(step.path)
            if exchange is not None:
                for key, content in self._asked_of(exchange, list(missing)).items():
                    for path in missing[key]:
                        self._known[(declared.name, path)] = content
                        made[path] = (made[path][0], TEAM)
        return [self._planned(declared, step, *made[step.path]) for step in steps]

    def _asked_of(self, exchange: Exchange, keys: list[MemoKey]) -> dict[MemoKey, BodyHash]:
        """What the team has of some keys; once it cannot be reached it is left alone."""
        found: dict[MemoKey, BodyHash] = {}
        for at in range(0, len(keys), _ASKED):
            if self.team_problem is not None:
                break
            group = {key: self._frames.heads.memo(key)[0] for key in keys[at : at + _ASKED]}
            entries, self.team_problem = exchange.peek(group)
            for entry in entries:
                found[entry.key] = entry.content
                self._texts[entry.content] = entry.body
        return found

    def _forget_texts(self) -> None:
        """Hold on only to what requests will be made from."""
        if self._texts:
            needed = {one.source for one in self.asks}
            needed.update(body for one in self.asks for _, _, body in one.children or ())
            self._texts = {key: text for key, text in self._texts.items() if key in needed}

    def _planned(
        self, declared: FrameType, step: Step, made_from: _Input, known: str | None
    ) -> Planned:
        frames, rules = self._frames, declared.rules
        agent = rules.agent_for(step.entry)
        head = frames.heads.head(step.path, rules.type, agent)
        because = "it has no frame yet"
        if head is not None:
            because = judge(frames, self._tree, step.path, rules.type, agent, head).because
        made = declared.file if step.entry.folder is None else declared.folder
        writer = made.writer if made is not None else None
        return Planned(
            step, declared.name, known, because, writer,
            made_from.source, made_from.children, made_from.is_guess,
        )  # fmt: skip

    def _input(self, declared: FrameType, step: Step) -> _Input:
        """What a frame would be made from, with the key of its result."""
        if step.entry.folder is None:
            return self._of_file(declared, step)
        children = self._of_folder(declared, step)
        if children is None:
            return _Input(None, is_guess=True)
        key = None if declared.folder is None else folder_key(declared, children)
        return _Input(key, children=children)

    def _of_file(self, declared: FrameType, step: Step) -> _Input:
        if declared.input is None:
            return _Input(file_key(declared, step.path, step.entry.content_id))
        source = self._known.get((declared.input, step.path))
        if (declared.input, step.path) not in self._known:
            head = fresh_head(self._frames, step.path, step.entry, declared.input)
            source = head.content if head is not None else None
        if source is None:
            return _Input(None, is_guess=True)
        return _Input(file_key(declared, step.path, source), source)

    def _of_folder(self, declared: FrameType, step: Step) -> tuple[ChildBody, ...] | None:
        """A folder's children with what they will say; None where that is not known of all."""
        planned = self._known

        def head_at(path: str, frame_type: str, agent: str) -> Head | None:
            head = self._frames.heads.head(path, frame_type, agent)
            said = planned.get((frame_type, path))
            if said is None:
                return head
            # A stand-in whose ids nobody reads: only what it says counts for a memo key.
            blank = head or Head(b"", b"", said, None, None, None)  # type: ignore[arg-type]
            return blank._replace(content=said)

        bodies = []
        frames, is_fresh = self._frames, self._is_fresh
        for part in parts_of(frames, declared, step.path, step.entry, is_fresh, head_at):
            if part.own and planned.get((declared.name, part.path), b"") is None:
                return None
            bodies.append(part.body)
        return tuple(bodies)

    # -- counting

    def document(self) -> tuple[list[PlannedDocument], Totals]:
        """The plan as JSON has it, tokens counted, and its totals."""
        totals = Totals(team_problem=self.team_problem)
        entries = [self._entry(one, totals) for one in self.steps]
        return entries, totals

    def _entry(self, one: Planned, totals: Totals) -> PlannedDocument:
        entry: PlannedDocument = {
            "path": one.step.path,
            "type": one.type,
            "action": "generate" if one.known is None else "reuse",
            "from": one.known,
            "because": one.because,
            "tokens": 0,
        }
        totals.reused += one.known == HERE
        totals.team += one.known == TEAM
        if one.writer is None:
            return entry
        tokens = 0 if one.known is not None else self.tokens_of(one)
        calls = int(tokens > 0)
        out = one.writer.max_output_tokens * calls
        price = self.settings.prices.get(one.writer.model)
        cost = price.of(tokens, out) if price else None
        if calls and cost is None:
            totals.unpriced.add(one.writer.model)
        totals.calls += calls
        totals.tokens += tokens
        totals.tokens_out += out
        totals.cost += cost or 0
        told = None if cost is None else float(cost)
        return {
            **entry,
            "tokens": tokens,
            "tokens_out": out,
            "cost": told,
            "calls": calls,
            "model": one.writer.model,
            "estimated": one.is_guess,
        }

    def tokens_of(self, one: Planned) -> int:
        """Input tokens of a frame's request; 0 when there is nothing to ask."""
        from indexer.generators.llm.writer import Known

        assert one.writer is not None
        request = self._request(one, one.writer)
        if isinstance(request, int):
            return request
        return 0 if isinstance(request, Known) else request.tokens

    def _request(self, one: Planned, writer: ModelWriter) -> ModelRequest | Known | int:
        """The very request, or its size as a guess."""
        entry, frames = one.step.entry, self._frames
        name = paths.split(one.step.path)[1]
        if entry.folder is not None:
            if one.children is None:
                return writer.estimate(len(entry.folder.entries), 0)
            return writer.of_folder(self._inputs(one.children))
        if one.is_guess:
            # An outline is shorter than its file.
            return writer.estimate(0, entry.size // 4)
        if one.source is not None:
            text = self._bodies([one.source]).get(one.source, "")
            return writer.of_file(FileInput(name, text.encode()))
        try:
            task = FileSource(one.step.path, entry.content_id, entry.size)
            return writer.of_file(
                FileInput(name, read_exactly(frames.root, frames.algorithm, task))
            )
        except (OSError, MerkleError):
            # It changed since; nearly every text has more than three bytes to a token.
            return writer.estimate(0, entry.size // 3)

    def _inputs(self, children: Iterable[ChildBody]) -> list[ChildInput]:
        bodies = self._bodies(body for _, _, body in children if body is not None)
        return [
            ChildInput(paths.bytes_to_text(name), kind, bodies.get(body) if body else None)
            for name, kind, body in children
        ]

    def _bodies(self, wanted: Iterable[BodyHash]) -> dict[BodyHash, str]:
        """Texts that are stored here, or that the team gave for this plan."""
        hashes = list(wanted)
        given = {body: self._texts[body] for body in hashes if body in self._texts}
        return self._frames.heads.bodies(body for body in hashes if body not in given) | given
