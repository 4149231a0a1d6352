"""Custom code run once more where hashes differ: an order that a set gave is no order."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from indexer.core.tokens import TiktokenCounter
from indexer.core.twice import FingerprintParts, NonDeterministicError, first_difference
from indexer.engine.make.processes import HelperProcesses, ProcessEndedError, answer_questions
from indexer.generators.base import FileInput, Generator
from indexer.generators.registry import custom_policy, make_generator
from indexer.synthesis.base import ChildInput, Policy, Tokens
from indexer.synthesis.registry import make_policy, policy_names

_SEED: Final = "PYTHONHASHSEED"


class Code(NamedTuple):
    """A generator or policy as another process can make it again."""

    name: str
    options: Mapping[str, object]
    parts: FingerprintParts
    tokenizer: str | None = None
    """How a policy counts tokens; None for a generator of files."""


class SecondRun:
    """A process with another hash seed than this one, started when it is first needed."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._process: HelperProcesses | None = None
        self._cannot_start = False

    def check(self, made: str, source: FileInput | Sequence[ChildInput]) -> None:
        """Raise when the same code makes something else of the same source there."""
        if self._process is None and not self._start():
            return
        assert self._process is not None
        try:
            ((again, problem),) = self._process.map([source])
        except ProcessEndedError:
            self.close()
            again, problem = None, "it ended its process"
        if again != made:
            raise NonDeterministicError(
                f"{self._code.name!r} gave two different outputs in two processes: "
                + (problem or f"first at {first_difference(made, again)}"),
                hint="custom code must depend on its input alone: no clock, no random numbers,"
                " no order of a set",
            )

    def _start(self) -> bool:
        """Where no process can be started, running twice in this one has to do."""
        if not self._cannot_start:
            seed = "2" if os.environ.get(_SEED) == "1" else "1"
            beginning = (self._code.name, dict(self._code.options), self._code.tokenizer)
            try:
                self._process = HelperProcesses(
                    1, __name__, beginning, self._code.parts, {_SEED: seed}
                )
            except ProcessEndedError:
                self._cannot_start = True
        return self._process is not None

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close()
            self._process = None


# -- in the other process


def serve() -> None:
    """Run the code that the first message names on what the others hold."""
    prepared: list[Generator | Policy] = []

    def answer(question: Any) -> Any:
        if not prepared:
            prepared.append(_made(*question))
            return prepared[0].fingerprint_parts()
        try:
            return _run(prepared[0], question), None
        except Exception as error:  # custom code may raise anything
            return None, f"{type(error).__name__}: {error}"

    answer_questions(answer)


def _made(name: str, options: Mapping[str, object], tokenizer: str | None) -> Generator | Policy:
    if tokenizer is None:
        return make_generator(name, options)
    if name not in policy_names():
        return custom_policy(name, options)
    counter = TiktokenCounter(encoding_name=tokenizer)
    return make_policy(name, options, tokens=Tokens(tokenizer, counter.count_text))


def _run(made: Generator | Policy, source: FileInput | Sequence[ChildInput]) -> str:
    if isinstance(source, FileInput):
        assert isinstance(made, Generator)
        return made.generate(source)
    assert isinstance(made, Policy)
    return made.synthesize(source)
