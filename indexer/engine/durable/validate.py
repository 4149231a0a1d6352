"""`validate`: every invariant of what is stored, and with `content` the disk against it."""

from __future__ import annotations

import contextlib
import os
import stat as modes
import zlib
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Final, TypedDict

from indexer.core import lockfile, paths
from indexer.core.arguments import IdPrefix
from indexer.core.changes import nodes_of, summarize, tree_changes
from indexer.core.garbage import no_cycle_collection
from indexer.core.kinds import Kind
from indexer.core.progress import Progress, begin, meter_of
from indexer.core.recorded_nodes import add_up_to
from indexer.core.tree import Tree
from indexer.engine.tree.disk import Disk, UnavailableError
from indexer.engine.tree.lock import check_lock
from indexer.engine.tree.lost import lost_text
from indexer.engine.tree.recorded import RecordedTree
from indexer.engine.tree.scan import Looked, look
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


@no_cycle_collection()
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
    if subset is not None and subset[0] > subset[1]:
        raise ArgumentsError(f"there is no part {subset[0]} of {subset[1]}")
    begin(progress, "checking the index")
    tables, head = engine.database.read_all(), engine.trees.head()
    # Taken, because what others compared holds for this run only.
    compared, engine.contents_compared = engine.contents_compared, None
    checks = _Checks(engine.disk, engine.recorded, compared, progress)
    nodes, frames, code = 0, 0, (0, 0)
    tree: Tree | None = None
    present: Tree | None = None
    hidden: list[str] | None = None
    if head is None:
        checks.could_not("never_scanned", "", "nothing has been recorded yet: run `merkle scan`")
    else:
        if content and subset is None and not locked and tables <= OF_TREES:
            hidden = checks.hidden_if_sound(head, read_only=engine.read_only)
        if hidden is not None:
            nodes = head.totals.nodes
            checks.warn_of_lost()
        elif (tree := checks.stored(head)) is not None:
            # Imported late: there may be nothing but files to check.
            from indexer.engine.durable.code_checks import check_code
            from indexer.engine.durable.frame_checks import check_frames

            nodes = tree.root.totals.nodes
            frames = check_frames(engine.frames, tree, engine.records.journal, checks.error)
            code = check_code(engine.frames, tree, checks.error, meter_of(progress))
            if content or subset is not None:
                if checks.compared is not None:
                    # Done while another process reads: it holds where that finds what is recorded.
                    hidden = checks.tracked_but_ignored(_paths(tree))
                present = checks.content(tree, subset)
            if locked:
                checks.locked()
        for path, reason in engine.trees.remarks().unreadable:
            checks.could_not("unreadable", path, f"could not be read: {reason}")
        if hidden is None or present is not tree:
            hidden = checks.tracked_but_ignored(_paths(present))
        checks.rules(hidden)
        if expect_root is not None and not head.root.hex().startswith(expect_root.lower()):
            checks.error(
                "unexpected_root", "", f"the root is {head.root.hex()}, expected {expect_root}"
            )
    sessions = SessionStore(engine.database)
    if sessions.names():
        # Imported late: most workspaces have no session.
        from indexer.engine.durable.session_checks import check_sessions

        check_sessions(sessions, checks.error)
    return {
        "valid": not checks.errors and not checks.unchecked,
        "root": head.root.hex() if head else None,
        "node_count": nodes,
        "frame_count": frames,
        "errors": checks.errors,
        "warnings": checks.warnings,
        "unchecked": checks.unchecked,
        "hash": engine.algorithm.name,
        "note": NOTES[engine.algorithm.name],
        "files_checked": code[0],
        "files_known": code[1],
    }


class _Checks:
    """The checks of one run: the disk and what is recorded, and what was found of them."""

    def __init__(
        self,
        disk: Disk,
        recorded: RecordedTree,
        compared: Callable[[], bool] | None,
        progress: Progress | None,
    ) -> None:
        self._disk, self._recorded, self._trees = disk, recorded, recorded.store
        self.compared = compared
        """Tells whether others found all files as they are recorded; None where nobody reads."""
        self._progress = progress
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

    def hidden_if_sound(self, head: Root, *, read_only: bool) -> list[str] | None:
        """What git has and the rules leave out, where everything that is stored is sound.

        Only for a tree without frames whose files another process reads meanwhile: less is loaded
        than it takes to say what is wrong. None where something is, or may be.
        """
        trees, algorithm = self._trees, self._disk.algorithm
        if self.compared is None or not self._journal_holds(read_only) or trees.log_problems():
            return None
        nodes = trees.nodes_at(head.seq)
        if not add_up_to(algorithm, nodes, head.root, head.content_id, head.totals):
            return None
        if not self._cache_holds(head):
            return None
        # Done while another process reads: it holds where that finds what is recorded.
        hidden = self.tracked_but_ignored({node[0] for node in nodes})
        if self.compared():
            return hidden
        # A look at everything finds out what it is that differs.
        self.compared = None
        return None

    def _journal_holds(self, read_only: bool) -> bool:
        """Whether the journal has what the database took from it, no more, and all in order."""
        applied, folder = self._trees.applied_record(), self._disk.layout.journal
        try:
            journal = Journal.open(folder, applied=applied, read_only=read_only)
        except MerkleError:
            return False
        with contextlib.closing(journal):
            return 0 < journal.last == applied and not journal.check()

    def _cache_holds(self, head: Root) -> bool:
        """Whether the stat cache, where it is not behind, is that of the recorded root."""
        listings = self._trees.listings(top=True)
        try:
            return listings is None or self._trees.tree(listings).root.content_id == head.content_id
        except (MerkleError, ValueError):
            return False

    def stored(self, head: Root) -> Tree | None:
        """Build the tree from the log and compare every recorded id with the one it has."""
        try:
            tree, recorded = self._trees.tree_with_ids(head.seq)
        except MerkleError as problem:
            self.error(problem.code, "", problem.message)
            return None
        for path, _, content_id, node_id, _ in nodes_of(tree.algorithm, paths.ROOT, tree.root):
            found = recorded.pop(path, None)
            if found is None:
                self.error("not_recorded", path, "is implied by its children but not recorded")
            elif found[0] != content_id:
                self.error("content_id", path, "recorded content id does not follow from the tree")
            elif found[1] != node_id:
                self.error(
                    "node_id", path, "recorded NodeID does not follow from place and content"
                )
        for path in recorded:
            self.error("stray", path, "is recorded but has no place in the tree")
        if head.root != tree.root_id or head.content_id != tree.root.content_id:
            self.error("root", "", "the recorded root is not the root of the recorded tree")
        if head.totals != tree.root.totals:
            self.error("totals", "", f"recorded {head.totals}, counted {tree.root.totals}")
        for seq, what in self._trees.log_problems():
            self.error("log", "", f"root {seq}: {what}")
        self.warn_of_lost()
        self._listings(tree)
        return tree

    def warn_of_lost(self) -> None:
        """Warn about roots that were acknowledged and are gone."""
        for lost in self._trees.lost():
            self.warning("lost_roots", "", lost_text(lost.first, lost.last))

    def _listings(self, tree: Tree) -> None:
        listings = self._trees.listings()
        if listings is None:
            return
        try:
            cached = self._trees.tree(listings)
            self._recorded.loaded(cached)
        except (MerkleError, ValueError) as error:
            self.error("stat_cache", "", f"the stat cache is unreadable: {error}")
            return
        for path, _, _ in tree_changes(tree, cached):
            self.error("stat_cache", path, "the stat cache and the tree disagree")

    def content(self, tree: Tree, subset: tuple[int, int] | None) -> Tree | None:
        """Read files again and compare, all or one part of several; gives what is there now."""
        if subset is not None:
            self._part(tree, *subset)
            return None
        if self.compared is not None and not self.errors and self.compared():
            # Another process has read them. Where anything is wrong, this one finds out what.
            return tree
        looked = self._looked(force=True)
        if looked is None:
            return None
        present = looked.tree or self._recorded.tree
        summary = summarize(tree_changes(tree, present))
        for code, listed in (
            ("added", summary.added), ("modified", summary.modified), ("removed", summary.removed),
        ):  # fmt: skip
            for path in listed:
                self.error(f"disk_{code}", path, f"{code} on disk since the last scan")
        return None if looked.unreadable else present

    def _looked(self, *, force: bool = False) -> Looked | None:
        """What is on disk now, where it can be looked at; what cannot be read is noted."""
        try:
            looked = look(
                self._disk, self._recorded, force=force, accept_empty=True, progress=self._progress
            )
        except UnavailableError as error:
            self.could_not("unavailable", "", error.message)
            return None
        for remark in looked.unreadable:
            self.could_not("unreadable", remark.path, f"could not be read: {remark.reason}")
        return looked

    def locked(self) -> None:
        """Compare what is on disk now with merkle.lock, whatever was recorded last."""
        looked, disk = self._looked(), self._disk
        if looked is not None:
            tree = looked.tree or self._recorded.tree
            check_lock(disk.root, tree, disk.algorithm, self.error, self.could_not)

    def _part(self, tree: Tree, part: int, parts: int) -> None:
        chosen = [
            (path, entry)
            for path, entry in tree.walk()
            if entry.kind is Kind.FILE and zlib.crc32(path.encode()) % parts == part - 1
        ]
        begin(self._progress, "reading files again", "files", len(chosen))
        for path, entry in chosen:
            parent, name = paths.split(path)
            try:
                folder = open_folder(self._disk.root, parent)
            except OSError as problem:
                self.error("disk_removed", path, f"its folder: {reason_of(problem)}")
                continue
            self._file(folder, path, paths.text_to_os(name), entry.content_id)
            if self._progress is not None:
                self._progress(1)

    def _file(self, folder: int, path: str, name: str, expected: bytes) -> None:
        disk = self._disk
        try:
            stat = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not modes.S_ISREG(stat.st_mode):
                self.error("disk_modified", path, "is no longer a regular file")
            elif hash_file(disk.algorithm, name, folder, stat, disk.between)[0] != expected:
                self.error("disk_modified", path, "modified on disk since the last scan")
        except FileNotFoundError:
            self.error("disk_removed", path, "removed on disk since the last scan")
        except (OSError, TornReadError) as problem:
            self.could_not("unreadable", path, f"could not be read: {reason_of(problem)}")
        finally:
            os.close(folder)

    def rules(self, hidden: list[str]) -> None:
        """Warn about what makes roots differ in clones."""
        try:
            lines = (self._disk.root / INFO_EXCLUDE).read_bytes().splitlines()
        except OSError:
            lines = []
        if any(line.strip() and not line.startswith(b"#") for line in lines):
            self.warning(
                "info_exclude", INFO_EXCLUDE,
                "has rules of its own: the root may differ in another clone of the same content",
            )  # fmt: skip
        for path in hidden[:_SHOWN]:
            self.warning("tracked_ignored", path, "is tracked by git but ignored by a rule here")
        if len(hidden) > _SHOWN:
            more = len(hidden) - _SHOWN
            self.warning("tracked_ignored", "", f"and {more} more tracked files are ignored")

    def tracked_but_ignored(self, present: Container[str] | None) -> list[str]:
        """What git has and the tree has not; the paths `present` were found by today's rules."""
        if not (self._disk.root / ".git").exists():
            return []
        named = tracked(self._disk.root)
        if present is not None:
            # What is in the tree is not ignored.
            named = [path for path in named if path not in present]
        # The lock is meant to be committed, and to be no part of the tree it describes.
        return [path for path in self._disk.scopes.ignored_of(named) if path != lockfile.NAME]


def _paths(tree: Tree | None) -> set[str] | None:
    return None if tree is None else {path for path, _ in tree.walk()}
