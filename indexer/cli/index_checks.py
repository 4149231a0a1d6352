"""What `doctor` asks the workspace: its folder, settings, owner, service and database."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from indexer.cli.columns import counted
from indexer.cli.frame_text import not_made
from indexer.cli.machine_checks import Check
from indexer.cli.team_checks import check_team
from indexer.core import paths
from indexer.core.clock import SystemClock
from indexer.core.hashing import workspace_hash
from indexer.core.tokens import TiktokenCounter
from indexer.engine.models.settings import declared_models, load_llm_settings
from indexer.engine.settings import FILE, TRUST, Settings, load_settings
from indexer.engine.tree.lost import lost_text
from indexer.errors import CorruptError, LockedError, MerkleError, UsageError
from indexer.generators.llm.client import check_extra
from indexer.service.address import runtime_folder
from indexer.service.client import Client, connect
from indexer.store import journal
from indexer.store.layout import FOLDER, Format, Layout, is_initialised, read_format
from indexer.store.lock import OwnerLock, holder, locked_by
from indexer.store.noted import Noted
from indexer.synthesis.base import Tokens

if TYPE_CHECKING:
    from indexer.core.tree import Tree
    from indexer.store.database import Database

_NO_HARM: Final = "the index itself is true; `merkle diff` cannot go back to them"
_REPAIR: Final = "`merkle repair` rebuilds it from the files and the journal"


@dataclass(slots=True)
class Examined:
    """What was found out about the workspace: its lines of the list, and what `doctor` goes by."""

    checks: list[Check] = field(default_factory=list)
    folders: int | None = None
    damaged: bool = False


def examine(root: Path) -> Examined:
    """Look at everything that belongs to the workspace, changing nothing."""
    found = Examined()
    found.checks += [_settings(root), *_models(root), *check_team(root)]
    try:
        there = is_initialised(root)
    except MerkleError as error:
        found.checks.append(Check("folder", "fail", error.message, error.hint))
        return found
    if not there:
        found.checks.append(
            Check("workspace", "warn", f"{root} has no index", "run `merkle scan` there")
        )
        return found
    layout = Layout(root)
    found.checks += [Check("workspace", "ok", str(root)), _writable(layout)]
    try:
        recorded = read_format(root)
    except MerkleError as error:
        found.checks.append(Check("format", "fail", error.message, error.hint))
        found.damaged = isinstance(error, CorruptError)
        return found
    found.checks += [_format(recorded), _socket_folder()]
    client = connect(root)
    if client is not None:
        _service(client, found)
    else:
        found.checks.append(_no_service(layout))
        _unowned(layout, recorded, found)
    return found


def _settings(root: Path) -> Check:
    try:
        settings = load_settings(root)
        refused = [*settings.refused, *load_llm_settings(root).refused]
        empty = _empty_scope(root, settings)
    except MerkleError as error:
        return Check("settings", "fail", error.message, error.hint)
    if refused:
        message = f"{FILE} sets {', '.join(refused)}, which is not a repository's to set"
        return Check("settings", "warn", message, TRUST)
    if empty:
        return Check("settings", "warn", *empty)
    return Check("settings", "ok", FILE if settings.file else f"defaults, no {FILE}")


def _empty_scope(root: Path, settings: Settings) -> tuple[str, str] | None:
    """A message and advice about a declared scope in which there is nothing.

    What the file declares is made for it, so that what is refused elsewhere is refused here too.
    """
    try:
        # Imported late: it needs every parser.
        from indexer.engine.frames.types import load_types

        declared = load_types(root, settings.size_limit, Tokens("none", len))
    except ImportError:
        # A package that is missing has a line of its own in the list.
        return None
    for name, one in declared.items():
        for scope in one.rules.scopes:
            if not os.path.lexists(root / paths.text_to_os(scope)):
                message = f"{FILE}: types.{name}.scope has {scope!r}, where there is nothing"
                return message, "correct the path, which counts from the workspace's root"
    return None


def _models(root: Path) -> list[Check]:
    """Whether models can be asked, where types are declared that need them; asks none."""
    try:
        models = declared_models(root)
        if not models:
            return []
        settings = load_llm_settings(root)
        check_extra()
        settings.key()
    except MerkleError as error:
        return [Check("models", "fail", error.message, error.hint)]
    named, where = ", ".join(models), settings.values["base_url"]
    unpriced = [model for model in models if model not in settings.prices]
    if unpriced:
        advice = f'add [llm.prices."{unpriced[0]}"] to {FILE}, so that costs can be told and capped'
        return [Check("models", "warn", f"{named} at {where}, without a price", advice)]
    return [
        Check("models", "ok", f"{named} at {where}, key in {settings.values['key_env'] or '-'}")
    ]


def _writable(layout: Layout) -> Check:
    if os.access(layout.folder, os.W_OK | os.X_OK):
        return Check("folder", "ok", f"{FOLDER} is writable")
    if os.statvfs(layout.folder).f_flag & os.ST_RDONLY:
        advice = "commands that only read work; mount it for writing to do more"
        return Check("folder", "warn", f"{FOLDER} is on a read-only file system", advice)
    advice = "make it writable for this user: every command needs to take the lock there"
    return Check("folder", "fail", f"{FOLDER} is not writable", advice)


def _format(recorded: Format) -> Check:
    strength = (
        "withstands files written on purpose to collide"
        if recorded.hash_name == "sha256"
        else "detects accidents, not forgery; `merkle init --hash sha256` in a new one does"
    )
    return Check(
        "format", "ok", f"format {recorded.version}, hash {recorded.hash_name} ({strength})"
    )


def _socket_folder() -> Check:
    try:
        return Check("socket folder", "ok", f"{runtime_folder()} is private")
    except MerkleError as error:
        return Check("socket folder", "fail", error.message, error.hint)
    except OSError as error:
        return Check("socket folder", "fail", str(error), "set XDG_RUNTIME_DIR to a private folder")


def _service(client: Client, found: Examined) -> None:
    """Enter what the service says, which owns the index and so knows best how it is."""
    try:
        health = client.get("/v1/health")
    except MerkleError as error:
        found.checks.append(Check("service", "fail", error.message, error.hint))
        return
    found.checks += _asked_frames(client)
    pid, state, reason = health.get("pid"), health.get("state"), health.get("reason")
    found.folders = int(health.get("watches") or 0) or None
    frames = health.get("frames")
    if frames:
        advice = "frames of that type stay stale meanwhile"
        found.checks.append(Check("frames", "warn", str(frames), advice))
    if health.get("team"):
        advice = "notes that are written meanwhile are given later"
        found.checks.append(Check("notes", "warn", str(health["team"]), advice))
    if reason:
        advice = (
            "nothing more is recorded until that has passed; it tries again by itself"
            if state == "unhealthy"
            else "it still scans from time to time; `merkle status` tells more"
        )
        found.checks.append(Check("service", "warn", f"pid {pid}, {state}: {reason}", advice))
    else:
        found.checks.append(Check("service", "ok", f"pid {pid}, answering"))
    found.checks.append(Check("lock", "ok", "held by the service"))
    for name in ("database", "journal"):
        found.checks.append(Check(name, "ok", "open in the service"))


def _asked_frames(client: Client) -> list[Check]:
    """The frames that the service has and has not made, without waiting for what it is at."""
    try:
        frames = client.get("/v1/status", {"wait": "false"})["frames"]
    except MerkleError:
        # Its state has a line of its own.
        return []
    return _frames(frames["total"], frames["missing"])


def _frames(made: int, missing: int) -> list[Check]:
    if not missing:
        return []
    # Where there are none, nobody asked for any; where there are some, making them was interrupted.
    return [Check("frames", "warn" if made else "ok", not_made(missing, "`merkle regenerate`"))]


def _no_service(layout: Layout) -> Check:
    if layout.socket.exists():
        advice = "harmless; the next `merkle watch` replaces it"
        return Check("service", "warn", "not running, but its address was left behind", advice)
    return Check("service", "ok", "not running")


def _unowned(layout: Layout, recorded: Format, found: Examined) -> None:
    """Nobody answers: see who holds the lock, and if nobody does, read the database."""
    try:
        with owned(layout) as lock:
            found.checks.append(Check("lock", "ok", "free"))
            found.checks.append(_database(layout, recorded, found, lock.read_only))
            found.checks.append(_journal(layout, found))
    except LockedError:
        found.checks.append(_held(layout))
        for name in ("database", "journal"):
            found.checks.append(Check(name, "ok", "not opened: somebody is using it"))
    except MerkleError as error:
        found.checks.append(Check("lock", "fail", error.message, error.hint))


def owned(layout: Layout) -> OwnerLock:
    """The owner's lock, taken at once or not at all; closes with its `with` statement."""
    lock = OwnerLock(layout.lock, "doctor")
    lock.acquire(0)
    return lock


def _held(layout: Layout) -> Check:
    who = holder(layout.lock)
    error = locked_by(who)
    if who is None or not _is_alive(who[0]):
        advice = "`fuser .merkle/lock` tells who holds it"
        return Check("lock", "warn", "held by a process that did not leave its name", advice)
    if who[1] == "watch":
        # It may still be scanning before it begins to answer.
        message = f"{error.message}, which does not answer yet"
        return Check("lock", "warn", message, error.hint)
    return Check("lock", "ok", error.message)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _database(layout: Layout, recorded: Format, found: Examined, read_only: bool) -> Check:
    if not layout.database.exists():
        return Check("database", "ok", "nothing recorded yet", "run `merkle scan`")
    try:
        found.folders, roots, lost, frames = read_everything(layout, recorded, read_only=read_only)
    except CorruptError as error:
        found.damaged = True
        advice = f"{_REPAIR}; `merkle doctor --quarantine` only puts it aside"
        return Check("database", "fail", error.message, advice)
    except MerkleError as error:
        return Check("database", "fail", error.message, error.hint)
    found.checks += _frames(*frames)
    found.checks += [Check("history", "warn", each, _NO_HARM) for each in lost]
    return Check("database", "ok", f"readable, {counted(roots, 'root')} recorded")


def _journal(layout: Layout, found: Examined) -> Check:
    if not layout.journal.exists():
        return Check("journal", "ok", "nothing recorded yet")
    try:
        problems = journal.check(layout.journal)
    except MerkleError as error:
        return Check("journal", "fail", error.message, error.hint)
    if problems:
        found.damaged = True
        return Check(
            "journal", "fail", f"damaged: {problems[0]}", f"{_REPAIR} and tells what is gone"
        )
    return Check("journal", "ok", "every record holds")


def read_everything(
    layout: Layout, recorded: Format, *, read_only: bool = False
) -> tuple[int, int, list[str], tuple[int, int]]:
    """Read the whole database as its owner, or raise an error.

    How many folders and roots it knows, which roots it has lost, and how many frames are made and
    not made yet.
    """
    # Imported late: a package that is not installed is something to report, not to fail from.
    from indexer.store.database import Database
    from indexer.store.trees import TreeStore

    database = Database(layout.database, read_only=read_only)
    try:
        trees = TreeStore(database, workspace_hash(recorded.hash_name), Noted(layout.noted))
        losses = [*trees.lost(), *filter(None, [trees.find_loss(0)])]
        lost = [lost_text(each.first, each.last) for each in losses]
        head = trees.head()
        if head is None:
            return 0, 0, lost, (0, 0)
        tree, _ = trees.tree_with_ids(head.seq)
        trees.listings()
        trees.remarks()
        frames = _count_frames(layout.root, database, tree)
        return head.totals.directories, trees.count_roots(), lost, frames
    finally:
        database.close()


def _count_frames(root: Path, database: Database, tree: Tree) -> tuple[int, int]:
    """The frames that are there, and those that declared types ask for and that are not."""
    try:
        # Imported late, for the same reason.
        from indexer.engine.frames.opened import Frames

        frames = Frames(root, tree.algorithm, database, SystemClock(), TiktokenCounter())
        missing = sum(frames.missing.of(tree).values())
        return sum(map(len, frames.heads.slots.values())), missing
    except (ImportError, UsageError):
        # A missing package, or settings that cannot be read, have lines of their own.
        return 0, 0
