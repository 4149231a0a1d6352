"""The writing thread: one thread that owns the engine's writes and keeps the index true.

Events are hints that end up in a debounce; when they are due, this thread looks at
the disk and records one batch. Everything that writes runs here, one after the other.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

from indexer.core import paths
from indexer.core.progress import Meter
from indexer.engine.tree.disk import EmptiedError, ReplacedError, UnavailableError
from indexer.engine.tree.results import ScanDocument
from indexer.engine.tree.scan import reconcile, record_everything, untold
from indexer.engine.workspace import Engine
from indexer.errors import CorruptError, MerkleError, UncheckedError
from indexer.scan.large_files import LargeFiles
from indexer.scan.scopes import RULE_FILES
from indexer.service.ahead import Ahead, SeenAhead
from indexer.service.cookies import Cookies
from indexer.service.health import Health, Work
from indexer.service.jobs import Job, StoppingError, stopping
from indexer.store.database import DamagedError, DatabaseError, UnwrittenError
from indexer.store.journal import JournalFileError, JournalWriteError
from indexer.store.own_folder import PRIVATE_FOLDER
from indexer.watch.debounce import Debounce, Timing
from indexer.watch.mounts import Mounts
from indexer.watch.watcher import Watcher, start_watcher

if TYPE_CHECKING:
    from indexer.service.maintainer import Maintainer

T = TypeVar("T")

COOKIE_PATIENCE: Final = 5.0
"""Seconds without any event after which a cookie will not come back."""

MOST_PATIENCES: Final = 12
"""How often a cookie is waited for again because other events still arrive before it."""

ROOT_POLL: Final = 0.5
"""Seconds between two looks for a workspace that has gone away."""

DEGRADED_POLL: Final = 5.0
"""Seconds between two scans while events cannot be relied on."""

FLUSH_LISTINGS: Final = 60.0
"""Seconds after which the stat cache is brought up to date with the tree."""

SETTLE_LOOKS: Final = 5
"""How often a file that changes under our eyes is looked at while somebody waits."""

RECOVERIES: Final = 3
"""How often in a row the database is opened again before the service gives up."""

FIRST_REST: Final = 0.1
"""Seconds after the first look in which whoever waited for it is answered before all else."""

_UNWRITTEN: Final = (UnwrittenError, JournalWriteError, JournalFileError)
"""The system lets nothing be written: no room, say, or no permission. That may pass."""

_PASSING: Final = (*_UNWRITTEN, DamagedError)
"""What may pass: that, or what DuckDB calls damage and a file opened anew does not show."""

_NOT_NOTICED: Final = "a change made on purpose was not noticed"


class WritingThreadError(UncheckedError):
    """The writing thread met something that it was not made for."""

    code = "internal"


class WritingThread:
    """Runs the loop on a thread of its own."""

    def __init__(
        self,
        engine: Engine,
        *,
        timing: Timing | None = None,
        rescan_every: float = 900.0,
        ahead: Ahead | None = None,
    ) -> None:
        self.engine = engine
        self._ahead = ahead
        """Who looks at everything for the first time, where that has begun."""
        self._debounce = Debounce(timing or Timing())
        self._rescan_every = rescan_every
        self._wake = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._watcher: Watcher | None = None
        self._walked: set[str] = set()
        """The folders that the present look has been through."""
        self._cookies = Cookies(engine.layout.cookies)
        self._told = 0
        """How many events have come, for who waits whether more do."""
        self._trouble: MerkleError | None = None
        """Why the workspace or the database cannot be worked with now."""
        self._unproven: str | None = None
        """Why events cannot be relied on."""
        self._lost_events = False
        self._unsettled = False
        self._looking = False
        """Whether paths were taken out of what is pending and are not recorded yet."""
        self._failures = 0
        self._is_shut = False
        """Whether the database could not be opened again so far."""
        self._started = threading.Event()
        self._stopping = False
        self._batches = 0
        self._next_rescan = 0.0
        self._next_flush = 0.0
        self._rest_until = 0.0
        self._maintainer: Maintainer | None = None
        """Who makes frames, from when there is time for that."""
        self._mounts = Mounts(engine.root)
        engine.serve(self.call, self.look_at)
        self._large = LargeFiles(engine.root, engine.algorithm, self._large_was_read)
        engine.disk.between, engine.disk.large = self._go_on, self._large
        self.meter = Meter()
        """How far the present look has come; readable on any thread."""
        self.fatal: MerkleError | None = None
        """Why the writing thread stopped by itself."""
        self._thread = threading.Thread(target=self._run, name="merkle-writing", daemon=True)

    # -- from other threads

    def start(self) -> None:
        """Start the thread; it watches, scans, and then follows events."""
        self._thread.start()

    def stop(self) -> None:
        """Break off a look, refuse what is queued, and return when the thread has ended."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def is_alive(self) -> bool:
        """Whether the loop runs."""
        return self._thread.is_alive()

    def call(self, work: Callable[[], T]) -> T:
        """Run something on the writing thread and return or raise what it does."""
        if threading.current_thread() is self._thread:
            return work()
        job = Job(work)
        with self._wake:
            if self._stopping or not self._thread.is_alive():
                raise stopping()
            self._jobs.append(job)
            self._wake.notify()
        result: T = job.outcome.result()
        return result

    def health(self) -> Health:
        """How things are now."""
        watcher, trouble, degraded = self._watcher, self._trouble, self._degraded()
        if not self._thread.is_alive():
            state, reason = "stopped", self.fatal.message if self.fatal else None
        elif trouble is not None:
            away = isinstance(trouble, UnavailableError)
            state, reason = ("unavailable" if away else "unhealthy"), trouble.message
        elif not self._started.is_set():
            state, reason = "starting", None
        else:
            state, reason = ("degraded" if degraded else "watching"), degraded
        watches = watcher.count if watcher else 0
        maintainer = self._maintainer
        frames, team = (maintainer.remark, maintainer.team_problem) if maintainer else (None, None)
        return Health(state, reason, watches, self._batches, bool(self._debounce), frames, team)

    def work(self) -> Work:
        """What there is to do now, and what was spent."""
        pending, jobs, maintainer = self._debounce.pending, len(self._jobs), self._maintainer
        if maintainer is None:
            return Work(pending, jobs, (), 0, "0", 0, 0)
        spent = maintainer.spent
        return Work(
            pending, jobs, maintainer.doing,
            spent.calls, f"{spent.spent:f}", spent.tokens_in, spent.tokens_out,
        )  # fmt: skip

    def look_at(self, files: Iterable[str]) -> None:
        """Look now at files that a reader found to be other than what is recorded."""
        dirty = dict.fromkeys(files, False)
        self.call(lambda: self._guard(lambda: self._look_at(dirty)))

    def catch_up(self, patience: float = COOKIE_PATIENCE) -> bool:
        """Wait until everything written before this call is in the index; False: cannot tell."""
        if self._trouble is not None:
            if isinstance(self._trouble, UnavailableError) or self._may_try_again():
                return self.call(self._try_again)
            return False
        if self._mounts.have_changed():
            self.lost("something was mounted or unmounted")
        if self._watcher is None:
            # Between two watchers a scan is under way; without any, nothing can be proved.
            return self.call(self._process_all) and self._degraded() is None
        try:
            with self._cookies.sent() as seen:
                arrived = self._wait_for(seen, patience)
        except OSError as error:
            self._unproven = f"no cookie can be written: {error.strerror or error}"
            arrived = False
        if arrived:
            if self._has_seen_all():
                return True
            return self.call(self._process_all) and self._unwatched() is None
        # A new watcher and a look at everything answer as well, when events arrive again.
        self._unproven = self._unproven or _NOT_NOTICED
        self.lost(self._unproven)
        return self.call(self._process_all) and self._degraded() is None

    def _has_seen_all(self) -> bool:
        """Whether nothing is left to look at, so that nobody has to wait for the writing thread.

        It may be in the midst of making a frame, which takes as long as it takes.
        """
        with self._wake:
            if self._stopping or not self._thread.is_alive() or not self._started.is_set():
                return False
            if self._looking or self._debounce or self._trouble is not None:
                return False
        return (
            self._degraded() is None
            and not self.engine.disk.scopes.exclude_changed()
            and not untold(self.engine.root, self.engine.recorded)
        )

    def _wait_for(self, seen: threading.Event, patience: float) -> bool:
        """Wait for a cookie as long as other events keep arriving before it."""
        for _ in range(MOST_PATIENCES):
            told = self._told
            if seen.wait(patience):
                return True
            if told == self._told:
                break
        return False

    # -- the sink: called by the watcher's thread

    def changed(self, path: str, is_folder: bool, deep: bool) -> None:
        """Note a path, unless a rule ignores it: ignored files must not even wake the loop."""
        self._told += 1
        parent, name = paths.split(path)
        # A rule file counts even where a rule ignores it, but not inside an ignored folder.
        judged, as_folder = (parent, True) if name in RULE_FILES else (path, is_folder)
        if judged and self.engine.disk.scopes.surely_ignores(judged, as_folder):
            return
        with self._wake:
            idle = not self._debounce
            self._debounce.add(path, deep, self.engine.clock.monotonic())
            # A loop that waits for a deadline already looks again by itself.
            if idle:
                self._wake.notify()

    def cookie(self, name: str) -> None:
        """All events before this cookie have been noted."""
        self._cookies.came_by(name)

    def lost(self, reason: str) -> None:
        """Start over: new watcher, then look at everything."""
        with self._wake:
            self._lost_events = True
            self._debounce.add_everything(self.engine.clock.monotonic())
            self._wake.notify()
        # Who waits for a cookie waits for that look instead.
        self._cookies.release()

    # -- the loop

    def _run(self) -> None:
        try:
            self._guard(lambda: self._look_anew("start"))
            self._started.set()
            # Making frames would take the interpreter from who is being answered.
            self._rest_until = self.engine.clock.monotonic() + FIRST_REST
            while not self._stopping:
                self._wait()
                self._do_jobs()
                self._step()
        except StoppingError:
            pass
        except MerkleError as error:
            self.fatal = error
        except BaseException as error:
            self.fatal = WritingThreadError(
                f"the service failed: {type(error).__name__}: {error}",
                hint="start it again; the index holds what was recorded until then",
            )
            self.fatal.__cause__ = error
        finally:
            self._end()

    def _end(self) -> None:
        """Nobody may be left waiting, whatever it was that ended the loop."""
        with self._wake:
            self._stopping = True
            left, self._jobs = self._jobs, deque()
        for job in left:
            job.refuse()
        self._started.set()
        self._cookies.close()
        self._mounts.close()
        self._large.close()
        try:
            # A run that a client began ends with the thread, too.
            if self._maintainer is not None or self.engine.in_flight.runs:
                self._maintained().close()
        except MerkleError as error:
            # The journal has the answers that came, unless it is the one that fails.
            self.fatal = self.fatal or error
        if self._watcher is not None:
            with contextlib.suppress(OSError):
                self._watcher.stop()

    def _go_on(self) -> None:
        """Called while much is read: nobody may be waiting for the end."""
        if self._stopping:
            raise stopping()

    def _large_was_read(self, path: str) -> None:
        with self._wake:
            self._debounce.add(path, False, self.engine.clock.monotonic())
            self._wake.notify()

    def _woken(self) -> None:
        with self._wake:
            self._wake.notify()

    def _wait(self) -> None:
        with self._wake:
            while not self._stopping and not self._jobs:
                now = self.engine.clock.monotonic()
                deadline = self._deadline()
                if deadline <= now:
                    return
                self._wake.wait(deadline - now)

    def _deadline(self) -> float:
        if self._trouble is not None:
            return self._next_rescan
        candidates = [self._next_rescan]
        pending = self._debounce.deadline()
        if pending is not None:
            candidates.append(max(pending, self._rest_until))
        if self._next_flush:
            candidates.append(self._next_flush)
        maintainer = self._maintainer
        if maintainer is None or maintainer.due:
            candidates.append(self._rest_until)
        if maintainer is not None and maintainer.again_at is not None:
            candidates.append(maintainer.again_at)
        return min(candidates)

    def _do_jobs(self) -> None:
        while not self._stopping:
            with self._wake:
                if not self._jobs:
                    return
                job = self._jobs.popleft()
            error = job.run()
            if isinstance(error, MerkleError):
                self._judge(error)
            if self._maintainer is not None:
                self._maintainer.notice_job()

    def _step(self) -> None:
        now = self.engine.clock.monotonic()
        if self._stopping:
            return
        if self._trouble is not None:
            if now >= self._next_rescan:
                self._try_again()
            return
        if self._watcher is not None and not self._watcher.is_alive() and not self._lost_events:
            self.lost("the watcher's thread died")
        if self._debounce.is_due(now) and now >= self._rest_until:
            self._process_pending()
        elif now >= self._next_rescan:
            look = self._look_at_everything if self._unproven is None else self._look_anew
            self._guard(lambda: look("rescan"))
        if self._next_flush and now >= self._next_flush:
            self._next_flush = 0.0
            self._guard(self._flush)
        if self._maintainer is None and now < self._rest_until:
            return
        maintainer = self._maintained()
        if maintainer.again_at is not None and now >= maintainer.again_at:
            maintainer.try_again()
        if maintainer.due and now >= self._rest_until:
            self._guard(maintainer.step)

    def _maintained(self) -> Maintainer:
        """Who makes frames, loaded once nobody waits for the first answer."""
        # Imported late: a service answers before it makes frames.
        from indexer.service.maintainer import Maintainer

        if self._maintainer is None:
            maintainer = Maintainer(self.engine, self._woken)
            # What is stale from before.
            maintainer.begin()
            self._maintainer = maintainer
        return self._maintainer

    # -- looking

    def _process_all(self) -> bool:
        """Look at all that is pending; True when it is recorded."""
        for path in untold(self.engine.root, self.engine.recorded):
            with self._wake:
                self._debounce.add(path, False, self.engine.clock.monotonic())
        for _ in range(SETTLE_LOOKS):
            if self._trouble is not None:
                return False
            self._process_pending()
            if not self._unsettled:
                break
        return self._trouble is None and not self._unsettled

    def _process_pending(self) -> None:
        started = self.engine.clock.monotonic()
        with self._wake:
            if self.engine.disk.scopes.exclude_changed():
                self._debounce.add_everything(started)
            pending = self._debounce.take()
            self._looking = True
        self._unsettled = False
        try:
            if self._lost_events:
                self._guard(lambda: self._look_anew("rescan"))
            elif pending.everything:
                self._guard(lambda: self._look_at_everything("rescan"))
            elif pending.paths:
                self._guard(lambda: self._look_at(pending.paths))
        finally:
            self._looking = False
        # As long a rest as the work: a huge file that grows all day takes half a CPU at most.
        now = self.engine.clock.monotonic()
        self._rest_until = max(self._rest_until, now + (now - started))

    def _look_at(self, dirty: dict[str, bool]) -> None:
        self._walked = set()
        _, changes, unsettled = reconcile(self.engine, dirty.items(), on_folder=self._watch)
        for folder, name in map(paths.split, dirty):
            # Other rules: folders that are ignored from now on need no watch.
            if name in RULE_FILES and self._watcher is not None:
                self._watcher.retain(folder, self._is_kept)
        self._after_batch(bool(changes))
        self._unsettled = bool(unsettled)
        with self._wake:
            for path in unsettled:
                self._debounce.add(path, False, self.engine.clock.monotonic())

    def _look_at_everything(
        self,
        cause: str,
        *,
        force: bool = False,
        accept_empty: bool = False,
        meter: Meter | None = None,
        seen: SeenAhead | None = None,
    ) -> ScanDocument:
        self._walked = set()
        if seen is not None:
            self.engine.begin_with(seen.look)
        try:
            document = record_everything(
                self.engine, cause, force=force, accept_empty=accept_empty,
                on_folder=self._watch if seen is None else None, progress=meter or self.meter,
            )  # fmt: skip
        finally:
            self.meter.end()
        if self._watcher is not None and seen is None and not document["unreadable"]:
            # What could not be walked now may still have watches that will be needed.
            self._watcher.retain(paths.ROOT, self._walked.__contains__)
        self._after_batch(bool(document["added"] or document["modified"] or document["removed"]))
        return document

    def _look_anew(self, cause: str) -> None:
        """Watch and scan from nothing, and prove that events arrive."""
        # Good for the very first look only.
        ahead, self._ahead = self._ahead, None
        self.engine.disk.check_root()
        self._mounts.have_changed()
        known = ahead.take() if ahead is not None else None
        self._restart_watcher(known)
        with contextlib.ExitStack() as stack:
            seen = None
            if self._watcher is not None:
                try:
                    seen = stack.enter_context(self._cookies.sent())
                    self._unproven = None
                except OSError as error:
                    self._unproven = f"no cookie can be written: {error.strerror or error}"
            # Without a watcher, what was seen before has nobody who has followed it since.
            self._look_at_everything(cause, seen=known if self._watcher is not None else None)
            # Loaded by this thread, before readers on others ask for it.
            _ = self.engine.tree
            if seen is not None and not self._wait_for(seen, COOKIE_PATIENCE):
                self._unproven = _NOT_NOTICED
        self._plan_rescan()

    def accept_scan(
        self, meter: Meter | None = None, *, force: bool = False, accept_empty: bool = False
    ) -> ScanDocument:
        """A scan that a client asked for; it also ends a state of emptiness when accepted."""
        if self._trouble is not None and not isinstance(self._trouble, EmptiedError):
            self._look_anew("back")
        document = self._look_at_everything(
            "scan", force=force, accept_empty=accept_empty, meter=meter
        )
        self._trouble = None
        return document

    def _after_batch(self, moved: bool) -> None:
        self._batches += moved
        maintainer = self._maintainer
        if maintainer is not None and (moved or maintainer.owes):
            maintainer.begin()
        self._plan_rescan()
        if moved and not self._next_flush:
            self._next_flush = self.engine.clock.monotonic() + FLUSH_LISTINGS

    def _plan_rescan(self) -> None:
        every = DEGRADED_POLL if self._degraded() else self._rescan_every
        self._next_rescan = self.engine.clock.monotonic() + every

    def _flush(self) -> None:
        self.engine.disk.check_root()
        self.engine.recorded.flush()

    # -- trouble

    def _guard(self, work: Callable[[], object]) -> None:
        """Run a look; its trouble makes the service wait or recover, not forget."""
        try:
            work()
        except (UnavailableError, DatabaseError, *_PASSING) as error:
            self._judge(error)
        except OSError as error:
            self._judge(UnwrittenError(f"cannot go on: {error.strerror or error}"))
        else:
            self._trouble, self._failures = None, 0

    def _judge(self, error: MerkleError) -> None:
        """What an error means for the service: nothing, trouble, or (raised) the end."""
        if isinstance(error, UnavailableError):
            self._trouble = error
            self._next_rescan = self.engine.clock.monotonic() + ROOT_POLL
        elif isinstance(error, (DatabaseError, *_PASSING)):
            self._recover(error)
        elif isinstance(error, ReplacedError):
            raise error

    def _recover(self, error: MerkleError) -> None:
        """Open the database again and check it; what was not stored is looked at again.

        Where nothing can be written, that is tried again for as long as it lasts.
        """
        self._failures += 1
        if self._failures > RECOVERIES and not isinstance(error, _PASSING):
            raise error
        self._trouble = error
        rests = 1 if isinstance(error, _PASSING) else RECOVERIES
        pause = DEGRADED_POLL * min(self._failures - 1, rests)
        self._next_rescan = self.engine.clock.monotonic() + pause
        if isinstance(error, JournalWriteError) and self.engine.takes_records:
            # The rows went back with it; there is nothing to mend.
            return
        self._is_shut = True
        self._open_again(error)

    def _open_again(self, error: MerkleError) -> None:
        # Imported late: most services never fail.
        from indexer.engine.durable.validate import validate

        try:
            self.engine.reopen()
            problems = validate(self.engine)["errors"]
        except _UNWRITTEN as worse:
            # Not even that: another time.
            self._trouble = worse
            self._next_rescan = self.engine.clock.monotonic() + DEGRADED_POLL
            return
        if problems:
            raise CorruptError(
                f"the index is damaged: {problems[0]['message']}",
                hint="run `merkle doctor` for what to do",
            ) from error
        self._is_shut = False

    def _may_try_again(self) -> bool:
        return self.engine.clock.monotonic() >= self._next_rescan

    def _try_again(self) -> bool:
        """Look whether the trouble has passed, and then at everything."""
        trouble = self._trouble
        if self._is_shut and trouble is not None:
            self._open_again(trouble)
            if self._is_shut:
                return False
        if isinstance(trouble, EmptiedError):
            self._guard(lambda: self._look_at_everything("back"))
        elif isinstance(trouble, JournalWriteError):
            self._guard(lambda: self.engine.records.journal.try_writing())
        elif trouble is not None:
            self._guard(lambda: self._look_anew("back"))
        return self._process_all()

    # -- watching

    def _watch(self, path: str) -> None:
        """A walk is about to list a folder: from here on its events count."""
        self._go_on()
        self._walked.add(path)
        # Rules of before must not drop an event that comes after the listing.
        self.engine.disk.scopes.leave(path)
        if self._watcher is not None:
            self._watcher.add(path)

    def _is_kept(self, folder: str) -> bool:
        return not folder or not self.engine.disk.scopes.surely_ignores(folder, True)

    def _restart_watcher(self, known: SeenAhead | None) -> None:
        if self._watcher is not None:
            self._watcher.stop()
            self._watcher = None
        self._lost_events = False
        cookies = self.engine.layout.cookies
        try:
            cookies.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
            set_before = () if known is None else (known.watches, known.watched)
            self._watcher = start_watcher(self.engine.root, cookies, self, *set_before)
        except OSError as error:
            self._unproven = f"no events: {error.strerror or error}"
        # A cookie of the old watcher's time comes back to nobody; the look that follows counts.
        self._cookies.release()

    def _degraded(self) -> str | None:
        """Why the index may lag behind the disk, None when events can be relied on."""
        return self._unproven or self._unwatched()

    def _unwatched(self) -> str | None:
        """Why events from some place do not come at all."""
        if self._mounts.silent is not None:
            return self._mounts.silent
        missing = self._watcher.unwatched if self._watcher is not None else 0
        return f"{missing} folders cannot be watched (out of inotify watches?)" if missing else None
