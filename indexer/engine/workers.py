"""Running file generators: here for a few files, in worker processes for many.

Parsing holds the interpreter lock, so threads would not help. Workers are spawned, never forked:
a fork would take the database's locks and threads with it.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from indexer.core import paths
from indexer.core.hashing import WorkspaceHash, workspace_hash
from indexer.core.ids import ContentId
from indexer.generators.base import FileInput, Generator
from indexer.generators.registry import make_generator
from indexer.scan.reading import open_folder

MANY: Final = 400
"""From this many files on, worker processes repay their start-up."""

_SLICE: Final = 64


class Task(NamedTuple):
    """One file to make a frame for, with the content the frame is to be bound to."""

    path: str
    content_id: ContentId


class Maker(NamedTuple):
    """A generator by name and options: what can be sent to another process."""

    name: str
    options: tuple[tuple[str, object], ...]


class Outcome(NamedTuple):
    """What came of a task: a body, or why there is none."""

    body: str | None
    problem: str | None


class GeneratorPool:
    """Runs one generator over files of one workspace."""

    def __init__(
        self, root: Path, algorithm: WorkspaceHash, generator: Generator, maker: Maker
    ) -> None:
        self._root = root
        self._algorithm = algorithm
        self._generator = generator
        self._maker = maker
        self._executor: ProcessPoolExecutor | None = None

    def run(self, tasks: Sequence[Task], expected: int) -> list[Outcome]:
        """An outcome per task, in order; `expected` tells how many are still to come in all."""
        if self._executor is None and expected < MANY:
            return [_make(self._root, self._algorithm, self._generator, task) for task in tasks]
        if self._executor is None:
            self._executor = ProcessPoolExecutor(
                max_workers=max(2, min(8, os.cpu_count() or 2)),
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_begin,
                initargs=(os.fspath(self._root), self._algorithm.name, self._maker),
            )
        slices = [tasks[i : i + _SLICE] for i in range(0, len(tasks), _SLICE)]
        return [outcome for group in self._executor.map(_make_many, slices) for outcome in group]

    def run_on(self, path: str, text: str) -> Outcome:
        """Run the generator on another frame's body instead of the file."""
        try:
            source = FileInput(paths.split(path)[1], text.encode())
            return Outcome(self._generator.generate(source), None)
        except Exception as error:  # a custom generator may raise anything
            return Outcome(None, f"{type(error).__name__}: {error}")

    def close(self) -> None:
        """End the workers."""
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None


# -- in a worker process

_worker: tuple[Path, WorkspaceHash, Generator] | None = None


def _begin(root: str, hash_name: str, maker: Maker) -> None:
    global _worker
    options: Mapping[str, object] = dict(maker.options)
    _worker = (Path(root), workspace_hash(hash_name), make_generator(maker.name, options))


def _make_many(tasks: Sequence[Task]) -> list[Outcome]:
    assert _worker is not None
    return [_make(*_worker, task) for task in tasks]


def _make(root: Path, algorithm: WorkspaceHash, generator: Generator, task: Task) -> Outcome:
    """Read the file, make sure it is the content that was asked for, and run the generator."""
    try:
        content = read_content(root, task.path)
    except OSError as error:
        return Outcome(None, f"cannot be read: {error.strerror or error}")
    if algorithm.of_file(content) != task.content_id:
        return Outcome(None, None)
    name = paths.split(task.path)[1]
    try:
        return Outcome(generator.generate(FileInput(name, content)), None)
    except Exception as error:  # a custom generator may raise anything; one file must not stop all
        return Outcome(None, f"{type(error).__name__}: {error}")


def read_content(root: Path, path: str) -> bytes:
    """A file's bytes, reached without following any link inside the workspace."""
    parent, name = paths.split(path)
    folder = open_folder(root, parent)
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(paths.text_to_os(name), flags, dir_fd=folder)
    finally:
        os.close(folder)
    with open(descriptor, "rb", buffering=0) as file:
        return file.readall()
