"""`validate`: every invariant of what is stored, and with `content` the disk against it."""

from __future__ import annotations

import contextlib
import os
import stat as modes
import zlib
from collections.abc import Container, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict

from indexer.core import lockfile, paths
from indexer.core.arguments import IdPrefix
from indexer.core.changes import nodes_of, summarize, tree_changes
from indexer.core.garbage import no_cycle_collection
from indexer.core.kinds import Kind
from indexer.core.progress import Progress, begin, meter_of
from indexer.core.recorded_nodes import add_up_to
from indexer.core.tree import Tree
from indexer.engine.tree.lock import check_lock
from indexer.engine.tree.lost import lost_text
from indexer.engine.tree.root import UnavailableError
from indexer.engine.tree.scan import look
from indexer.errors import ArgumentsError, MerkleError
from indexer.scan.git import tracked
from indexer.scan.reading import TornReadError, hash_file, open_folder
from indexer.scan.scopes import INFO_EXCLUDE
from indexer.scan.walk import reason_of
from indexer.store.journal import Journal
from indexer.store.roots import Root
from indexer.store.sessions import SessionStore
from indexer.store.trees import OF_TREES

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine

NOTES: Final = {
    "xxh3_128": "xxh3_128 detects accidents; it is no protection against files written on purpose "
    "to collide. `merkle init --hash sha256` is.",
    "sha256": "sha256 also holds against files written on purpose to collide.",
}
_SHOWN: Final = 20


class FindingDocument(TypedDict):
    """One thing that `validate` has to say."""

    code: str
    path: str
    message: str


class ValidateDocument(TypedDict):
    """Result of `validate`."""

    valid: bool
    root: str | None
    node_count: int
    frame_count: int
    errors: list[FindingDocument]
    warnings: list[FindingDocument]
    unchecked: list[FindingDocument]
    hash: str
    note: str
    files_checked: int
    """Files whose symbols, uses and words were made again and compared, of `files_known`."""
    files_known: int


class _Findings:
    """Collects what was found, by weight."""

    def __init__(self) -> None:
        self.errors: list[FindingDocument] = []
        self.warnings: list[FindingDocument] = []
        self.unchecked: list[FindingDocument] = []
        self._told: set[tuple[str, str]] = set()

    def error(self, code: str, path: str, message: str) -> None:
        self.errors.append({"code": code, "path": path, "message": message})

    def warning(self, code: str, path: str, message: str) -> None:
        self.warnings.append({"code": code, "path": path, "message": message})

    def could_not(self, code: str, path: str, message: str) -> None:
        # Two looks at the same folder have the same to say.
        if (code, path) not in self._told:
            self._told.add((code, path))
            self.unchecked.append({"code": code, "path": path, "message": message})


def validate(
    engine: Engine,
    *,
    content: bool = False,
    subset: tuple[int, int] | None = None,
    expect_root: IdPrefix | None = None,
    locked: bool = False,
    progress: Progress | None = None,
) -> ValidateDocument:
    """Every invariant; the disk against the index (`content`) or merkle.lock (`locked`)."""
    with no_cycle_collection():
        return _validate(engine, content, subset, expect_root, locked, progress)


def _validate(
    engine: Engine,
    content: bool,
    subset: tuple[int, int] | None,
    expect_root: str | None,
    locked: bool,
    progress: Progress | None,
) -> ValidateDocument:
    if subset is not None and subset[0] > subset[1]:
        raise ArgumentsError(f"there is no part {subset[0]} of {subset[1]}")
    findings = _Findings()
    begin(progress, "checking the index")
    tables = engine.database.read_all()
    head = engine.trees.head()
    nodes = frames = 0
    code = (0, 0)
    tree: Tree | None = None
    present: Tree | None = None
    hidden: list[str] | None = None
    if head is None:
        findings.could_not("never_scanned", "", "nothing has been recorded yet: run `merkle scan`")
    else:
        if content and subset is None and not locked:
            hidden = _hidden_if_sound(engine, head, tables)
        if hidden is not None:
            nodes = head.totals.nodes
            _warn_of_lost(engine, findings)
        elif (tree := _check_stored(engine, head, findings)) is not None:
            # Imported late: there may be nothing but files to check.
            from indexer.engine.durable.code_checks import check_code
            from indexer.engine.durable.frame_checks import check_frames

            nodes = tree.root.totals.nodes
            frames = check_frames(engine.frames, tree, engine.records.journal, findings.error)
            code = check_code(engine.frames, tree, findings.error, meter_of(progress))
            if content or subset is not None:
                if engine.contents_compared is not None:
                    # While others read: it holds where they find what is recorded.
                    hidden = list(_tracked_but_ignored(engine, _paths(tree)))
                present = _check_content(engine, tree, subset, findings, progress)
            if locked:
                _check_locked(engine, findings, progress)
        for path, reason in engine.trees.remarks().unreadable:
            findings.could_not("unreadable", path, f"could not be read: {reason}")
        if hidden is None or present is not tree:
            hidden = list(_tracked_but_ignored(engine, _paths(present)))
        _check_rules(engine.root, hidden, findings)
        if expect_root is not None and not head.root.hex().startswith(expect_root.lower()):
            findings.error(
                "unexpected_root", "", f"the root is {head.root.hex()}, expected {expect_root}"
            )
    sessions = SessionStore(engine.database)
    if sessions.names():
        # Imported late: most workspaces have no session.
        from indexer.engine.durable.session_checks import check_sessions

        check_sessions(sessions, findings.error)
    return {
        "valid": not findings.errors and not findings.unchecked,
        "root": head.root.hex() if head else None,
        "node_count": nodes,
        "frame_count": frames,
        "errors": findings.errors,
        "warnings": findings.warnings,
        "unchecked": findings.unchecked,
        "hash": engine.algorithm.name,
        "note": NOTES[engine.algorithm.name],
        "files_checked": code[0],
        "files_known": code[1],
    }


def _hidden_if_sound(engine: Engine, head: Root, tables: set[str]) -> list[str] | None:
    """Whether all is as it should be, where others read the files and only a tree is stored.

    That is found out with less than what is needed to say what is wrong. Gives what git has and
    the rules leave out; None where something is wrong or may be, or where there is more to check.
    """
    compared = engine.contents_compared
    if compared is None or not tables <= OF_TREES:
        return None
    if not _journal_holds(engine) or engine.trees.log_problems():
        return None
    nodes = engine.trees.nodes_at(head.seq)
    if not add_up_to(engine.algorithm, nodes, head.root, head.content_id, head.totals):
        return None
    if not _cache_holds(engine, head):
        return None
    # While others read: it holds where they find what is recorded.
    hidden = list(_tracked_but_ignored(engine, {node[0] for node in nodes}))
    if compared():
        return hidden
    # What it is that differs is found out by one look at everything.
    engine.contents_compared = None
    return None


def _journal_holds(engine: Engine) -> bool:
    """Whether the journal has what the database has taken from it, no more, and all in order."""
    applied = engine.trees.applied_record()
    try:
        journal = Journal.open(engine.layout.journal, applied=applied, read_only=engine.read_only)
    except MerkleError:
        return False
    with contextlib.closing(journal):
        return 0 < journal.last == applied and not journal.check()


def _cache_holds(engine: Engine, head: Root) -> bool:
    """Whether the stat cache, where it is not behind, is that of the recorded root."""
    listings = engine.trees.listings(top=True)
    try:
        return listings is None or engine.trees.tree(listings).root.content_id == head.content_id
    except (MerkleError, ValueError):
        return False


def _check_stored(engine: Engine, head: Root, findings: _Findings) -> Tree | None:
    """Build the tree from the log and compare every id that was recorded with the one it has."""
    try:
        tree, recorded = engine.trees.tree_with_ids(head.seq)
    except MerkleError as error:
        findings.error(error.code, "", error.message)
        return None
    for path, _, content_id, node_id, _ in nodes_of(tree.algorithm, paths.ROOT, tree.root):
        found = recorded.pop(path, None)
        if found is None:
            findings.error("not_recorded", path, "is implied by its children but not recorded")
        elif found[0] != content_id:
            findings.error("content_id", path, "recorded content id does not follow from the tree")
        elif found[1] != node_id:
            findings.error(
                "node_id", path, "recorded NodeID does not follow from place and content"
            )
    for path in recorded:
        findings.error("stray", path, "is recorded but has no place in the tree")
    if head.root != tree.root_id or head.content_id != tree.root.content_id:
        findings.error("root", "", "the recorded root is not the root of the recorded tree")
    if head.totals != tree.root.totals:
        findings.error("totals", "", f"recorded {head.totals}, counted {tree.root.totals}")
    _check_log(engine, findings)
    _check_listings(engine, tree, findings)
    return tree


def _check_log(engine: Engine, findings: _Findings) -> None:
    for seq, problem in engine.trees.log_problems():
        findings.error("log", "", f"root {seq}: {problem}")
    _warn_of_lost(engine, findings)


def _warn_of_lost(engine: Engine, findings: _Findings) -> None:
    for lost in engine.trees.lost():
        findings.warning("lost_roots", "", lost_text(lost.first, lost.last))


def _check_listings(engine: Engine, tree: Tree, findings: _Findings) -> None:
    listings = engine.trees.listings()
    if listings is None:
        return
    try:
        cached = engine.trees.tree(listings)
        engine.recorded.loaded(cached)
    except (MerkleError, ValueError) as error:
        findings.error("stat_cache", "", f"the stat cache is unreadable: {error}")
        return
    for path, _, _ in tree_changes(tree, cached):
        findings.error("stat_cache", path, "the stat cache and the tree disagree")


def _check_content(
    engine: Engine,
    tree: Tree,
    subset: tuple[int, int] | None,
    findings: _Findings,
    progress: Progress | None,
) -> Tree | None:
    """Read files again and compare, all of them or one part of several; gives what is there now."""
    if subset is not None:
        _check_part(engine, tree, subset, findings, progress)
        return None
    if engine.contents_compared is not None and not findings.errors and engine.contents_compared():
        # By who was at it meanwhile. Where anything is wrong, what it is is found out here.
        return tree
    try:
        looked = look(engine, force=True, accept_empty=True, progress=progress)
    except UnavailableError as error:
        findings.could_not("unavailable", "", error.message)
        return None
    for remark in looked.unreadable:
        findings.could_not("unreadable", remark.path, f"could not be read: {remark.reason}")
    present = looked.tree or engine.tree
    summary = summarize(tree_changes(tree, present))
    for code, listed in (
        ("added", summary.added), ("modified", summary.modified), ("removed", summary.removed),
    ):  # fmt: skip
        for path in listed:
            findings.error(f"disk_{code}", path, f"{code} on disk since the last scan")
    return None if looked.unreadable else present


def _check_locked(engine: Engine, findings: _Findings, progress: Progress | None) -> None:
    """Compare what is on disk now with merkle.lock, whatever was recorded last."""
    try:
        looked = look(engine, accept_empty=True, progress=progress)
    except UnavailableError as error:
        findings.could_not("unavailable", "", error.message)
        return
    for remark in looked.unreadable:
        findings.could_not("unreadable", remark.path, f"could not be read: {remark.reason}")
    tree = looked.tree or engine.tree
    check_lock(engine.root, tree, engine.algorithm, findings.error, findings.could_not)


def _check_part(
    engine: Engine,
    tree: Tree,
    subset: tuple[int, int],
    findings: _Findings,
    progress: Progress | None,
) -> None:
    part, parts = subset
    chosen = [
        (path, entry)
        for path, entry in tree.walk()
        if entry.kind is Kind.FILE and zlib.crc32(path.encode()) % parts == part - 1
    ]
    begin(progress, "reading files again", "files", len(chosen))
    for path, entry in chosen:
        parent, name = paths.split(path)
        try:
            folder = open_folder(engine.root, parent)
        except OSError as problem:
            findings.error("disk_removed", path, f"its folder: {reason_of(problem)}")
            continue
        _check_file(engine, folder, path, paths.text_to_os(name), entry.content_id, findings)
        if progress is not None:
            progress(1)


def _check_file(
    engine: Engine, folder: int, path: str, name: str, expected: bytes, findings: _Findings
) -> None:
    try:
        stat = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not modes.S_ISREG(stat.st_mode):
            findings.error("disk_modified", path, "is no longer a regular file")
        elif hash_file(engine.algorithm, name, folder, stat, engine.between)[0] != expected:
            findings.error("disk_modified", path, "modified on disk since the last scan")
    except FileNotFoundError:
        findings.error("disk_removed", path, "removed on disk since the last scan")
    except (OSError, TornReadError) as problem:
        findings.could_not("unreadable", path, f"could not be read: {reason_of(problem)}")
    finally:
        os.close(folder)


def _check_rules(root: Path, hidden: list[str], findings: _Findings) -> None:
    """Warn about what makes roots differ in clones."""
    exclude = root / INFO_EXCLUDE
    try:
        lines = exclude.read_bytes().splitlines()
    except OSError:
        lines = []
    if any(line.strip() and not line.startswith(b"#") for line in lines):
        findings.warning(
            "info_exclude", INFO_EXCLUDE,
            "has rules of its own: the root may differ in another clone of the same content",
        )  # fmt: skip
    for path in hidden[:_SHOWN]:
        findings.warning("tracked_ignored", path, "is tracked by git but ignored by a rule here")
    if len(hidden) > _SHOWN:
        more = len(hidden) - _SHOWN
        findings.warning("tracked_ignored", "", f"and {more} more tracked files are ignored")


def _paths(tree: Tree | None) -> set[str] | None:
    return None if tree is None else {path for path, _ in tree.walk()}


def _tracked_but_ignored(engine: Engine, present: Container[str] | None) -> Iterator[str]:
    """What git has and the tree has not; the paths `present` were found by the rules of now."""
    if not (engine.root / ".git").exists():
        return
    named = tracked(engine.root)
    if present is not None:
        # What is in the tree is not ignored.
        named = [path for path in named if path not in present]
    for path in engine.scopes.ignored_of(named):
        # The lock is meant to be committed, and to be no part of the tree it describes.
        if path != lockfile.NAME:
            yield path
