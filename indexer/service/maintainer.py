"""Keeping declared frames up to date behind the batches, a chunk at a time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from indexer.engine.frames.types import FrameType
from indexer.engine.make.code_pass import CodePass
from indexer.engine.make.events import Outcome
from indexer.engine.make.one_pass import OnePass, one_pass
from indexer.engine.make.processes import OtherCodeError
from indexer.engine.models.backoff import Backoff
from indexer.engine.models.calls import GRACE, ModelCalls
from indexer.engine.models.model_pass import ModelPass
from indexer.engine.models.prompt_files import own_prompts
from indexer.engine.models.settings import LlmSettings, load_llm_settings
from indexer.engine.team.exchange import PATIENCE_SERVED
from indexer.engine.workspace import Engine
from indexer.errors import MerkleError, UsageError
from indexer.generators.llm.budget import Budget, Caps
from indexer.regenerate.plan import sources_of
from indexer.store.journal import JournalWriteError

if TYPE_CHECKING:
    from indexer.engine.durable.compact import Compaction
    from indexer.engine.team.courier import NoteCourier
    from indexer.shared.client import Membership

_SERVER: Final = "server"
_PASSING: Final = ("unreachable", "refused")
"""Why calls stop that may be answered another time."""

_REST: Final = 20
"""How many times as long as it took compacting rests where it was given up for an edit."""


def _caps(settings: LlmSettings) -> Caps:
    """What a watcher may use: as much as a run, and no more calls than any watcher."""
    caps, calls = settings.caps(None, None), int(settings.values["watch_calls"])
    most = calls if caps.max_calls is None else min(calls, caps.max_calls)
    return Caps(most, caps.max_cost)


class Maintainer:
    """Regenerates what batches made stale; between two chunks the thread does all else.

    Models are asked only where the settings say so, and never for more at once than they allow;
    without that, types that models write get what is known and stay stale otherwise.
    """

    def __init__(self, engine: Engine, wake: Callable[[], None] = lambda: None) -> None:
        self._engine = engine
        self._wake = wake
        self._passes: list[OnePass | ModelPass] = []
        self._types: dict[str, FrameType] | None = None
        self._calls: ModelCalls | None = None
        self._settings: LlmSettings | None = None
        """The settings that the calls are made with."""
        self._backoff = Backoff()
        """Questions that failed, and the server itself while it does."""
        self.again_at: float | None = None
        """When something that failed is to be tried again."""
        engine.in_flight.serve(self._answered)
        self.due = False
        """Whether something may be stale."""
        self.problem: str | None = None
        """Why declared frames cannot be kept, when the configuration is wrong."""
        self._held_back: dict[str, str | None] = {}
        """Why models are not asked for a type, by its name."""
        self._version = -1
        """The version of the heads when everything was last made."""
        self._only_indexing = False
        """Whether everything is made, and only postings and compacting are due."""
        self._code: CodePass | None = None
        self._compaction: Compaction | None = None
        self._looked_at = 0
        """The newest root when it was last looked at whether compacting pays."""
        self._compacted_for = self._compact_after = 0.0
        """How long the present compaction took until now, and before when there is no other."""
        self._courier: NoteCourier | None = None
        self._unsigned: str | None = None
        """Why notes are not shared though they are to be."""
        self._noted = 0
        """How many notes there had been when the courier was last told of some."""

    @property
    def owes(self) -> bool:
        """Whether answers wait for the journal, or results for a team that could not be reached."""
        if self._engine.in_flight.left or (self._calls is not None and self._calls.has_arrived):
            return True
        exchange = self._engine.exchange if self._types is not None else None
        return exchange is not None and exchange.owes

    @property
    def remark(self) -> str | None:
        """Why some frames stay as they are: a mistake in the settings, or models not asked."""
        return self.problem or next(filter(None, list(self._held_back.values())), None)

    @property
    def team_problem(self) -> str | None:
        """Why notes do not reach the team."""
        courier = self._courier
        return self._unsigned or (courier.problem if courier is not None else None)

    @property
    def doing(self) -> tuple[str, ...]:
        """What is being made, or behind the frames."""
        made = tuple(sorted(one.type.name for one in list(self._passes)))
        behind = {
            "facts of code": self._code is not None,
            "words for search": self._only_indexing and self._compaction is None,
            "compacting": self._compaction is not None,
        }
        return made or tuple(words for words, is_under_way in behind.items() if is_under_way)

    @property
    def spent(self) -> Budget:
        """What this watcher's questions to models have cost so far."""
        return self._calls.budget if self._calls is not None else Budget(Caps())

    def begin(self) -> None:
        """The tree or the configuration moved: plan anew."""
        self._drop_passes()
        if self._compaction is not None:
            # For when there is nothing to do again, and not at once: it starts over, and beside
            # somebody who edits all the time it would never end.
            self._leave_compaction()
            self._looked_at = 0
            now = self._engine.clock.monotonic()
            self._compact_after = now + _REST * self._compacted_for
            self.again_at = self._next_look()
        self._only_indexing = False
        self.due = True

    def try_again(self) -> None:
        """What failed has rested long enough."""
        self._backoff.take_up()
        self.again_at = self._next_look()
        self.begin()

    def _next_look(self) -> float | None:
        """When what failed, or compacting that was given up, has rested long enough."""
        rests = self._compact_after > self._engine.clock.monotonic()
        times = (self._backoff.next_at(), self._compact_after if rests else None)
        return min(filter(None, times), default=None)

    def notice_job(self) -> None:
        """A job may have stored what calls for more, and no batch tells of it."""
        self._tell_courier()
        if self._types is None or (self.due and not self._only_indexing):
            return
        heads = self._engine.frames.heads
        gathers = any(one.rules.gathers for one in self._types.values())
        if gathers and heads.versions.now != self._version:
            # A note that a folder's frame takes in.
            self._only_indexing, self.due = False, True
        elif heads.unindexed:
            self._only_indexing = self.due = True

    def step(self) -> None:
        """Make and store one chunk; `due` tells whether there may be more."""
        # Before looking, so that an answer that comes meanwhile counts.
        self.due = False
        try:
            self._engine.intake.take_in_left()
            self._engine.frames.declared.refresh()
            self._share_notes()
            if self._types is not self._engine.frames.types:
                # Declared anew, perhaps by a file that is ignored and so came with no batch.
                self._drop_passes()
                self._only_indexing = False
                self._types = self._engine.frames.types
            if not self._passes and not self._only_indexing:
                self._passes = self._new_passes(self._types)
            if self._calls is not None and not any(isinstance(p, ModelPass) for p in self._passes):
                # Asked for under settings of before.
                self._engine.intake.take_in(self._calls)
        except (UsageError, JournalWriteError) as error:
            # Answers that cannot be journalled now are here for the next look, and for the end.
            self.problem = error.message
            return
        except MerkleError:
            self.due = True
            raise
        self.problem = None
        for current in list(self._passes):
            if not self._waits_for_others(current) and self._advance(current):
                return
        if not self._passes:
            self._version = self._engine.frames.heads.versions.now
            if not self._read_code():
                self._index_for_search()

    def _share_notes(self) -> None:
        """Exchange notes with the team that the settings name now, if they do."""
        exchange = self._engine.exchange
        self._unsigned = None
        if exchange is None:
            self._leave_courier()
            return
        # Imported late: most workspaces have no team.
        from indexer.engine.team.courier import NoteCourier
        from indexer.engine.team.notes import note_exchange, shares_notes
        from indexer.shared.client import Client

        member: Membership | None = None
        try:
            if shares_notes(self._engine.frames.declared.settings, exchange.client.member):
                member = exchange.client.member
        except UsageError as error:
            self._unsigned = error.message
        if self._courier is not None and self._courier.member != member:
            self._leave_courier()
        if self._courier is None and member is not None:
            self._courier = NoteCourier(note_exchange(self._engine, Client(member)))
        self._tell_courier()

    def _tell_courier(self) -> None:
        """Let the team have soon what was noted."""
        if self._courier is not None and self._noted != self._engine.frames.heads.noted:
            self._noted = self._engine.frames.heads.noted
            self._courier.nudge()

    def _leave_courier(self) -> None:
        courier, self._courier = self._courier, None
        if courier is not None:
            courier.close()

    def _read_code(self) -> bool:
        """With every frame made, find the facts of code that none of them needed; True: some."""
        if self._code is None:
            clock = self._engine.clock if self._engine.in_turns else None
            self._code = CodePass(self._engine.frames, clock)
        try:
            more = self._code.run_some(self._engine.tree) > 0
        except OtherCodeError as error:
            self.problem, more = error.message, False
        self._only_indexing = more
        self.due = self.due or more
        if not more:
            self._code.close()
            self._code = None
        return more

    def _index_for_search(self) -> None:
        """With every frame made, prepare for questions, so that the first one need not wait."""
        heads = self._engine.frames.heads
        if heads.unindexed:
            heads.index_some()
        self._only_indexing = bool(heads.unindexed) or self._compact_some()
        self.due = self.due or self._only_indexing

    def _compact_some(self) -> bool:
        """With nothing else to do, compact a little where that pays; True where there is more."""
        # Imported late: a service answers before it has nothing else to do.
        from indexer.engine.durable.compact import SAVES_BETWEEN, Compaction, compacting_pays

        engine = self._engine
        head = engine.trees.head()
        if self._compaction is None:
            if head is None or head.seq - self._looked_at < SAVES_BETWEEN:
                return False
            if engine.clock.monotonic() < self._compact_after:
                return False
            self._looked_at = head.seq
            if not compacting_pays(engine.trees, engine.database):
                return False
            self._compaction, self._compacted_for = Compaction(engine.frames, engine.trees), 0.0
        began = engine.clock.monotonic()
        try:
            done = self._compaction.step()
        except MerkleError:
            # Not worth a word to anybody unless the index fails too, which others will notice.
            done = True
        self._compacted_for += engine.clock.monotonic() - began
        if done:
            self._leave_compaction()
        return not done

    def _leave_compaction(self) -> None:
        """What it has dropped stays dropped; the file is rewritten another time."""
        if self._compaction is not None:
            self._compaction.close()
            self._compaction = None

    def _advance(self, current: OnePass | ModelPass) -> bool:
        """One chunk of a pass; True when this step is over."""
        current.outcome.events.clear()
        try:
            if isinstance(current, ModelPass):
                done = current.step()
                if current.is_waiting and current.waits_for_team:
                    # No call of ours will wake us; the team is looked at again after a moment.
                    current.wait_for_team(PATIENCE_SERVED)
                    current.is_waiting = False
                more = not done and not current.is_waiting
            else:
                more = current.run_some(self._engine.tree)
                done = not more
        except (UsageError, JournalWriteError, OtherCodeError) as error:
            # A key that is not there, say; the other types go on.
            self.problem = error.message
            current.close()
            self._passes.remove(current)
            return False
        except MerkleError:
            self.due = True
            raise
        except Exception as error:
            # Frames that cannot be made are no reason to stop watching files.
            self.problem = f"{type(error).__name__}: {error}"
            self._drop_passes()
            return True
        self._engine.publish_frames(list(current.outcome.events))
        if isinstance(current, ModelPass):
            self._note_outage(current)
            self._held_back[current.type.name] = self._why_held_back(current)
        if done:
            current.close()
            self._passes.remove(current)
            # Whoever reads its frames may have waited for them.
            more = bool(self._passes)
        self.due = self.due or more
        return more

    def _waits_for_others(self, current: OnePass | ModelPass) -> bool:
        """Whether a type that it reads is not done yet."""
        inputs = {name: one.input for name, one in self._engine.frames.types.items()}
        sources = sources_of(inputs, current.type.name)[:-1]
        return any(one.type.name in sources for one in self._passes)

    def _new_passes(self, types: dict[str, FrameType]) -> list[OnePass | ModelPass]:
        engine, found = self._engine, list[OnePass | ModelPass]()
        for declared in types.values():
            settings = load_llm_settings(engine.root) if declared.writers else None
            if settings is not None and settings.values["watch"]:
                settings.check_consent(own_prompts([declared]))
                calls, most = self._model_calls(settings), settings.values["watch_calls_per_pass"]
                found.append(
                    ModelPass(
                        one_pass(engine, declared, Outcome()), calls, engine.intake,
                        lambda: engine.tree, most_wanted=most, backoff=self._backoff,
                    )
                )  # fmt: skip
            else:
                found.append(one_pass(engine, declared, Outcome(), patience=PATIENCE_SERVED))
        return found

    def _model_calls(self, settings: LlmSettings) -> ModelCalls:
        """The calls of this watcher: one budget as long as it lives, under the present settings."""
        caps = _caps(settings)
        if self._calls is None:
            self._calls = ModelCalls(
                self._engine.in_flight, settings, caps, on_answer=self._answered
            )
        elif settings != self._settings:
            # What failed may have failed because of the old ones.
            self._backoff.forget()
            self._calls.resume(settings, caps)
        elif self._calls.stopped in _PASSING and not self._backoff.rests(_SERVER):
            self._calls.resume(settings, caps)
        self._settings = settings
        return self._calls

    def _note_outage(self, current: ModelPass) -> None:
        """Leave a server alone that does not answer, for longer each time, and not for ever."""
        stopped = self._calls.stopped if self._calls is not None else None
        if stopped in _PASSING and not self._backoff.rests(_SERVER):
            self._backoff.failed(_SERVER)
        elif stopped is None and current.outcome.count("generated"):
            self._backoff.worked(_SERVER)
        self.again_at = self._next_look()

    def _answered(self) -> None:
        """Called by the thread of a call: there is something to take in."""
        self._only_indexing = False
        self.due = True
        self._wake()

    def _why_held_back(self, current: ModelPass) -> str | None:
        if current.too_many:
            return (
                f"{current.type.name} needs {current.too_many} model calls, more than the watcher"
                " makes unasked; run `merkle regenerate`"
            )
        stopped = self._calls.stopped if self._calls is not None else None
        return f"{current.type.name}: no more model calls ({stopped})" if stopped else None

    def close(self) -> None:
        """Take in the answers that are there or nearly there, then end the worker processes."""
        self._leave_courier()
        self._leave_compaction()
        in_flight = self._engine.in_flight
        # From now on nobody looks after what comes later.
        in_flight.serve(None)
        deadline = time.monotonic() + GRACE
        runs, left = list(in_flight.runs), list(in_flight.left)
        in_flight.left.clear()
        left += [self._calls] if self._calls is not None else []
        self._calls = None
        # All at once, so that none goes on asking while another is waited for.
        for run in runs:
            run.leave()
        for calls in left:
            calls.stop("stopped")
        with contextlib.ExitStack() as stack:
            # Each in turn, whatever becomes of the others.
            stack.callback(self._drop_passes)
            for run in runs:
                stack.callback(run.close, deadline)
            for calls in left:
                stack.callback(self._engine.intake.end, calls, deadline)

    def _drop_passes(self) -> None:
        passes, self._passes = self._passes, []
        code, self._code = self._code, None
        with contextlib.ExitStack() as stack:
            for one in (*passes, *([code] if code is not None else ())):
                stack.callback(one.close)
