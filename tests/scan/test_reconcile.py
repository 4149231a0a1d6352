"""From paths that events named to a tree: whatever they say, the tree ends up as on disk."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from indexer.core.hashing import HASHES
from indexer.core.kinds import Kind
from indexer.core.tree import Tree
from indexer.scan import reading, reconcile, walk
from indexer.scan.assemble import assemble
from indexer.scan.previous import NothingBefore, TreeBefore
from indexer.scan.reconcile import Reconciled
from indexer.scan.scopes import Scopes
from indexer.scan.walk import Remark, Walker

XXH3 = HASHES["xxh3_128"]
LATER = 1 << 62


class Index:
    """A tree that is kept up to date by naming paths."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.scopes = Scopes(root)
        self.tree = self.from_nothing()
        self.walked: list[str] = []

    def from_nothing(self) -> Tree:
        walker = Walker(self.root, XXH3, Scopes(self.root), NothingBefore(), LATER)
        folder = assemble(Tree.empty(XXH3), walker.walk())
        assert folder is not None
        return Tree(XXH3, folder)

    def look(self, *dirty: str | tuple[str, bool]) -> Reconciled:
        """Reconcile; a bare path is named without what is below it."""
        named = [each if isinstance(each, tuple) else (each, False) for each in dirty]
        return self.look_at(named)

    def look_at(self, named: Iterable[tuple[str, bool]]) -> Reconciled:
        self.walked = []
        walker = Walker(
            self.root, XXH3, self.scopes, TreeBefore(self.tree), LATER,
            on_folder=self.walked.append,
        )  # fmt: skip
        found = reconcile.reconcile(walker, self.tree, named)
        self.tree = found.tree
        return found

    def assert_true(self) -> None:
        assert flat(self.tree) == flat(self.from_nothing())
        assert self.tree.root.totals == self.from_nothing().root.totals


def flat(tree: Tree) -> dict[str, tuple[Kind, bytes]]:
    return {path: (entry.kind, entry.content_id) for path, entry in tree.walk()}


@pytest.fixture
def index(workspace: Path) -> Index:
    (workspace / "src" / "deep").mkdir(parents=True)
    (workspace / "src" / "main.py").write_bytes(b"main")
    (workspace / "src" / "deep" / "leaf.py").write_bytes(b"leaf")
    (workspace / "docs").mkdir()
    (workspace / "docs" / "page.md").write_bytes(b"page")
    (workspace / "README").write_bytes(b"read me")
    return Index(workspace)


def test_an_edit(index: Index) -> None:
    (index.root / "src" / "main.py").write_bytes(b"other")
    before = index.tree
    found = index.look("src/main.py")
    assert found.hashed == 1
    assert index.walked == []
    index.assert_true()
    assert index.tree.folder("docs") is before.folder("docs")


def test_an_event_without_a_change(index: Index) -> None:
    before = index.tree
    found = index.look("src/main.py", ("src", False), "nothing", "no/such/path", "README/below")
    assert found.hashed == 0
    assert index.tree.root is before.root


def test_a_touch_moves_the_stat_only(index: Index) -> None:
    before = index.tree
    os.utime(index.root / "README", ns=(9, 9))
    assert index.look("README").hashed == 1
    assert index.tree.root_id == before.root_id
    assert index.look("README").hashed == 0, "the new stat vouches"


def test_a_new_file_and_a_deleted_one(index: Index) -> None:
    (index.root / "src" / "new").write_bytes(b"n")
    (index.root / "README").unlink()
    index.look("src/new", "README")
    index.assert_true()


def test_a_new_folder_is_walked_whole(index: Index) -> None:
    (index.root / "a" / "b" / "c").mkdir(parents=True)
    (index.root / "a" / "b" / "c" / "f").write_bytes(b"f")
    index.look(("a", True))
    assert index.walked == ["a", "a/b", "a/b/c"]
    index.assert_true()


@pytest.mark.parametrize(
    "named", ["a/b/c/f", ("a/b/c/f", True), ("a/b", True), "a/b/.gitignore", "a/b/c"]
)
def test_an_event_inside_a_folder_not_known_yet(index: Index, named: Any) -> None:
    """`mkdir -p` and a write race with the watch: the new folder is walked, nothing else."""
    (index.root / "a" / "b" / "c").mkdir(parents=True)
    (index.root / "a" / "b" / "c" / "f").write_bytes(b"f")
    index.look(named)
    assert index.walked == ["a", "a/b", "a/b/c"]
    index.assert_true()


def test_an_event_inside_an_ignored_folder_costs_no_walk(index: Index) -> None:
    (index.root / "node_modules" / "pkg").mkdir(parents=True)
    (index.root / "node_modules" / "pkg" / ".gitignore").write_bytes(b"*.o\n")
    index.look(("node_modules/pkg", True), "node_modules/pkg/.gitignore", "node_modules/x")
    assert index.walked == []
    index.assert_true()


def test_a_deleted_folder(index: Index) -> None:
    (index.root / "src" / "deep" / "leaf.py").unlink()
    (index.root / "src" / "deep").rmdir()
    index.look("src/deep/leaf.py", "src/deep")
    index.assert_true()


def test_a_moved_folder(index: Index) -> None:
    (index.root / "src").rename(index.root / "docs" / "src")
    index.look(("src", True), ("docs/src", True))
    index.assert_true()


@pytest.mark.parametrize("deep", [True, False])
def test_a_file_becomes_a_folder_and_back(index: Index, deep: bool) -> None:
    path = index.root / "README"
    path.unlink()
    path.mkdir()
    (path / "inside").write_bytes(b"i")
    index.look(("README", deep), "README/inside")
    index.assert_true()
    (path / "inside").unlink()
    path.rmdir()
    path.write_bytes(b"a file again")
    index.look("README/inside", ("README", deep))
    index.assert_true()


@pytest.mark.parametrize("deep", [True, False])
def test_a_folder_becomes_a_link(index: Index, tmp_path: Path, deep: bool) -> None:
    (index.root / "src").rename(tmp_path / "away")
    (index.root / "src").symlink_to(tmp_path / "away")
    index.look("src/main.py", ("src", deep), ("src/deep", True))
    index.assert_true()
    assert flat(index.tree)["src"][0] is Kind.LINK


def test_a_file_becomes_a_fifo(index: Index) -> None:
    (index.root / "README").unlink()
    os.mkfifo(index.root / "README")
    index.look("README")
    index.assert_true()


def test_a_child_event_alone_does_not_resurrect_a_folder(index: Index, tmp_path: Path) -> None:
    before = index.tree
    (index.root / "src").rename(tmp_path / "away")
    index.look("src/main.py", "src/deep/leaf.py")
    assert index.tree.root is before.root, "its parent's own event will tell"
    index.look(("src", True))
    index.assert_true()


def test_a_folder_made_anew_is_walked(index: Index, tmp_path: Path) -> None:
    (index.root / "src").rename(tmp_path / "away")
    (index.root / "src").mkdir()
    (index.root / "src" / "other").write_bytes(b"o")
    index.look("src", ("src", True), "src/other")
    index.assert_true()


def test_duplicates_parents_and_order_do_not_matter(index: Index) -> None:
    (index.root / "src" / "main.py").write_bytes(b"1")
    (index.root / "src" / "deep" / "leaf.py").write_bytes(b"2")
    (index.root / "docs" / "page.md").unlink()
    index.look(
        "src/deep/leaf.py", ("src/deep", True), ("src", True), "docs/page.md", "docs/page.md",
        "src/main.py", ("docs", False), "src/gone/long/ago",
    )  # fmt: skip
    index.assert_true()


def test_the_root_means_everything(index: Index) -> None:
    (index.root / "src" / "deep" / "leaf.py").write_bytes(b"2")
    (index.root / "new").mkdir()
    index.look(("", False))
    index.assert_true()


def test_a_rule_file_reaches_everything_below_it(index: Index) -> None:
    (index.root / "src" / ".gitignore").write_bytes(b"*.py\n!main.py\n")
    index.look("src/.gitignore")
    assert index.walked == ["src", "src/deep"]
    index.assert_true()
    assert index.tree.get("src/deep/leaf.py") is None
    (index.root / "src" / ".gitignore").unlink()
    index.look("src/.gitignore")
    index.assert_true()
    assert index.tree.get("src/deep/leaf.py") is not None


def test_a_rule_that_leaves_out_a_folder_and_lets_it_in_again(index: Index) -> None:
    (index.root / ".merkleignore").write_bytes(b"src/\n")
    index.look(".merkleignore")
    index.assert_true()
    assert index.tree.get("src") is None
    (index.root / "src" / "main.py").write_bytes(b"changed while ignored")
    index.look("src/main.py")
    index.assert_true()
    (index.root / ".merkleignore").write_bytes(b"")
    index.look(".merkleignore")
    index.assert_true()
    assert index.tree.get("src/main.py") is not None


def test_an_ignored_path_is_left_out(index: Index) -> None:
    (index.root / ".gitignore").write_bytes(b"*.log\nbuild/\n")
    index.look(".gitignore")
    (index.root / "x.log").write_bytes(b"1")
    (index.root / "build").mkdir()
    index.look("x.log", ("build", True), "build")
    index.assert_true()
    assert index.walked == []


def test_a_file_that_becomes_a_folder_a_rule_leaves_out(index: Index) -> None:
    (index.root / ".gitignore").write_bytes(b"README/\n")
    index.look(".gitignore")
    assert index.tree.get("README") is not None
    (index.root / "README").unlink()
    (index.root / "README").mkdir()
    index.look("README")
    index.assert_true()
    assert index.tree.get("README") is None


def test_a_rule_for_folders_does_not_mean_the_file_that_is_there_now(index: Index) -> None:
    (index.root / ".gitignore").write_bytes(b"/README/\n")
    index.look(".gitignore")
    index.look(("README", True))
    index.assert_true()
    assert index.tree.get("README") is not None


# -- what goes wrong


def deny(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    real = os.open

    def refuse(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path in names:
            raise PermissionError(13, "Permission denied", path)
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)


def test_an_unreadable_file_keeps_its_id(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    before = index.tree
    (index.root / "README").write_bytes(b"unseen")
    deny(monkeypatch, "README")
    found = index.look("README")
    assert found.unreadable == [Remark("README", "permission denied")]
    assert index.tree.root_id == before.root_id
    assert index.tree.root.unreadable == 1
    marked = index.tree
    index.look("README")
    assert index.tree.root is marked.root


@pytest.mark.parametrize("named", [("src", True), ("src/main.py", False)])
def test_an_unreadable_folder_keeps_what_was_below(
    index: Index, monkeypatch: pytest.MonkeyPatch, named: tuple[str, bool]
) -> None:
    before = index.tree
    deny(monkeypatch, "src")
    found = index.look(named)
    assert found.unreadable == [Remark(named[0], "permission denied")]
    assert index.tree.root_id == before.root_id
    below = before.folder("src")
    assert below is not None
    assert index.tree.root.unreadable == (below.totals.files if named[1] else 1)
    marked = index.tree
    index.look(named)
    assert index.tree.root is marked.root


def test_a_file_still_being_written_is_to_be_looked_at_again(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = index.root / "README"
    path.write_bytes(b"writing")
    real, count = os.read, iter(range(1, 100))

    def restless(descriptor: int, size: int) -> bytes:
        moment = next(count)
        os.utime(path, ns=(moment, moment))
        return real(descriptor, size)

    before = index.tree
    with monkeypatch.context() as patch:
        patch.setattr(reading.os, "read", restless)
        found = index.look("README")
    assert found.unsettled == ["README"]
    assert index.tree.root_id == before.root_id
    assert index.tree.root.unreadable == 1
    index.look("README")
    index.assert_true()


def test_a_root_that_went_is_an_error(index: Index, tmp_path: Path) -> None:
    index.root.rename(tmp_path / "away")
    with pytest.raises(OSError):  # noqa: PT011  # any of several errors is right
        index.look(("", True))


def test_what_went_while_looking_is_not_brought_back(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`src` is gone at the first look and there again at the second, half made."""
    real, away = os.stat, index.root.parent / "away"
    (index.root / "src").rename(away)

    def come_back(path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> Any:
        try:
            return real(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        finally:
            if path == "src" and away.exists():
                away.rename(index.root / "src")
                (index.root / "src" / "deep" / "leaf.py").unlink()
                (index.root / "src" / "main.py").write_bytes(b"new")

    monkeypatch.setattr(os, "stat", come_back)
    index.look("src", "src/main.py")
    assert index.tree.get("src") is None, "removed whole; its own event brings it back whole"
    index.look(("src", True))
    index.assert_true()


def test_the_depth_limit_holds_for_events_too(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "MAX_DEPTH", 3)
    monkeypatch.setattr(reconcile, "MAX_DEPTH", 3)
    (index.root / "a" / "b" / "c").mkdir(parents=True)
    index.look(("a", True))
    index.assert_true()
    (index.root / "a" / "b" / "c" / "d" / "e").mkdir(parents=True)
    (index.root / "a" / "b" / "c" / "d" / "f").write_bytes(b"1")
    index.look(("a/b/c/d", True), "a/b/c/d", "a/b/c/d/f", ("a/b/c/d/e", True))
    index.assert_true()
    assert index.tree.get("a/b/c/d") is None
    index.look(("a/b/c", True))
    index.assert_true()


def test_many_folders_need_few_descriptors(index: Index) -> None:
    for number in range(300):
        (index.root / f"d{number}").mkdir()
    index.look(("", True))
    before = len(os.listdir("/proc/self/fd"))
    for number in range(300):
        (index.root / f"d{number}" / "f").write_bytes(b"1")
    index.look_at((f"d{number}/f", False) for number in range(300))
    index.assert_true()
    assert len(os.listdir("/proc/self/fd")) == before
