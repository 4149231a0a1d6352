"""A small workspace with an open engine, for tests about frames."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from indexer.core.clock import Clock
from indexer.store.layout import initialise
from tests.support.copies import copy_workspace
from tests.support.engines import Engine

PYTHON = 'def {name}({args}):\n    """{doc}"""\n    return {value}\n'


def python(name: str = "f", args: str = "a", value: int = 1, doc: str = "Does it.") -> str:
    """A module with one function; only `value` leaves the outline alone."""
    return PYTHON.format(name=name, args=args, value=value, doc=doc)


class Space:
    """Files on disk and the engine that keeps their frames."""

    def __init__(
        self,
        copy_of: Path | None = None,
        hash_name: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="mkf"))
        self.root = self.base / "w"
        copy_workspace(copy_of or empty_workspace(hash_name), self.root)
        self._clock = clock
        self.open()

    def open(self) -> None:
        self.engine = Engine(self.root, clock=self._clock)

    def clone(self) -> Space:
        """Another workspace with the same files and no index."""
        other = Space(hash_name=self.engine.algorithm.name)
        shutil.copytree(
            self.root, other.root, symlinks=True, dirs_exist_ok=True,
            ignore=shutil.ignore_patterns(".merkle"),
        )  # fmt: skip
        return other

    def reopen(self) -> None:
        self.engine.close()
        self.open()

    def close(self) -> None:
        """Remove it all, and then let go of it: what is gone is not folded before."""
        shutil.rmtree(self.base, ignore_errors=True)
        self.engine.close()

    # -- files

    def write(self, path: str, content: str | bytes) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)

    def fill(self, files: dict[str, str]) -> None:
        for path, content in files.items():
            self.write(path, content)

    def move(self, old: str, new: str) -> None:
        target = self.root / new
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(self.root / old, target)

    def declare(self, text: str) -> None:
        self.write("merkle.toml", text)

    # -- frames

    def events(self, node: str = "", **options: Any) -> list[tuple[str, str]]:
        """Regenerate and give back the log: (action, path), without the type's name."""
        document = self.engine.regenerate(node, **options)
        return [(event["action"], event["path"]) for event in document["events"]]

    def typed_events(self, node: str = "", **options: Any) -> list[tuple[str, str, str]]:
        document = self.engine.regenerate(node, **options)
        return [(event["action"], event["type"], event["path"]) for event in document["events"]]

    def settle(self) -> None:
        """Scan and regenerate everything."""
        self.engine.scan()
        self.engine.regenerate()

    def frame(self, path: str, frame_type: str = "outline", agent: str | None = None) -> Any:
        """The one frame of a type that get_node shows."""
        found, *_ = self.engine.get_node(path, frame_type=frame_type, agent=agent)["frames"]
        return found

    def freshness(self, path: str, frame_type: str = "outline") -> str:
        return str(self.frame(path, frame_type)["freshness"])

    def labels(self, frame_type: str = "outline") -> dict[str, str]:
        """Freshness by path of every head of a type, judged against the disk."""
        tree = self.engine.tree_as_on_disk("")
        found = {}
        for path, _ in tree.walk():
            for head in self.engine.get_head(path, frame_type=frame_type)["heads"]:
                found[path] = head["freshness"]
        return found

    def note(self, path: str, text: str = "a note", **options: Any) -> Any:
        """Write a note as an agent that is registered where needed."""
        agent = options.pop("agent", "ann")
        if agent not in {one["id"] for one in self.engine.list_agents()["agents"]}:
            self.engine.add_agent(agent, "writer")
        kind = options.pop("frame_type", "note")
        return self.engine.put_frame(path, text, frame_type=kind, agent=agent, **options)

    def valid(self) -> None:
        found = self.engine.validate()
        assert found["errors"] == []
        assert found["valid"]


def settled(files: dict[str, str], declared: str | None = None) -> Space:
    """A workspace of one's own with these files, scanned and with every frame made.

    It is made once in a process, and copied: an example of a property costs no more than that.
    """
    return Space(copy_of=_settled(tuple(files.items()), declared))


def prepared(prepare: Callable[[Space], object], copy_of: Path | None = None) -> Space:
    """A workspace of one's own as a function leaves an empty one, or a copy, once it is closed.

    The function is called once in a process, whatever test is the first.
    """
    return Space(copy_of=_prepared(prepare, copy_of))


@contextlib.contextmanager
def only_read(space: Space) -> Iterator[Space]:
    """A workspace for a test that shares it with others: whoever changes it is told so."""

    def state() -> object:
        files = [
            (path, path.lstat().st_mtime_ns)
            for path in sorted(space.root.rglob("*"))
            if ".merkle" not in path.relative_to(space.root).parts
        ]
        return space.engine, space.engine.database.writes, files

    before = state()
    yield space
    assert state() == before, "a test that changes it needs a workspace of its own"


Held = Callable[[str, Callable[[], Space]], contextlib.AbstractContextManager[Space]]
"""Gives the workspace of a name, which the first test that asks has made, to be read only."""


@contextlib.contextmanager
def held_spaces() -> Iterator[Held]:
    """Workspaces for tests that only read them, open until this ends."""
    made: dict[str, Space] = {}

    def held(name: str, make: Callable[[], Space]) -> contextlib.AbstractContextManager[Space]:
        if name not in made:
            made[name] = make()
        return only_read(made[name])

    yield held
    for space in made.values():
        space.close()


@cache
def empty_workspace(hash_name: str | None = None) -> Path:
    """A workspace without files whose index is made, closed: making one takes twice a copy."""
    base = Path(tempfile.mkdtemp(prefix="mkf"))
    atexit.register(shutil.rmtree, base, ignore_errors=True)
    (base / "w").mkdir()
    initialise(base / "w", hash_name)
    Engine(base / "w").close()
    return base / "w"


def with_index(root: Path, hash_name: str | None = None) -> Path:
    """A folder of some files with an index that has recorded nothing yet."""
    return copy_workspace(empty_workspace(hash_name), root)


@cache
def _settled(files: tuple[tuple[str, str], ...], declared: str | None) -> Path:
    def fill(made: Space) -> None:
        if declared is not None:
            made.declare(declared)
        made.fill(dict(files))
        made.settle()

    return _prepared(fill, None)


@cache
def _prepared(prepare: Callable[[Space], object], copy_of: Path | None) -> Path:
    made = Space(copy_of=copy_of)
    prepare(made)
    made.engine.close()
    atexit.register(shutil.rmtree, made.base, ignore_errors=True)
    return made.root
