"""A regeneration as steps: each short and on the writing thread, with the waiting in between."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from indexer.core.progress import Progress, begin, meter_of
from indexer.engine.frames.types import FrameType
from indexer.engine.long_work import Document, LongWork
from indexer.engine.make.blocked import all_blocked
from indexer.engine.make.code_pass import CodePass
from indexer.engine.make.events import Outcome
from indexer.engine.make.one_pass import OnePass, one_pass
from indexer.engine.make.plan import Plan, Totals
from indexer.engine.models.prompt_files import own_prompts
from indexer.errors import UsageError

if TYPE_CHECKING:
    from indexer.engine.documents import ExchangedDocument
    from indexer.engine.models.calls import ModelCalls
    from indexer.engine.models.model_pass import ModelPass
    from indexer.engine.models.settings import LlmSettings
    from indexer.engine.workspace import Engine

CONFIRM: str = "needs_yes"
"""The code of the error that an answer of yes overcomes."""


class NeedsYesError(UsageError):
    """A run would cost more than may be spent without being asked."""

    code = CONFIRM


class NoPriceError(UsageError):
    """A cost cannot be capped without a price."""

    code = "no_price"


class Limits(NamedTuple):
    """What whoever asks for a run allows it."""

    max_calls: int | None = None
    max_cost: float | None = None
    yes: bool = False
    """Whether the size of the run has been agreed to."""
    models: bool = True
    """Whether models may be asked at all."""


class UsageDocument(TypedDict):
    """What the models that a run asked came to."""

    calls: int
    tokens_in: int
    tokens_out: int
    cost: float
    stopped: str | None
    """Why models were not asked any more."""
    waiting: int
    """Frames that are left."""


class Run(LongWork[Document]):
    """Brings some types up to date in a part of the workspace."""

    def __init__(
        self,
        engine: Engine,
        path: str,
        chosen: Sequence[FrameType],
        *,
        recursive: bool,
        limits: Limits,
        progress: Progress | None = None,
        asked_by: str | None = None,
        result: Callable[[Run[Any]], Document],
    ) -> None:
        self._engine = engine
        self._path, self._recursive = path, recursive
        self._todo = list(chosen)
        self._limits = limits
        self._progress, self._asked_by = progress, asked_by
        self._result = result
        self._frames, self._types = engine.frames, engine.frames.types
        self.outcome = Outcome()
        self._published = 0
        self._plan: Plan | None = None
        self._totals: Totals | None = None
        self._calls: ModelCalls | None = None
        self._pass: ModelPass | None = None
        self._own: tuple[OnePass, Generator[None]] | None = None
        """The pass over a type that needs no model, and what is left of it."""
        self._code: Generator[None] | None = None
        self._stopped: str | None = None
        self._waiting = 0
        if any(one.writers for one in chosen) and limits.models:
            # Imported late, as all below it: most workspaces declare no model.
            from indexer.engine.models.settings import load_llm_settings

            settings = load_llm_settings(engine.root)
            self._calls = self._opened(settings, chosen)
            engine.in_flight.runs.add(self)

    def _opened(self, settings: LlmSettings, chosen: Sequence[FrameType]) -> ModelCalls:
        """The calls of this run, after everything that can be refused beforehand."""
        from indexer.engine.models.calls import ModelCalls

        settings.check_consent(own_prompts(chosen))
        caps = settings.caps(self._limits.max_calls, self._limits.max_cost)
        models = {writer.model for one in chosen for writer in one.writers}
        missing = sorted(models - set(settings.prices))
        if caps.max_cost is not None and missing:
            raise NoPriceError(
                f"there is no price for {', '.join(missing)}, so a cost cannot be capped",
                hint=f'add [llm.prices."{missing[0]}"] with input and output per million tokens'
                " to merkle.toml, or cap the calls instead",
            )
        capped = self._limits.max_calls is not None or self._limits.max_cost is not None
        if not (self._limits.yes or capped):
            self._plan = self._to_be_agreed(settings, chosen)
        return ModelCalls(self._engine.in_flight, settings, caps)

    def _to_be_agreed(self, settings: LlmSettings, chosen: Sequence[FrameType]) -> Plan | None:
        """The plan of a run that may be too large; the team is asked only where that decides."""
        for ask_team in (False, True):
            plan = Plan(
                self._frames,
                self._engine.tree,
                chosen,
                self._path,
                self._recursive,
                exchange=self._engine.exchange if ask_team else None,
            )
            if not may_exceed(plan, settings):
                return None
            if self._engine.exchange is None:
                break
        return plan

    # -- on the writing thread

    def step(self) -> bool:
        """Go on as far as is possible without waiting; True when it is done."""
        try:
            return self._step()
        finally:
            # What was stored before something went wrong is stored.
            new = self.outcome.events[self._published :]
            self._published += len(new)
            self._engine.publish_frames(new)

    def _step(self) -> bool:
        if self._plan is not None:
            if self._totals is None:
                return False
            self._confirm(self._plan, self._totals)
        while self._todo:
            declared = self._todo[0]
            if self._calls is None or not declared.writers:
                if not self._made(declared):
                    return False
                self._add_blocked(declared)
            else:
                if self._frames.types is not self._types:
                    return self._is_drained()
                if self._pass is None:
                    self._pass = self._model_pass(declared, self._calls)
                if not self._pass.step():
                    return False
                self._add_blocked(declared)
                self._waiting += self._pass.waiting
                self._pass.close()
                self._pass = None
            self._todo.pop(0)
        if self._code is None:
            begin(self._progress, "looking at code")
            clock = self._engine.clock if self._engine.in_turns else None
            self._code = CodePass(self._engine.frames, clock).pieces(
                self._engine.tree, self._path, meter_of(self._progress)
            )
        for _ in self._code:
            return False
        if self._calls is not None:
            self._stopped = self._stopped or self._calls.stopped
        return True

    def _is_drained(self) -> bool:
        """Ask for nothing more under other settings; True when all answers are taken in."""
        assert self._calls is not None
        self._stopped = "configuration"
        self._calls.stop(self._stopped)
        self._engine.intake.take_in(self._calls)
        return not self._calls.under_way

    def _made(self, declared: FrameType) -> bool:
        """Make the next piece of a type that needs no model; True when there is none left."""
        if self._own is None:
            # Alone, a folder waits for what is below it; with it, it is made from what there is.
            one = one_pass(
                self._engine,
                declared,
                self.outcome,
                progress=self._progress,
                asked_by=self._asked_by,
                patient=not self._recursive,
            )
            self._own = one, one.pieces(self._path, recursive=self._recursive)
        one, pieces = self._own
        one.tree = self._engine.tree
        for _ in pieces:
            return False
        self._own = None
        return True

    def _add_blocked(self, declared: FrameType) -> None:
        if not self._recursive:
            self.outcome.events += all_blocked(
                self._frames, self._engine.tree, declared, self._path
            )

    def _model_pass(self, declared: FrameType, calls: ModelCalls) -> ModelPass:
        from indexer.engine.models.model_pass import ModelPass

        engine = self._engine
        return ModelPass(
            one_pass(engine, declared, self.outcome, asked_by=self._asked_by), calls,
            engine.intake, lambda: engine.tree,
            within=self._path, recursive=self._recursive, progress=self._progress,
        )  # fmt: skip

    def close(self, deadline: float | None = None) -> None:
        """Take in what is still under way, within reason, and ask for nothing more."""
        self._engine.in_flight.runs.discard(self)
        try:
            if self._calls is not None:
                # First: nothing that goes wrong with the rest may cost an answer.
                self._engine.intake.end(self._calls, deadline)
        finally:
            if self._own is not None:
                self._own[1].close()
            if self._pass is not None:
                self._pass.close()
            if self._code is not None:
                self._code.close()

    # -- on any thread

    def leave(self) -> None:
        """Ask for nothing more; what is under way is taken in by whoever closes this."""
        if self._calls is not None:
            self._calls.stop("stopped")

    def wait(self) -> None:
        """Do what needs no store (count tokens), or wait for an answer."""
        if self._plan is not None and self._totals is None:
            self._totals = self._plan.document()[1]
        elif self._stopped is not None and self._calls is not None:
            self._calls.wait()
        elif self._pass is not None and self._pass.is_waiting:
            self._pass.wait()

    def document(self) -> Document:
        """What it did."""
        return self._result(self)

    def usage(self) -> UsageDocument:
        """What its calls came to."""
        budget = self._calls.budget if self._calls is not None else None
        return {
            "calls": budget.calls if budget else 0,
            "tokens_in": budget.tokens_in if budget else 0,
            "tokens_out": budget.tokens_out if budget else 0,
            "cost": float(budget.spent) if budget else 0.0,
            "stopped": self._stopped,
            "waiting": self._waiting,
        }

    def shared(self) -> ExchangedDocument | None:
        """What passed between this workspace and its team; None where it has none."""
        exchange = self._engine.exchange
        return None if exchange is None else exchange.report()

    def _confirm(self, plan: Plan, totals: Totals) -> None:
        """Refuse a run that is larger than may be begun without a word."""
        self._plan = None
        values = plan.settings.values
        above = Decimal(str(values["ask_above_cost"]))
        if totals.calls <= values["ask_above_calls"] and totals.cost <= above:
            return
        price = "an unknown cost" if totals.unpriced else f"a cost of up to {totals.cost:.2f}"
        team = f"; {totals.team:,} results come from the team" if totals.team else ""
        if totals.team_problem is not None:
            team += "; the team could not be asked, so what it has is counted too"
        raise NeedsYesError(
            f"this takes up to {totals.calls:,} calls of models with {totals.tokens:,} tokens in"
            f" and at most {totals.tokens_out:,} out, at {price}{team}",
            hint="agree with --yes, or cap it with --max-calls or --max-cost;"
            " --plan lists every call",
        )


def may_exceed(plan: Plan, settings: LlmSettings) -> bool:
    """Whether a plan could need to be agreed to; without counting a token."""
    values, cost = settings.values, Decimal(0)
    asks = plan.asks
    for one in asks:
        assert one.writer is not None
        price = settings.prices.get(one.writer.model)
        if price is not None:
            most = one.writer.window - one.writer.max_output_tokens
            if one.step.entry.folder is None:
                most = min(most, one.step.entry.size + len(one.writer.prompt.text.encode()) + 100)
            cost += price.of(most, one.writer.max_output_tokens)
    return len(asks) > values["ask_above_calls"] or cost > Decimal(str(values["ask_above_cost"]))
