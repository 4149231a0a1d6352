"""The keeper: one thread that owns the engine's writes and keeps the index true.

Events are hints that end up in a debounce; when they are due, the keeper looks at the disk and
records one batch. Everything that writes runs here, one after the other.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from indexer.engine.engine import Engine
from indexer.engine.root import EmptiedError, ReplacedError, UnavailableError
from indexer.errors import MerkleError
from indexer.scan.scopes import RULE_FILES
from indexer.watch.choose import start_watcher
from indexer.watch.debounce import Debounce, Timing
from indexer.watch.sink import Watcher

T = TypeVar("T")

COOKIE_PATIENCE: Final = 5.0
"""Seconds after which a cookie that did not come back means that events do not arrive."""

ROOT_POLL: Final = 0.5
"""Seconds between two looks for a workspace that has gone away."""

DEGRADED_POLL: Final = 5.0
"""Seconds between two scans while events cannot be relied on."""

FLUSH_LISTINGS: Final = 60.0
"""Seconds after which the stat cache is brought up to date with the tree."""


@dataclass(frozen=True, slots=True)
class Health:
    """How the service is doing."""

    state: str
    """`starting`, `watching`, `degraded`, `unavailable` or `stopped`."""
    reason: str | None
    watches: int
    batches: int
    pending: bool


class Keeper:
    """Runs the loop on a thread of its own."""

    def __init__(
        self, engine: Engine, *, timing: Timing | None = None, rescan_every: float = 900.0
    ) -> None:
        self.engine = engine
        self._debounce = Debounce(timing or Timing())
        self._rescan_every = rescan_every
        self._wake = threading.Condition()
        self._jobs: deque[Callable[[], None]] = deque()
        self._watcher: Watcher | None = None
        self._cookies: dict[str, threading.Event] = {}
        self._cookie_numbers = itertools.count(1)
        self._unavailable: MerkleError | None = None
        self._degraded: str | None = None
        self._lost_events = False
        self._started = threading.Event()
        self._stopping = False
        self._batches = 0
        self._next_rescan = 0.0
        self._next_flush = 0.0
        self.fatal: MerkleError | None = None
        """Why the keeper stopped by itself."""
        self._thread = threading.Thread(target=self._run, name="merkle-keeper", daemon=True)

    # -- from other threads

    def start(self) -> None:
        """Start the thread; it watches, scans, and then follows events."""
        self._thread.start()

    def wait_until_started(self, timeout: float | None = None) -> bool:
        """Wait for the first scan to be done (or to have failed for good)."""
        return self._started.wait(timeout)

    def stop(self) -> None:
        """Finish what is running, then stop; returns when the thread has ended."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def is_alive(self) -> bool:
        """Whether the loop runs."""
        return self._thread.is_alive()

    def call(self, work: Callable[[], T]) -> T:
        """Run something on the keeper's thread and return or raise what it does."""
        future: Future[T] = Future()

        def job() -> None:
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

        with self._wake:
            if self._stopping or not self._thread.is_alive():
                raise UnavailableError("the service is stopping", hint="run the command again")
            self._jobs.append(job)
            self._wake.notify()
        return future.result()

    def health(self) -> Health:
        """How things are now."""
        watcher = self._watcher
        if not self._thread.is_alive():
            state, reason = "stopped", self.fatal.message if self.fatal else None
        elif self._unavailable is not None:
            state, reason = "unavailable", self._unavailable.message
        elif self._degraded is not None:
            state, reason = "degraded", self._degraded
        else:
            state, reason = ("watching" if self._started.is_set() else "starting"), None
        watches = watcher.count if watcher else 0
        return Health(state, reason, watches, self._batches, bool(self._debounce))

    def catch_up(self, patience: float = COOKIE_PATIENCE) -> bool:
        """Wait until everything written before this call is in the index; False: cannot tell."""
        if self._unavailable is not None or self._watcher is None:
            return False
        seen = threading.Event()
        name = f"{os.getpid()}-{next(self._cookie_numbers)}"
        self._cookies[name] = seen
        path = self.engine.layout.cookies / name
        try:
            path.touch()
            arrived = seen.wait(patience)
        except OSError:
            arrived = False
        finally:
            self._cookies.pop(name, None)
            with contextlib.suppress(OSError):
                path.unlink()
        if not arrived:
            self._degrade("a change made on purpose was not noticed")
            return False
        return self.call(self._process_all)

    # -- the sink: called by the watcher's thread

    def changed(self, path: str, is_folder: bool, deep: bool) -> None:
        """Note a path, unless a rule ignores it: ignored files must not even wake the loop."""
        name = path.rpartition("/")[2]
        if name not in RULE_FILES:
            with contextlib.suppress(OSError):
                if path and self.engine.scopes.ignores(path, is_folder):
                    return
        with self._wake:
            idle = not self._debounce
            self._debounce.add(path, deep, self.engine.clock.monotonic())
            # A loop that waits for a deadline already looks again by itself.
            if idle:
                self._wake.notify()

    def cookie(self, name: str) -> None:
        """All events before this cookie have been noted."""
        seen = self._cookies.get(name)
        if seen is not None:
            seen.set()

    def lost(self, reason: str) -> None:
        """Start over: new watcher, then look at everything."""
        with self._wake:
            self._lost_events = True
            self._debounce.add_everything(self.engine.clock.monotonic())
            self._debounce.flush()
            self._wake.notify()

    # -- the loop

    def _run(self) -> None:
        try:
            self._begin()
            while not self._stopping:
                self._wait()
                self._do_jobs()
                self._step()
        except MerkleError as error:
            self.fatal = error
        finally:
            self._started.set()
            if self._watcher is not None:
                self._watcher.stop()
            self._refuse_jobs()

    def _begin(self) -> None:
        """Watch and scan; a workspace that cannot be read now is waited for."""
        self._restart_watcher()
        self._guarded(lambda: self._look_at_everything("start"))
        self._started.set()

    def _wait(self) -> None:
        with self._wake:
            while not self._stopping and not self._jobs:
                now = self.engine.clock.monotonic()
                deadline = self._deadline()
                if deadline <= now:
                    return
                self._wake.wait(deadline - now)

    def _deadline(self) -> float:
        candidates = [self._next_rescan]
        if self._unavailable is not None:
            return self._next_rescan
        pending = self._debounce.deadline()
        if pending is not None:
            candidates.append(pending)
        if self._next_flush:
            candidates.append(self._next_flush)
        return min(candidates)

    def _do_jobs(self) -> None:
        while self._jobs:
            self._jobs.popleft()()

    def _refuse_jobs(self) -> None:
        with self._wake:
            self._stopping = True
        self._do_jobs()

    def _step(self) -> None:
        now = self.engine.clock.monotonic()
        if self._stopping:
            return
        if self._unavailable is not None:
            if now >= self._next_rescan:
                self._look_for_root()
            return
        if self._watcher is not None and not self._watcher.is_alive():
            self.lost("the watcher's thread died")
        if self._debounce.is_due(now):
            self._process_pending()
        elif now >= self._next_rescan:
            self._guarded(lambda: self._look_at_everything("rescan"))
        if self._next_flush and now >= self._next_flush:
            self._next_flush = 0.0
            self.engine.flush_listings()

    def _process_all(self) -> bool:
        """Look at everything pending, also what turns up meanwhile; True when all is recorded."""
        for _ in range(50):
            if not self._debounce:
                break
            if self._unavailable is not None:
                return False
            self._process_pending()
        return self._unavailable is None and not self._debounce

    def _process_pending(self) -> None:
        with self._wake:
            pending = self._debounce.take()
        if self._lost_events:
            self._restart_watcher()
        if pending.everything:
            self._guarded(lambda: self._look_at_everything("rescan"))
        elif pending.paths:
            self._guarded(lambda: self._look_at(pending.paths))

    def _look_at(self, paths: dict[str, bool]) -> None:
        _, changes, unsettled = self.engine.reconcile(paths.items(), on_folder=self._watch)
        self._after_batch(bool(changes))
        if unsettled:
            with self._wake:
                for path in unsettled:
                    self._debounce.add(path, False, self.engine.clock.monotonic())

    def _look_at_everything(self, cause: str) -> None:
        document = self.engine.scan(cause=cause, on_folder=self._watch)
        moved = document["added"] + document["modified"] + document["removed"]
        self._after_batch(bool(moved))

    def _after_batch(self, moved: bool) -> None:
        now = self.engine.clock.monotonic()
        self._batches += moved
        self._check_watches()
        self._next_rescan = now + (self._rescan_every if not self._degraded else DEGRADED_POLL)
        if moved and not self._next_flush:
            self._next_flush = now + FLUSH_LISTINGS

    def _guarded(self, work: Callable[[], Any]) -> None:
        """Run a look; a workspace out of reach makes the service wait, not forget."""
        try:
            work()
        except ReplacedError:
            raise
        except UnavailableError as error:
            self._unavailable = error
            self._next_rescan = self.engine.clock.monotonic() + ROOT_POLL

    def _look_for_root(self) -> None:
        """Try again; when the workspace is back, watch and scan it anew."""
        was_emptied = isinstance(self._unavailable, EmptiedError)
        self._unavailable = None
        try:
            self.engine.check_root()
            if not was_emptied:
                self._restart_watcher()
        except UnavailableError as error:
            self._unavailable = error
            self._next_rescan = self.engine.clock.monotonic() + ROOT_POLL
            return
        self._guarded(lambda: self._look_at_everything("back"))

    # -- watching

    def _watch(self, path: str) -> None:
        if self._watcher is not None:
            self._watcher.add(path)

    def _restart_watcher(self) -> None:
        if self._watcher is not None:
            self._watcher.stop()
            self._watcher = None
        self._lost_events = False
        try:
            self._watcher = start_watcher(self.engine.root, self.engine.layout.cookies, self)
        except OSError as error:
            self._degrade(f"no events: {error.strerror or error}")

    def _check_watches(self) -> None:
        if self._watcher is None:
            return
        missing = self._watcher.unwatched
        if missing:
            self._degrade(f"{missing} folders cannot be watched (out of inotify watches?)")
        else:
            self._degraded = None

    def _degrade(self, reason: str) -> None:
        self._degraded = reason
        with self._wake:
            soon = self.engine.clock.monotonic() + DEGRADED_POLL
            self._next_rescan = min(self._next_rescan, soon) if self._next_rescan else soon
            self._wake.notify()

    def accept_scan(self, *, force: bool, accept_empty: bool) -> Any:
        """A scan that a client asked for; it also ends a state of emptiness when accepted."""
        document = self.engine.scan(force=force, accept_empty=accept_empty, on_folder=self._watch)
        self._unavailable = None
        self._after_batch(True)
        return document
