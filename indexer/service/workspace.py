"""`Workspace`: every operation, through the service where one runs and directly where none does."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

from indexer.engine.documents import (
    DiffDocument,
    JsonObject,
    LogDocument,
    NodeDocument,
    ScanDocument,
    SqlDocument,
    StatusDocument,
    ValidateDocument,
)
from indexer.errors import LockedError, UsageError
from indexer.service.audit_commands import AuditCommands
from indexer.service.client import Client, ServiceError, connect
from indexer.service.context_commands import ContextCommands
from indexer.service.frame_commands import FrameCommands
from indexer.service.operations import OPERATIONS
from indexer.service.session_commands import SessionCommands
from indexer.service.shared_commands import SharedCommands
from indexer.store.layout import FOLDER, initialise, is_initialised

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine

T = TypeVar("T")

MARKERS: Final = (FOLDER, "merkle.toml", ".git")

DEFAULT_WAIT: Final = 30.0
"""Seconds a command waits for another one to let go of the index."""

_SLICE: Final = 0.25
"""Seconds to wait for the lock before looking whether its holder has become a service."""

_PAUSE: Final = 0.05
"""Seconds before asking again where a service has just stopped."""


def find_workspace(start: Path | None = None) -> Path:
    """The nearest folder at or above `start` that is marked as a workspace, else `start`."""
    origin = Path(os.path.abspath(start or Path.cwd()))
    for folder in (origin, *origin.parents):
        if any((folder / marker).exists() for marker in MARKERS):
            return folder
    return origin


class Workspace(FrameCommands, ContextCommands, SessionCommands, AuditCommands, SharedCommands):
    """An open workspace. Use `Workspace.open(path)` in a `with` statement."""

    def __init__(self, root: Path, client: Client | None, wait: float | None) -> None:
        self.root = root
        self._client = client
        self._wait = wait
        self._engine: Engine | None = None
        self._closed: Engine | None = None

    @classmethod
    def open(cls, path: str | os.PathLike[str] | None = None, *, wait: float | None = None) -> Self:
        """Open the workspace at `path`, or the nearest one around the current folder.

        Nothing is created; `scan` initialises a new workspace, everything else refuses one.
        """
        root = Path(os.path.abspath(path)) if path is not None else find_workspace()
        if not root.is_dir():
            raise UsageError(f"{root} is not a folder", hint="name an existing folder")
        return cls(root, connect(root) if is_initialised(root) else None, wait)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the index."""
        if self._engine is not None:
            self._engine.close()
            # Kept as it is: a command that is about to leave should not take its tree apart.
            self._closed, self._engine = self._engine, None

    @property
    def is_remote(self) -> bool:
        """Whether a service answers for this workspace."""
        return self._client is not None

    @property
    def is_initialised(self) -> bool:
        """Whether there is an index at all."""
        return is_initialised(self.root)

    def init(self, hash_name: str | None = None) -> dict[str, Any]:
        """Make the workspace's own folder; harmless to repeat."""
        made, new = initialise(self.root, hash_name)
        return {"workspace": str(self.root), "hash": made.hash_name, "created": new}

    def scan(
        self,
        *,
        force: bool = False,
        accept_empty: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> ScanDocument:
        """Bring the index up to date with the disk."""
        self.init()
        body = {"force": force, "accept_empty": accept_empty}
        return self._run(
            lambda engine: engine.scan(force=force, accept_empty=accept_empty, progress=progress),
            lambda client: client.post("/v1/scan", body),
        )

    def status(self, *, wait: bool = True) -> StatusDocument:
        """Compare the disk with the index; with a service, first wait until it has seen all."""
        query = {} if wait else {"wait": "false"}
        return self._run(
            lambda engine: engine.status(), lambda client: client.get("/v1/status", query)
        )

    def why_ignored(self, path: str) -> JsonObject:
        """The rule that leaves a path out of the tree, or lets it in."""
        return self._run(
            lambda engine: engine.why_ignored(path),
            lambda client: client.get("/v1/why-ignored", {"path": path}),
        )

    def validate(
        self,
        *,
        content: bool = False,
        subset: tuple[int, int] | None = None,
        expect_root: str | None = None,
        locked: bool = False,
    ) -> ValidateDocument:
        """Every invariant; the disk against the index (`content`) or merkle.lock (`locked`)."""
        body = {
            "content": content, "subset": subset, "expect_root": expect_root, "locked": locked
        }  # fmt: skip
        return self._run(
            lambda engine: engine.validate(
                content=content, subset=subset, expect_root=expect_root, locked=locked
            ),
            lambda client: client.post("/v1/validate", body),
        )

    def log(self, limit: int = 20) -> LogDocument:
        """Recorded roots, newest first."""
        return self._run(
            lambda engine: engine.log(limit),
            lambda client: client.get("/v1/log", {"limit": str(limit)}),
        )

    def diff(self, old: str, new: str) -> DiffDocument:
        """What differs between two recorded roots, or between two recorded manifests."""
        return self._run(
            lambda engine: engine.diff(old, new),
            lambda client: client.get("/v1/diff", {"old": old, "new": new}),
        )

    def sql(self, query: str, *, limit: int = 1000, timeout: float = 10.0) -> SqlDocument:
        """One read-only SELECT."""
        body = {"query": query, "limit": limit, "timeout": timeout}
        return self._run(
            lambda engine: engine.sql(query, limit=limit, timeout=timeout),
            lambda client: client.post("/v1/sql", body),
        )

    def resolve(self, node: str) -> NodeDocument:
        """The node that a path or an id prefix stands for."""
        return self._run(
            lambda engine: engine.resolve(node),
            lambda client: client.get("/v1/resolve", {"node": node}),
        )

    def operate(
        self, name: str, progress: Callable[[int], None] | None = None, **arguments: Any
    ) -> JsonObject:
        """Run an operation by its name."""
        return self.operate_with(name, arguments, progress)

    def operate_with(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        progress: Callable[[int], None] | None = None,
    ) -> JsonObject:
        """The same with the arguments as a mapping, so that one of them may be called name."""
        known = OPERATIONS[operation]
        given = {key: value for key, value in arguments.items() if value is not None}
        asked: dict[str, Any] = {}

        def local(engine: Engine) -> JsonObject:
            again = {**asked, "again": True} if asked else {}
            return cast(JsonObject, known.run(engine, {**given, **again}, progress))

        def remote(client: Client) -> JsonObject:
            sent = {**given, **asked, "again": True} if asked else given
            if known.once and not asked:
                # A service may die after it has done this and before it can say so.
                asked["once"] = os.urandom(12).hex()
                sent = {**given, **asked}
            if known.begin is not None:
                return client.post(f"/v1/{operation}", sent, patient=True)
            return client.post(f"/v1/{operation}", sent)

        return self._run(local, remote)

    # -- by whichever way is open

    def _run(self, local: Callable[[Engine], T], remote: Callable[[Client], dict[str, Any]]) -> T:
        deadline = time.monotonic() + self._patience
        while True:
            if self._client is None and self._engine is None:
                self._attach(deadline)
            if self._client is None:
                assert self._engine is not None
                return local(self._engine)
            try:
                # The service runs the same operation and sends its document as it is.
                return cast(T, remote(self._client))
            except ServiceError:
                # It stopped between two requests; its successor or this process answers.
                self._client = None
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_PAUSE * random.uniform(0.5, 1.5))

    @property
    def _patience(self) -> float:
        return DEFAULT_WAIT if self._wait is None else self._wait

    def _attach(self, deadline: float) -> None:
        """Become the owner, or find the service that is; wait for a command that has the lock."""
        # Imported late: with a service running, a command never needs the database library.
        from indexer.engine.workspace import Engine

        while True:
            self._client = connect(self.root)
            if self._client is not None:
                return
            try:
                left = deadline - time.monotonic()
                self._engine = Engine(self.root, wait=max(0.0, min(left, _SLICE)))
                return
            except LockedError:
                if time.monotonic() >= deadline:
                    raise
