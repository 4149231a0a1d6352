"""`Workspace`: every operation, through the service where one runs and directly where none does."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

from indexer.core.beside import beside
from indexer.core.progress import Progress, begin, meter_of
from indexer.errors import LockedError, MerkleError, UsageError
from indexer.service.client import Client, ServiceError, connect
from indexer.service.methods import Methods
from indexer.service.operations import OPERATIONS
from indexer.service.whose_socket import nearest_workspace
from indexer.store.binding import ForeignIndexError
from indexer.store.layout import initialise, is_initialised
from indexer.store.lock import DEFAULT_WAIT

if TYPE_CHECKING:
    from indexer.engine.tree.unchanged import FirstLook
    from indexer.engine.workspace import Engine
    from indexer.service.following import Following

T = TypeVar("T")

_SLICE: Final = 0.25
"""Seconds to wait for the lock before looking whether its holder has become a service."""

_PAUSE: Final = 0.05
"""Seconds before asking again where a service has just stopped."""


def _sendable(name: str, value: Any) -> Any:
    """A value as JSON has it; a file by its absolute name, which both ends understand alike."""
    if name == "file":
        return os.path.abspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def _spelled(value: Any) -> str:
    """A value as a query has it."""
    return value if isinstance(value, str) else json.dumps(value)


def _load_engine() -> type[Engine]:
    # Imported late: with a service running, a command never needs the database library.
    from indexer.engine.workspace import Engine

    return Engine


def _load_ahead(name: str, open_it: Callable[[], None]) -> None:
    """Open the database, which takes little of the interpreter, while an operation is loaded."""
    # Imported late: with a service running, a command never needs the database library.
    from indexer.engine.workspace import load_frames

    with beside(open_it) as opened:
        _ = OPERATIONS[name].function, OPERATIONS["scan"].function
        load_frames()
    opened()


def _is_about_everything(name: str, given: Mapping[str, Any]) -> bool:
    """Whether an operation is a question that may be answered from any file."""
    within = (given.get(key) for key in ("nodes", "related", "sources"))
    return name == "search" or (name == "compose" and "query" in given and not any(within))


def find_workspace(start: Path | None = None) -> Path:
    """The nearest folder at or above `start` that is marked as a workspace, else `start`."""
    return Path(nearest_workspace(os.path.abspath(start or Path.cwd())))


class Workspace(Methods):
    """An open workspace. Use `Workspace.open(path)` in a `with` statement."""

    may_own = True
    """Whether this process may look after the index itself where no service does."""
    may_fork = False
    """Whether this process does nothing else, so that it may fork where that is faster."""

    goes_on_with: str | None = None
    """The operation that comes after a scan in any case: while others look, it is loaded and the
    database opened."""

    def __init__(self, root: Path, client: Client | None, wait: float | None) -> None:
        self.root = root
        self._client = client
        self._wait = wait
        self._engine: Engine | None = None
        self.files = 0
        """How many files there are, where this process has just looked at them itself."""
        self._followers: list[Following] = []
        self._beside = contextlib.ExitStack()

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

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the index, and tell nobody any more."""
        for follower in list(self._followers):
            follower.close()
        self._beside.close()
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    @property
    def is_remote(self) -> bool:
        """Whether a service answers for this workspace."""
        return self._client is not None

    @property
    def is_initialised(self) -> bool:
        """Whether there is an index at all."""
        return is_initialised(self.root)

    def init(self, hash_name: str | None = None, *, adopt: bool = False) -> dict[str, Any]:
        """Make the workspace's own folder; harmless to repeat.

        With `adopt`, an index that was made elsewhere is checked and taken over.
        """
        adopted = None
        try:
            made, new = initialise(self.root, hash_name)
        except ForeignIndexError:
            if not adopt:
                raise
            # Imported late: with a service running, a command never needs the database library.
            from indexer.engine.durable import adopt as adoption

            adopted = adoption.adopt(self.root, hash_name)
            made, new = initialise(self.root)
        named = {"workspace": str(self.root), "hash": made.hash_name, "created": new}
        return named | {"adopted": adopted}

    def subscribe(self, callback: Callable[[dict[str, Any]], object]) -> Following:
        """Call a function with every event of docs/events.md, until what this gives is closed.

        With a service it is called for whatever changes, on a thread of its own; without one, for
        what is done through this object, before the call that does it returns.
        """
        # Imported late: most clients follow nothing.
        from indexer.service.following import Following

        follower = Following(self.root, callback, self._forget)
        self._followers.append(follower)
        if self._engine is not None:
            self._tell(self._engine, follower)
        return follower

    @staticmethod
    def _tell(engine: Engine, follower: Following) -> None:
        engine.subscribers.append(follower.publish)
        engine.frame_subscribers.append(follower.publish_frames)

    def _forget(self, follower: Following) -> None:
        if follower in self._followers:
            self._followers.remove(follower)
        if self._engine is not None and follower.publish in self._engine.subscribers:
            self._engine.subscribers.remove(follower.publish)
            self._engine.frame_subscribers.remove(follower.publish_frames)

    def _operate(self, name: str, values: dict[str, Any]) -> Any:
        told: Progress | None = values.pop("progress", None)
        del values["self"]
        with contextlib.nullcontext(told) if told is not None else self._meter() as progress:
            return self._do(name, values, progress)

    def _meter(self) -> AbstractContextManager[Progress | None]:
        """What an operation tells how far it is, where its caller does not want to know."""
        return contextlib.nullcontext()

    def _do(self, name: str, values: dict[str, Any], progress: Progress | None) -> Any:
        operation = OPERATIONS[name]
        given = {key: _sendable(key, value) for key, value in values.items() if value is not None}
        if operation.creates:
            self.init()
        if (document := self._unchanged(name, given, progress)) is not None:
            return document
        if name == "validate" and given.get("content") and progress is None:
            self._read_beside()
        marks: dict[str, Any] = {}

        def local(engine: Engine) -> Any:
            begin(progress, name)
            document = operation.run(engine, {**given, **marks}, progress)
            if operation.module.startswith("sessions.") and operation.is_writing(given):
                for follower in self._followers:
                    follower.publish_session(str(given.get("name") or ""))
            return document

        def remote(client: Client) -> Any:
            meter = meter_of(progress)
            begin(meter, "waiting for the service")
            sent = {**given, **marks}
            if operation.once and not marks:
                # A service may die after it has done this and before it can say so.
                once = os.urandom(12).hex()
                sent["once"] = once
                marks.update(once=once, again=True)
            if operation.get:
                query = {key: _spelled(value) for key, value in sent.items()}
                return client.get(f"/v1/{name}", query, meter=meter)
            return client.post(f"/v1/{name}", sent, patient=operation.in_steps, meter=meter)

        begin(progress, "opening the index")
        return self._run(local, remote)

    @contextlib.contextmanager
    def as_scanned(self) -> Iterator[None]:
        """What is made meanwhile is made from what was just scanned, without a second look.

        A file that has changed since is found out all the same: its content is compared when it
        is read. A service looks by itself.
        """
        engine = self._engine
        if engine is None:
            yield
            return
        engine.as_scanned = True
        try:
            yield
        finally:
            engine.as_scanned = False

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
                # Imported late: services seldom stop.
                import random

                time.sleep(_PAUSE * random.uniform(0.5, 1.5))

    def _unchanged(self, name: str, given: Mapping[str, Any], progress: Progress | None) -> Any:
        """What a scan or status gives where nothing has changed, without opening the database.

        None where something has, or where that cannot be told so: then what was seen is handed on,
        as it always is to a question.
        """
        plain = all(value is False or key == "wait" for key, value in given.items())
        asked = name in ("scan", "status") and plain
        # A question to all of it begins with a look, too, which pays where others share it.
        is_question = self.may_fork and _is_about_everything(name, given)
        if not (asked or is_question) or not self.may_own or self._client or self._engine:
            return None
        # Imported late: with a service running, a command looks at nothing itself.
        from indexer.engine.owned import Owned
        from indexer.engine.tree.unchanged import look_first, read_first

        try:
            owned = Owned(self.root, wait=0.0)
        except MerkleError:
            # The ordinary way waits, or says what is wrong.
            return None
        document: Any = None
        first: FirstLook | None = None
        is_opened = False

        def open_it() -> None:
            nonlocal is_opened
            is_opened = True
            self._take(_load_engine()(self.root, owned=owned))

        try:
            following = name if is_question else self.goes_on_with
            first = look_first(
                owned,
                None if is_question else progress,
                may_fork=self.may_fork,
                counted=name == "status",
                meanwhile=partial(_load_ahead, following, open_it) if following else None,
            )
            if first is None and name == "scan" and self.may_fork and not is_opened:
                # The database is made while others read.
                first = read_first(owned, progress, open_it)
            if first is not None and asked and not is_opened:
                document = first.scan() if name == "scan" else first.status()
        except MerkleError:
            if is_opened and self._engine is None:
                # With the database that cannot be opened, the lock was let go of.
                raise
            first = None
        except BaseException:
            if not is_opened:
                owned.release()
            raise
        if document is not None:
            owned.release()
            self.files = document["files"]
            return document
        if not is_opened:
            open_it()
        if first is not None and self._engine is not None:
            self._engine.begin_with(first)
        return None

    def _read_beside(self) -> None:
        """Let another process read the files to be checked, while this one checks the rest."""
        if self._client or self._engine or not self.may_fork:
            return
        # Imported late: with a service running, a command looks at nothing itself.
        from indexer.engine.owned import Owned
        from indexer.engine.tree.unchanged import contents_compared

        try:
            owned = Owned(self.root, wait=0.0)
        except MerkleError:
            # The ordinary way waits, or says what is wrong.
            return
        try:
            compared = self._beside.enter_context(contents_compared(owned))
        except MerkleError:
            # It is found out again, where it is said as it should be.
            compared = None
        except BaseException:
            owned.release()
            raise
        engine = _load_engine()(self.root, owned=owned)
        engine.contents_compared = compared
        self._take(engine)

    def _take(self, engine: Engine) -> None:
        self._engine = engine
        for follower in self._followers:
            self._tell(engine, follower)

    @property
    def _patience(self) -> float:
        return DEFAULT_WAIT if self._wait is None else self._wait

    def _attach(self, deadline: float) -> None:
        """Become the owner, or find the service that is; wait for a command that has the lock."""
        while True:
            self._client = connect(self.root)
            if self._client is not None:
                return
            try:
                left = deadline - time.monotonic()
                self._take(_load_engine()(self.root, wait=max(0.0, min(left, _SLICE))))
                return
            except LockedError:
                if time.monotonic() >= deadline:
                    raise
