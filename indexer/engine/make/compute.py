"""Running a type's generator and policy: once for a key, and custom code twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from indexer.core import paths
from indexer.core.frames import body_hash
from indexer.core.twice import NonDeterministicError
from indexer.engine.frames.opened import Frames
from indexer.engine.frames.types import FrameType
from indexer.engine.make.bodies import Bodies
from indexer.engine.make.item import FolderSource, Source, TextSource
from indexer.engine.make.processes import OtherCodeError
from indexer.engine.make.second_run import Code, SecondRun
from indexer.engine.make.workers import (
    ChangedError,
    FileSource,
    Generated,
    GeneratorPool,
    Maker,
    read_exactly,
)
from indexer.generators.base import FileInput, Generator
from indexer.synthesis.base import Policy


class Computing:
    """What makes the frames of one type, with the processes that it takes."""

    def __init__(self, frames: Frames, declared: FrameType, bodies: Bodies) -> None:
        self._frames = frames
        self._type = declared
        self._bodies = bodies
        self._pool: GeneratorPool | None = None
        self._second_runs: dict[str, SecondRun] = {}
        """By what it makes, where custom code is checked."""

    def run(self, sources: Sequence[Source], files: int) -> list[Generated]:
        """What comes of each, all of one kind; `files` tells how many are still to come in all."""
        if folders := [one for one in sources if isinstance(one, FolderSource)]:
            self._bodies.read(body for one in folders for _, _, body in one.bodies if body)
            return [self._synthesized(one) for one in folders]
        if texts := [one for one in sources if isinstance(one, TextSource)]:
            self._bodies.read(one.content for one in texts)
            return [self._run_on(one) for one in texts]
        read = [one for one in sources if isinstance(one, FileSource)]
        made = self._workers().run(read, files)
        return [self._run_again(made, one) for made, one in zip(made, read, strict=True)]

    def wants_more(self, coming: int) -> bool:
        """Whether there are workers that could begin with some of what comes next."""
        return self._pool is not None and self._pool.wants_more(coming)

    def run_ahead(self, files: Iterable[FileSource]) -> None:
        """Let the workers go on with these files while what they made before is stored."""
        if self._pool is not None:
            self._pool.run_ahead(files)

    def close(self) -> None:
        """End the worker processes, if there are any."""
        for helper in (self._pool, *self._second_runs.values()):
            if helper is not None:
                helper.close()
        self._pool = None
        self._second_runs.clear()

    def _workers(self) -> GeneratorPool:
        if self._pool is None:
            maker = self._type.file
            assert maker is not None
            assert maker.writer is None
            sent = Maker(maker.name, tuple(maker.options.items()), maker.verify)
            self._pool = GeneratorPool(self._frames, cast(Generator, maker.generator), sent)
        return self._pool

    def _run_on(self, source: TextSource) -> Generated:
        text = self._bodies.of(source.content)
        return self._run_again(self._workers().run_on(source.path, text), source)

    def _run_again(self, made: Generated, source: FileSource | TextSource) -> Generated:
        """What a generator made, once custom code has made the same in another process."""
        maker = self._type.file
        if maker is None or not maker.verify or made.body is None:
            return made
        assert maker.writer is None
        code = Code(maker.name, maker.options, maker.generator.fingerprint_parts())
        try:
            if isinstance(source, FileSource):
                content = read_exactly(self._frames.root, self._frames.algorithm, source)
            else:
                content = self._bodies.of(source.content).encode()
            name = paths.split(source.path)[1]
            self._second_run("file", code).check(made.body, FileInput(name, content))
        except (OSError, ChangedError):
            return Generated(None, of_place=True)
        except NonDeterministicError as error:
            return Generated(None, f"{type(error).__name__}: {error}")
        return made

    def _second_run(self, kind: str, code: Code) -> SecondRun:
        return self._second_runs.setdefault(kind, SecondRun(code))

    def _synthesized(self, source: FolderSource) -> Generated:
        maker = self._type.folder
        assert maker is not None
        assert maker.writer is None
        policy = cast(Policy, maker.policy)
        inputs = self._bodies.inputs_of(source.bodies)
        try:
            body = policy.synthesize(inputs)
            body_hash(body)
            if maker.verify:
                parts = policy.fingerprint_parts()
                tokenizer = self._frames.declared.tokens.tokenizer
                code = Code(maker.name, maker.options, parts, tokenizer)
                self._second_run("folder", code).check(body, inputs)
        except OtherCodeError:
            raise
        except Exception as error:  # a custom policy may raise anything
            return Generated(None, f"{type(error).__name__}: {error}")
        return Generated(body)
