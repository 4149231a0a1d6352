"""Running file generators: here for a few files, in worker processes for many.

Parsing holds the interpreter lock, so threads would not help. Workers are spawned, never forked:
a fork would take the database's locks and threads with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from indexer.core import paths
from indexer.core.code import CodeFacts, FactsKey
from indexer.core.frames import body_hash
from indexer.core.hashing import WorkspaceHash, workspace_hash
from indexer.core.ids import ContentId
from indexer.engine.make.processes import HelperProcesses, ProcessEndedError, answer_questions
from indexer.errors import UncheckedError
from indexer.generators.base import FileInput, FingerprintParts, Generator, verified
from indexer.generators.facts import facts_key, facts_of
from indexer.generators.file_terms import file_terms
from indexer.generators.outline import OutlineGenerator
from indexer.generators.parsed import parse
from indexer.generators.registry import make_generator
from indexer.scan.reading import read_content

if TYPE_CHECKING:
    from concurrent.futures import Future

    from indexer.engine.frames.opened import Frames

MANY: Final = 400
"""From this many files on, worker processes repay their start-up."""

_SLICE: Final = 64
"""Files, at most, that a worker is given at once."""


class ChangedError(UncheckedError):
    """A file is not any more what a frame was to be made from."""

    code = "changed"


class FileSource(NamedTuple):
    """A file of the workspace with exactly this content, which a frame is to be bound to."""

    path: str
    content_id: ContentId
    size: int
    facts: bool = False
    """Whether the facts of its code are wanted too, where reading it once gives both."""


class Maker(NamedTuple):
    """A generator by name and options: what can be sent to another process."""

    name: str
    options: tuple[tuple[str, object], ...]
    verify: bool


class Generated(NamedTuple):
    """What came of a task: a body, or why there is none."""

    body: str | None
    problem: str | None = None
    of_place: bool = False
    """Whether the same content may be had from another file."""
    facts: Mapping[FactsKey, CodeFacts] = {}
    """What the code says of itself, where that was asked for and came with the body."""


class GeneratorPool:
    """Runs one generator over files of one workspace."""

    def __init__(self, frames: Frames, generator: Generator, maker: Maker) -> None:
        self._root = frames.root
        self._algorithm = frames.algorithm
        self._code = frames.code
        self._generator = generator
        self._maker = maker
        self._processes: HelperProcesses | None = None
        self._cannot_start = False
        self._ahead: dict[FileSource, tuple[Future[list[Generated]], int]] = {}
        """What was begun before it was asked for, with its place in the answer."""

    def run(self, tasks: Sequence[FileSource], expected: int) -> list[Generated]:
        """An outcome per task, in order; `expected` tells how many are still to come in all."""
        tasks = self._with_facts(tasks)
        if self._cannot_start or (self._processes is None and expected < MANY):
            return [_make(self._root, self._algorithm, self._generator, task) for task in tasks]
        try:
            begun = self._begun(self._workers(), tasks)
            asked = [begun.get(task) or self._ahead.pop(task) for task in tasks]
            return [answer.result()[place] for answer, place in asked]
        except ProcessEndedError:
            self.close()
            self._cannot_start = not self._can_start()
            if self._cannot_start:
                return [_make(self._root, self._algorithm, self._generator, task) for task in tasks]
            made = [self._by_halves(group) for group in _slices(tasks)]
        return [outcome for group in made for outcome in group]

    def wants_more(self, coming: int) -> bool:
        """Whether workers run, and have begun with less than half of what comes next."""
        return self._processes is not None and 2 * len(self._ahead) < coming

    def run_ahead(self, tasks: Iterable[FileSource]) -> None:
        """Let workers that run begin with what comes next; only that is kept of earlier ones."""
        if self._processes is not None:
            tasks = self._with_facts(tasks)
            begun = self._begun(self._processes, tasks)
            self._ahead = {task: begun.get(task) or self._ahead[task] for task in tasks}

    def _with_facts(self, tasks: Iterable[FileSource]) -> list[FileSource]:
        keyed = [(one, facts_key(one.path, one.content_id)) for one in tasks]
        lacking = self._code.lacking({key for _, key in keyed})
        return [one._replace(facts=key in lacking) for one, key in keyed]

    def _begun(
        self, workers: HelperProcesses, tasks: Sequence[FileSource]
    ) -> dict[FileSource, tuple[Future[list[Generated]], int]]:
        """Begin those of some tasks that are not begun, a slice for each worker at a time."""
        begun: dict[FileSource, tuple[Future[list[Generated]], int]] = {}
        for group in _slices([task for task in tasks if task not in self._ahead]):
            asked = workers.begin(group)
            begun.update((task, (asked, place)) for place, task in enumerate(group))
        return begun

    def _workers(self) -> HelperProcesses:
        if self._processes is None:
            beginning = (os.fspath(self._root), self._algorithm.name, self._maker)
            expected = self._generator.fingerprint_parts()
            self._processes = HelperProcesses(_processes(), __name__, beginning, expected)
        return self._processes

    def _can_start(self) -> bool:
        """Whether workers live at all where nothing is asked of them."""
        try:
            self._workers().map([()])
        except ProcessEndedError:
            self.close()
            return False
        return True

    def _by_halves(self, tasks: Sequence[FileSource]) -> list[Generated]:
        """Run tasks among which one may end its process, until it is found."""
        try:
            return [outcome for group in self._workers().map([tasks]) for outcome in group]
        except ProcessEndedError:
            self.close()
        if len(tasks) == 1:
            return [Generated(None, "the generator ended its process")]
        half = len(tasks) // 2
        return self._by_halves(tasks[:half]) + self._by_halves(tasks[half:])

    def run_on(self, path: str, text: str) -> Generated:
        """Run the generator on another frame's body instead of the file."""
        return _generate(self._generator, FileInput(paths.split(path)[1], text.encode()))

    def close(self) -> None:
        """End the workers."""
        self._ahead.clear()
        if self._processes is not None:
            self._processes.close()
            self._processes = None


def _slices(tasks: Sequence[FileSource]) -> list[Sequence[FileSource]]:
    # So that a few files keep every worker busy too.
    size = max(1, min(_SLICE, -(-len(tasks) // _processes())))
    return [tasks[i : i + size] for i in range(0, len(tasks), size)]


def _processes() -> int:
    return max(2, min(8, os.cpu_count() or 2))


# -- in a worker process


def serve() -> None:
    """Run the generator that the first message names over the tasks that the others hold.

    The first word is its fingerprint: results are stored under that of the process that asks.
    """
    prepared: list[tuple[Path, WorkspaceHash, Generator]] = []

    def answer(question: Any) -> FingerprintParts | list[Generated]:
        if not prepared:
            prepared.append(_prepared(*question))
            return prepared[0][2].fingerprint_parts()
        return [_make(*prepared[0], task) for task in question]

    answer_questions(answer)


def _prepared(root: str, hash_name: str, maker: Maker) -> tuple[Path, WorkspaceHash, Generator]:
    generator = make_generator(maker.name, dict(maker.options))
    if maker.verify:
        generator = verified(generator)
    return Path(root), workspace_hash(hash_name), generator


def _make(
    root: Path, algorithm: WorkspaceHash, generator: Generator, task: FileSource
) -> Generated:
    """Read the file, make sure it is the content that was asked for, and run the generator."""
    try:
        content = read_content(root, task.path, task.size)
    except OSError as error:
        return Generated(None, f"cannot be read: {error.strerror or error}", of_place=True)
    if content is None or algorithm.of_file(content) != task.content_id:
        return Generated(None, of_place=True)
    source = FileInput(paths.split(task.path)[1], content)
    wanted = facts_key(task.path, task.content_id) if task.facts else None
    return _generate(generator, source, wanted)


def _generate(generator: Generator, source: FileInput, wanted: FactsKey | None = None) -> Generated:
    """Run a generator; the facts under a wanted key come along where it reads the code itself."""
    try:
        if wanted is not None and isinstance(generator, OutlineGenerator):
            file = parse(source)
            facts = facts_of(file)
            facts = facts._replace(terms=file_terms(wanted[1], file, facts.symbols))
            return Generated(generator.outline(file), facts={wanted: facts})
        body = generator.generate(source)
        body_hash(body)
    except Exception as error:  # a custom generator may do anything; one file must not stop all
        return Generated(None, f"{type(error).__name__}: {error}")
    return Generated(body)


def read_exactly(root: Path, algorithm: WorkspaceHash, task: FileSource) -> bytes:
    """The content that a task names, or an error when the file has another one by now."""
    content = read_content(root, task.path, task.size)
    if content is None or algorithm.of_file(content) != task.content_id:
        raise ChangedError("changed meanwhile")
    return content
