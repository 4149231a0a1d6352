"""Calls under way: threads that wait for a model while the writing thread goes on.

A call is asked for and its answer taken in on the writing thread; everything between happens on a
thread of its own. Never more are under way, answers not yet journalled included, than the settings
allow: that many answers are what a kill can cost.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from indexer.core.frames import MemoKey
from indexer.core.secrets import mask
from indexer.engine.documents import JsonObject
from indexer.engine.models.settings import LlmSettings
from indexer.generators.llm.budget import Budget, Caps, Refused
from indexer.generators.llm.calling import Brake, Caller, Failure
from indexer.generators.llm.client import ModelClient, check_extra
from indexer.generators.llm.writer import Known, ModelRequest, ModelWriter

if TYPE_CHECKING:
    from indexer.engine.models.in_flight import InFlight

GRACE: Final = 5.0
"""Seconds that answers under way are waited for when a run is broken off."""

IN_A_ROW: Final = 5
"""Nodes in a row without an answer from the server after which a run gives up."""

Prepare = Callable[[], ModelRequest | Known]
"""Makes a request on the calling thread; raises `OSError` or `ValueError` where it cannot."""


class Answered(NamedTuple):
    """What came of one question."""

    key: MemoKey
    generation: int
    body: str | None = None
    meta: JsonObject | None = None
    """What a model's answer took; None where no model was needed."""
    problem: str | None = None
    refused: str | None = None
    """The cap or stop that did not allow it to be asked."""


class ModelCalls:
    """The calls of one run, or of one watcher as long as it lives."""

    def __init__(
        self,
        in_flight: InFlight,
        settings: LlmSettings,
        caps: Caps,
        *,
        on_answer: Callable[[], None] | None = None,
    ) -> None:
        self._in_flight = in_flight
        self._settings = settings
        self._on_answer = on_answer
        self._lock = threading.Lock()
        self._client: ModelClient | None = None
        self._former: list[ModelClient] = []
        """Clients of earlier settings, which calls under way may use."""
        self._brake = Brake()
        self._came: deque[Answered] = deque()
        self._arrived = threading.Event()
        self._tried = 0
        """How many of those that came have been looked at and are not journalled yet."""
        self._asked: dict[MemoKey, bool | None] = {}
        """The questions under way, and whether the team gets the answer; None where none is."""
        self.leases: set[MemoKey] = set()
        """Questions that no other machine asks meanwhile."""
        self._failures = 0
        self.budget = Budget(caps)
        self.stopped: str | None = None
        """Why nothing more is asked."""

    # -- on the writing thread

    def resume(self, settings: LlmSettings, caps: Caps) -> None:
        """Ask again after a stop, or under other settings; what was used until now counts."""
        with self._lock:
            if settings != self._settings:
                self._settings = settings
                if self._client is not None:
                    self._former.append(self._client)
                    self._client = None
            self._failures = 0
            self._brake.stop.clear()
            self.budget.reopen(caps)
            self.stopped = None

    @property
    def has_room(self) -> bool:
        """Whether another call may be begun now."""
        return self.stopped is None and len(self._asked) < int(self._settings.values["concurrency"])

    @property
    def under_way(self) -> int:
        """Calls whose answers have not been journalled."""
        return len(self._asked)

    @property
    def has_arrived(self) -> bool:
        """Whether an answer waits to be taken in."""
        return bool(self._came)

    def is_asked(self, key: MemoKey) -> bool:
        """Whether the answer to this is on its way."""
        return key in self._asked

    def is_claimed(self, key: MemoKey) -> bool:
        """Whether another run asks for the same."""
        return self._in_flight.claims.get(key, self) is not self

    def is_shared(self, key: MemoKey) -> bool:
        """Whether a team has to do with the answer to this."""
        return self._asked.get(key) is not None

    def is_due(self, key: MemoKey) -> bool:
        """Whether the team is to be given the answer to this."""
        return bool(self._asked.get(key))

    def ask(
        self,
        key: MemoKey,
        generation: int,
        writer: ModelWriter,
        prepare: Prepare,
        *,
        due: bool | None = None,
    ) -> None:
        """Begin a call; `due` says whether the team is to be given its answer, None: no team."""
        if self._client is None:
            # Refused here rather than on the thread: what no call could do without.
            check_extra()
            self._settings.key()
        self._asked[key] = due
        self._in_flight.claims[key] = self
        threading.Thread(
            target=self._run, args=(key, generation, writer, prepare),
            name="merkle-model", daemon=True,
        ).start()  # fmt: skip

    def arrived(self) -> list[Answered]:
        """The answers that have come; they are here until they are forgotten."""
        if self.stopped != "stopped":
            self._arrived.clear()
        self._tried = len(self._came)
        return [self._came[at] for at in range(self._tried)]

    def forget(self, answers: Sequence[Answered]) -> None:
        """Let go of answers that are journalled, the first that came."""
        for one in answers:
            self._asked.pop(one.key, None)
            self._in_flight.claims.pop(one.key, None)
            self._tried -= 1
            self._came.popleft()

    # -- on any thread

    def wait(self, seconds: float | None = None) -> None:
        """Wait until an answer has come."""
        self._arrived.wait(seconds)

    def wake(self) -> None:
        """Let whoever waits look again."""
        self._arrived.set()

    def stop(self, reason: str) -> None:
        """Begin nothing more; calls under way go on."""
        if self.stopped is None:
            self.stopped = reason
        self.budget.close()
        self._brake.stop.set()

    def wait_until(self, deadline: float) -> bool:
        """Wait for an answer that was not looked at; False when none comes in time."""
        while len(self._came) <= self._tried:
            # Before looking, so that whoever wakes this one meanwhile is not overheard.
            self._arrived.clear()
            left = deadline - time.monotonic()
            over = left <= 0 or self._in_flight.is_hurried
            if over or len(self._came) >= len(self._asked):
                return False
            if len(self._came) <= self._tried:
                self._arrived.wait(left)
        return True

    def close(self) -> None:
        """Let go of what is still under way."""
        self.stop("stopped")
        for key in self._asked:
            self._in_flight.claims.pop(key, None)
        self._asked.clear()
        # Whoever waits has nothing left to wait for.
        self._arrived.set()
        for client in (*self._former, *([self._client] if self._client else [])):
            client.close()

    # -- on a thread of its own

    def _run(self, key: MemoKey, generation: int, writer: ModelWriter, prepare: Prepare) -> None:
        try:
            answered = self._answer(key, generation, writer, prepare)
        except Exception as error:
            # Whatever it is, it is one node's failure. Errors of ours have no key in them.
            problem = getattr(error, "message", None) or f"{type(error).__name__}: {error}"
            answered = Answered(key, generation, problem=problem)
        self._came.append(answered)
        self._arrived.set()
        if self in self._in_flight.left:
            self._in_flight.tell()
        elif self._on_answer is not None:
            self._on_answer()

    def _answer(
        self, key: MemoKey, generation: int, writer: ModelWriter, prepare: Prepare
    ) -> Answered:
        request = prepare()
        if isinstance(request, Known):
            return Answered(key, generation, request.body)
        answer = self._caller().call(request)
        if isinstance(answer, Refused):
            self.stop(answer.cap)
            return Answered(key, generation, refused=answer.cap)
        if isinstance(answer, Failure):
            self._note_failure(answer)
            return Answered(key, generation, problem=answer.message)
        with self._lock:
            self._failures = 0
        meta: dict[str, Any] = {
            "model": request.model,
            "prompt": writer.prompt.name,
            "tokens_in": request.tokens if answer.tokens_in is None else answer.tokens_in,
            "tokens_out": answer.tokens_out,
        }
        if request.cut:
            meta["cut"] = dict(request.cut)
        if answer.is_cut:
            meta["output_cut"] = True
        return Answered(key, generation, mask(answer.text), meta)

    def _caller(self) -> Caller:
        values = self._settings.values
        with self._lock:
            if self._client is None:
                self._client = ModelClient(self._settings.server, self._settings.key())
            return Caller(
                self._client, self.budget, self._settings.prices.get,
                values["retries"], values["max_wait"], self._brake,
            )  # fmt: skip

    def _note_failure(self, failure: Failure) -> None:
        with self._lock:
            self._failures = self._failures + 1 if failure.of_server else 0
            if failure.fatal:
                self.stop("refused")
            elif self._failures >= max(IN_A_ROW, int(self._settings.values["concurrency"])):
                self.stop("unreachable")
