"""A walk that is shared with other processes finds what one alone finds."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from indexer.core import listing
from indexer.core.changes import nodes_of
from indexer.core.hashing import DEFAULT_HASH, workspace_hash
from indexer.core.listing import Listing
from indexer.core.tree import Tree
from indexer.scan import shared_walk
from indexer.scan.assemble import assemble
from indexer.scan.previous import ListingsBefore, NothingBefore
from indexer.scan.scopes import Scopes
from indexer.scan.shared_walk import listed_parts, walk_shared
from indexer.scan.walk import Observed, Walker

HASH = workspace_hash(DEFAULT_HASH)
MAY_FORK = shared_walk._may_fork
TAKEN = shared_walk._taken
LATER = 1 << 62
"""When everything is old."""


@pytest.fixture
def walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Tree]:
    """A workspace that was walked, and that is large enough to be shared."""
    for first in "abc":
        for second in "xyz":
            folder = tmp_path / first / second / "deep"
            folder.mkdir(parents=True)
            (folder / "file").write_text(f"{first}{second}")
            (folder.parent / "link").symlink_to("deep/file")
    os.mkfifo(tmp_path / "b" / "y" / "pipe")
    (tmp_path / "c" / "z" / "again").hardlink_to(tmp_path / "a" / "x" / "deep" / "file")
    monkeypatch.setattr(shared_walk, "_WORTH", 0)
    # The tests themselves may run beside a thread, which does no harm here.
    monkeypatch.setattr(shared_walk, "_may_fork", lambda: True)
    # All parts are taken by others, who would otherwise have to be quick.
    here = os.getpid()
    monkeypatch.setattr(
        shared_walk,
        "_taken",
        lambda line: iter(()) if os.getpid() == here else TAKEN(line),
    )
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    alone = Walker(tmp_path, HASH, Scopes(tmp_path), NothingBefore(), LATER).walk()
    folder = assemble(Tree.empty(HASH), alone)
    assert folder is not None
    return tmp_path, Tree(HASH, folder)


def listings_of(tree: Tree) -> dict[str, Listing]:
    return {path: listing.encode(folder) for path, folder in tree.folders()}


def both(root: Path, tree: Tree) -> tuple[Observed, Observed]:
    """What one process finds, and what several do."""
    listings = listings_of(tree)

    def walker() -> Walker:
        return Walker(root, HASH, Scopes(root), ListingsBefore(listings, HASH.size), LATER)

    return walker().walk(), walk_shared(walker(), listings)


def agree(tree: Tree, alone: Observed, shared: Observed) -> None:
    assert shared.left, "nothing was left to others"
    assert shared.unchanged == alone.unchanged
    assert sorted(shared.skipped) == sorted(alone.skipped)
    assert sorted(shared.unreadable) == sorted(alone.unreadable)
    assert (shared.linked, shared.hashed) == (alone.linked, alone.hashed)
    one, other = assemble(tree, alone), assemble(tree, shared)
    assert one is not None
    assert other is not None
    assert one.content_id == other.content_id


def test_nothing_changed(walked: tuple[Path, Tree]) -> None:
    root, tree = walked
    alone, shared = both(root, tree)
    agree(tree, alone, shared)
    assert shared.unchanged
    assert [path for path, _ in shared.skipped] == ["b/y/pipe"]
    assert shared.linked == {"a/x/deep/file", "c/z/again"}
    assert assemble(tree, shared) is tree.root


def _rewrite(root: Path) -> None:
    for path in root.glob("*/*/deep/file"):
        path.write_text("another")


CHANGES: dict[str, Callable[[Path], object]] = {
    "edited": lambda root: (root / "a" / "x" / "deep" / "file").write_text("edited"),
    "edited there": lambda root: (root / "c" / "z" / "deep" / "file").write_text("edited"),
    "all": _rewrite,
    "added": lambda root: (root / "b" / "x" / "new").write_text("new"),
    "removed": lambda root: (root / "b" / "z" / "link").unlink(),
    "moved away": lambda root: (root / "b" / "y").rename(root / "moved"),
    "ignored": lambda root: (root / ".gitignore").write_text("deep\n"),
    "ignored below": lambda root: (root / "b" / ".gitignore").write_text("z\n"),
    "a link for a folder": lambda root: (
        (root / "b" / "x").rename(root / "x"),
        (root / "b" / "x").symlink_to("../x"),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_something_changed(walked: tuple[Path, Tree], change: str) -> None:
    root, tree = walked
    CHANGES[change](root)
    alone, shared = both(root, tree)
    agree(tree, alone, shared)
    assert not shared.unchanged


def test_a_process_that_is_killed_is_done_without(
    walked: tuple[Path, Tree], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_walk, "_look_at", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    root, tree = walked
    alone, shared = both(root, tree)
    agree(tree, alone, shared)
    assert shared.unchanged


def test_where_no_more_processes_are_allowed_one_does_it_all(
    walked: tuple[Path, Tree], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refused)
    before = len(os.listdir("/dev/fd"))
    root, tree = walked
    alone, shared = both(root, tree)
    agree(tree, alone, shared)
    assert shared.unchanged
    first = walk_shared(Walker(root, HASH, Scopes(root), NothingBefore(), LATER), None)
    folder = assemble(Tree.empty(HASH), first)
    assert folder is not None
    assert folder.content_id == tree.root.content_id
    listings = listings_of(tree)
    walker = Walker(root, HASH, Scopes(root), ListingsBefore(listings, HASH.size), LATER)
    with shared_walk.contents_compared(walker, listings) as are_as_listed:
        # Not known: whoever asks compares alone then.
        assert are_as_listed is not None
        assert not are_as_listed()
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.parametrize("killed", [False, True])
def test_a_first_reading_is_put_together_by_whoever_reads(
    walked: tuple[Path, Tree], monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    root, tree = walked
    monkeypatch.setattr(shared_walk, "_LEVELS", 1)
    if killed:
        work = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731  # one line says it
        monkeypatch.setattr(shared_walk, "_read_first", work)
    shared = walk_shared(Walker(root, HASH, Scopes(root), NothingBefore(), LATER), None)
    assert shared.left == [f"{first}/{second}" for first in "abc" for second in "xyz"]
    stored = {path: seen.stored for path, seen in shared.folders.items() if seen.stored}
    assert sorted(stored) == ([] if killed else shared.left)
    folder = assemble(Tree.empty(HASH), shared)
    assert folder is not None
    assert folder.content_id == tree.root.content_id
    assert listing.below("", folder) == listings_of(tree)
    nodes = nodes_of(HASH, "", folder, stored)
    nodes += [node for each in stored.values() for node in each.nodes]
    assert sorted(nodes) == sorted(nodes_of(HASH, "", tree.root))
    assert [path for path, _ in shared.skipped] == ["b/y/pipe"]
    assert shared.linked == {"a/x/deep/file", "c/z/again"}
    assert shared.hashed == 10
    # What was put together is decoded like what was read from the store.
    assert dict(Tree(HASH, folder).walk()).keys() == dict(tree.walk()).keys()


def _flip(root: Path, where: str) -> None:
    """Another byte in a file that, by its stat, is as it was but for the time of its change."""
    path = root / where
    before = path.stat()
    path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes()))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


CONTENTS: dict[str, Callable[[Path], object]] = CHANGES | {
    "a byte": lambda root: _flip(root, "c/y/deep/file"),
    "a link": lambda root: (
        (root / "a" / "z" / "link").unlink(),
        (root / "a" / "z" / "link").symlink_to("deep/fils"),
    ),
    "a folder more": lambda root: (root / "b" / "x" / "deep" / "more").mkdir(),
    "a folder more around": lambda root: (root / "more").mkdir(),
    "a file around": lambda root: (root / "a" / "new").touch(),
    "a folder less": lambda root: (root / "c" / "z" / "deep").rename(root / "c" / "z" / "dee"),
}


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize("change", [None, "touched", *CONTENTS])
def test_contents_are_compared_by_whoever_has_time(
    walked: tuple[Path, Tree], monkeypatch: pytest.MonkeyPatch, change: str | None, here: bool
) -> None:
    root, tree = walked
    listings = listings_of(tree)
    walker = Walker(root, HASH, Scopes(root), ListingsBefore(listings, HASH.size), LATER)
    if here:
        # Whoever was asked first comes to take nothing.
        mine = os.getpid()
        monkeypatch.setattr(
            shared_walk, "_taken", lambda line: TAKEN(line) if os.getpid() == mine else iter(())
        )
    if change == "touched":
        os.utime(root / "a" / "x" / "deep" / "file", (1, 1))
    elif change is not None:
        CONTENTS[change](root)
    with shared_walk.contents_compared(walker, listings) as are_as_listed:
        assert are_as_listed is not None
        assert are_as_listed() == (change in (None, "touched"))


@pytest.mark.parametrize("where", ["c/y/deep/file", "a/z/link"])
def test_contents_that_were_never_these(walked: tuple[Path, Tree], where: str) -> None:
    """By all that their stats tell they are: only reading them tells otherwise."""
    root, tree = walked
    folder, name = where.rsplit("/", 1)
    entry = tree.get(where)
    assert entry is not None
    wrong = entry._replace(content_id=HASH.of_file(b"another"))
    listings = listings_of(tree.with_updates({folder: {name: wrong}}))
    walker = Walker(root, HASH, Scopes(root), ListingsBefore(listings, HASH.size), LATER)
    assert walker.walk().unchanged
    with shared_walk.contents_compared(walker, listings) as are_as_listed:
        assert are_as_listed is not None
        assert not are_as_listed()


def test_what_a_killed_process_has_read_is_not_known(
    walked: tuple[Path, Tree], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, tree = walked
    listings = listings_of(tree)
    monkeypatch.setattr(shared_walk, "_compare", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    walker = Walker(root, HASH, Scopes(root), ListingsBefore(listings, HASH.size), LATER)
    with shared_walk.contents_compared(walker, listings) as are_as_listed:
        assert are_as_listed is not None
        assert not are_as_listed()


def test_parts_are_told_whole_or_stay_here(
    walked: tuple[Path, Tree], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names that fill more than one packet, and one that fills more than any."""
    root, _ = walked
    many = ["n" * 200 + str(number) for number in range(6)]
    for name in [*many, "l" * 250]:
        (root / "a" / "x" / name).mkdir()
    monkeypatch.setattr(shared_walk, "_PACKET", 256)
    monkeypatch.setattr(shared_walk, "_LEVELS", 1)
    alone = Walker(root, HASH, Scopes(root), NothingBefore(), LATER).walk()
    shared = walk_shared(Walker(root, HASH, Scopes(root), NothingBefore(), LATER), None)
    agree(Tree.empty(HASH), alone, shared)


def test_a_tree_is_taken_apart_where_it_is_heavy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No part has much of it, however it lies, and every folder is in one part or around some."""
    monkeypatch.setattr(shared_walk, "_WORTH", 0)
    files = [f"a/b/c/d{number}/f{each}" for number in range(60) for each in range(9)]
    for name in (*files, "e/f", "g/f", "h/f"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    observed = Walker(tmp_path, HASH, Scopes(tmp_path), NothingBefore(), LATER).walk()
    folder = assemble(Tree.empty(HASH), observed)
    assert folder is not None
    listings = listing.below("", folder)
    nodes = {path: listing.nodes_in(each) for path, each in listings.items()}
    parts = [[f"{parent}/{name}".lstrip("/") for name in names]
             for parent, names in listed_parts(listings)]  # fmt: skip
    assert max(sum(nodes[path] for path in part) for part in parts) <= 2 * nodes[""] // 48
    covered = [path for part in parts for path in part]
    assert sorted(covered) == sorted([f"a/b/c/d{number}" for number in range(60)] + ["e", "g", "h"])


def test_nothing_is_forked_beside_other_threads(
    walked: tuple[Path, Tree], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, tree = walked
    monkeypatch.setattr(os, "fork", None)
    monkeypatch.setattr(shared_walk, "_may_fork", MAY_FORK)
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        listings = listings_of(tree)
        before = ListingsBefore(listings, HASH.size)
        found = walk_shared(Walker(root, HASH, Scopes(root), before, LATER), listings)
    finally:
        done.set()
        other.join()
    assert found.unchanged
    assert not found.left


def test_of_very_many_folders_others_get_every_second_one() -> None:
    """What they hold is not known: where nothing is below them, there is nothing else to give."""
    names = [f"{number:03}" for number in range(100)]
    with contextlib.closing(shared_walk._Queue()) as line:
        assert line.leave("", names) == names
        assert line.leave("wide", names) == names[1::2]
        given = [(parent, name) for parent, several in line.rest() for name in several]
    assert given == [("wide", name) for name in names[::2]]
