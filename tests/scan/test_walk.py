"""The walk: what is listed, what is read again, what is left out, and what goes wrong meanwhile."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from indexer.core import filestat, paths
from indexer.core.hashing import HASHES
from indexer.core.kinds import Kind
from indexer.core.listing import encode
from indexer.core.tree import Tree
from indexer.scan import hashpool, reading, walk
from indexer.scan.assemble import assemble
from indexer.scan.hashpool import HashPool
from indexer.scan.previous import ListingsBefore, NothingBefore, Previous, TreeBefore
from indexer.scan.scopes import Scopes
from indexer.scan.walk import Observed, Remark, Walker

XXH3 = HASHES["xxh3_128"]
LATER = 1 << 62
"""A scan so late that nothing on disk is young."""


def look(
    root: Path, before: Previous | None = None, *, seen_ns: int = LATER, **options: Any
) -> Observed:
    walker = Walker(root, XXH3, Scopes(root), before or NothingBefore(), seen_ns, **options)
    return walker.walk()


def scan(root: Path, old: Tree | None = None, **options: Any) -> tuple[Tree, Observed]:
    """A tree, and the walk it came from."""
    observed = look(root, TreeBefore(old) if old else None, **options)
    old = old or Tree.empty(XXH3)
    folder = assemble(old, observed)
    assert folder is not None
    return Tree(XXH3, folder), observed


def listing_of(tree: Tree) -> ListingsBefore:
    return ListingsBefore({path: encode(folder) for path, folder in tree.folders()}, XXH3.size)


def shape(tree: Tree) -> dict[str, tuple[Kind, bytes, int]]:
    return {path: (e.kind, e.content_id, e.size) for path, e in tree.walk()}


@pytest.fixture
def project(workspace: Path) -> Path:
    (workspace / "src" / "deep").mkdir(parents=True)
    (workspace / "src" / "main.py").write_bytes(b"main")
    (workspace / "src" / "deep" / "leaf.py").write_bytes(b"leaf")
    (workspace / "src" / "link").symlink_to("main.py")
    (workspace / "README").write_bytes(b"read me")
    (workspace / "empty").mkdir()
    return workspace


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are opened to be hashed."""
    names: list[str] = []
    real = reading.hash_file

    def counted(algorithm: Any, name: str, *rest: Any) -> Any:
        names.append(name)
        return real(algorithm, name, *rest)

    monkeypatch.setattr(hashpool, "hash_file", counted)
    return names


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


# -- what is there


def test_what_a_walk_finds(project: Path) -> None:
    tree, observed = scan(project)
    assert {path: (e.kind, e.size) for path, e in tree.walk() if e.folder is None} == {
        "README": (Kind.FILE, 7),
        "src/deep/leaf.py": (Kind.FILE, 4),
        "src/link": (Kind.LINK, 7),
        "src/main.py": (Kind.FILE, 4),
    }
    assert tree.folder("empty") is not None
    assert observed.hashed == 3
    assert not observed.skipped
    assert not observed.unreadable


@pytest.mark.parametrize("algorithm", HASHES.values(), ids=HASHES)
def test_both_hashes(project: Path, algorithm: Any) -> None:
    walker = Walker(project, algorithm, Scopes(project), NothingBefore(), LATER)
    folder = assemble(Tree.empty(algorithm), walker.walk())
    assert folder is not None
    entry = Tree(algorithm, folder).get("src/main.py")
    assert entry is not None
    assert entry.content_id == algorithm.of_file(b"main")


def test_links_are_never_followed(project: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"s")
    (project / "to-folder").symlink_to(tmp_path / "outside")
    (project / "loop").symlink_to(".")
    (project / "dangling").symlink_to("nowhere")
    tree, _ = scan(project)
    for name, target in (("loop", b"."), ("dangling", b"nowhere")):
        entry = tree.get(name)
        assert entry is not None
        assert (entry.kind, entry.content_id) == (Kind.LINK, XXH3.of_link(target))
    assert tree.get("to-folder/secret") is None
    assert b"secret" not in b"".join(path.encode() for path, _ in tree.walk())


def test_special_files_are_listed_as_skipped(project: Path, tmp_path: Path) -> None:
    os.mkfifo(project / "src" / "pipe")
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as server:
        here = os.getcwd()
        os.chdir(project)
        try:
            server.bind("sock")
        finally:
            os.chdir(here)
        tree, observed = scan(project)
    assert sorted(observed.skipped) == [Remark("sock", "socket"), Remark("src/pipe", "fifo")]
    assert tree.get("src/pipe") is None
    assert tree.get("sock") is None
    assert walk.special_kind(0o020000) == "device"


def test_empty_folders_and_empty_files_are_nodes(workspace: Path) -> None:
    (workspace / "d").mkdir()
    (workspace / "f").write_bytes(b"")
    tree, _ = scan(workspace)
    assert shape(tree)["f"] == (Kind.FILE, XXH3.of_file(b""), 0)
    assert shape(tree)["d"][0] is Kind.DIRECTORY


def test_a_far_future_is_no_obstacle(workspace: Path) -> None:
    """Times beyond 64 bits of nanoseconds, where the file system keeps them."""
    (workspace / "f").write_bytes(b"1")
    year_2300 = 10_413_792_000 * 10**9
    os.utime(workspace / "f", ns=(year_2300, year_2300))
    tree, _ = scan(workspace)
    again, _observed = scan(workspace, tree)
    assert again.root_id == tree.root_id


def test_the_callbacks(project: Path) -> None:
    folders: list[str] = []
    counted: list[int] = []
    look(project, on_folder=folders.append, progress=counted.append)
    assert folders == ["", "empty", "src", "src/deep"]
    assert sum(counted) == 7


# -- what vouches


@pytest.mark.parametrize("kind", ["tree", "listings"])
def test_nothing_changed_reads_nothing(project: Path, reads: list[str], kind: str) -> None:
    tree, _ = scan(project)
    reads.clear()
    observed = look(project, TreeBefore(tree) if kind == "tree" else listing_of(tree))
    assert reads == []
    assert observed.unchanged
    assert observed.hashed == 0
    assert assemble(tree, observed) is tree.root


@pytest.mark.parametrize("kind", ["tree", "listings"])
def test_one_edit_reads_one_file(project: Path, reads: list[str], kind: str) -> None:
    tree, _ = scan(project)
    (project / "src" / "main.py").write_bytes(b"MAIN")
    reads.clear()
    observed = look(project, TreeBefore(tree) if kind == "tree" else listing_of(tree))
    assert reads == ["main.py"]
    assert not observed.unchanged
    folder = assemble(tree, observed)
    assert folder is not None
    after = Tree(XXH3, folder)
    assert after.folder("src/deep") is tree.folder("src/deep")
    assert after.folder("empty") is tree.folder("empty")
    assert after.root_id == scan(project)[0].root_id


def test_a_file_replaced_with_equal_size_and_time_is_read(project: Path, reads: list[str]) -> None:
    tree, _ = scan(project)
    path = project / "src" / "main.py"
    was = path.stat()
    (project / "new").write_bytes(b"MAIN")
    os.utime(project / "new", ns=(was.st_atime_ns, was.st_mtime_ns))
    (project / "new").rename(path)
    reads.clear()
    after, _ = scan(project, tree)
    assert reads == ["main.py"]
    assert shape(after)["src/main.py"][1] == XXH3.of_file(b"MAIN")


def test_a_touched_file_is_read_and_the_ids_stay(project: Path, reads: list[str]) -> None:
    tree, _ = scan(project)
    os.utime(project / "README", ns=(5, 5))
    reads.clear()
    after, _observed = scan(project, tree)
    assert reads == ["README"]
    assert after.root_id == tree.root_id
    assert after.root is not tree.root, "its new stat is kept"
    reads.clear()
    scan(project, after)
    assert reads == []


def test_force_reads_everything(project: Path, reads: list[str]) -> None:
    tree, _ = scan(project)
    reads.clear()
    after, _ = scan(project, tree, trust=False)
    assert sorted(reads) == ["README", "leaf.py", "main.py"]
    assert after.root is tree.root, "nothing differs, so nothing is new"


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("threads", [True, False])
def test_force_finds_what_no_stat_tells(
    project: Path, monkeypatch: pytest.MonkeyPatch, listed: bool, threads: bool
) -> None:
    """A folder that is, by its stats, as it was is compared, and nothing else is made of it."""
    if threads:
        monkeypatch.setattr(hashpool, "_COLD", 0)
        monkeypatch.setattr(hashpool, "WINDOW", 1)
    for name in ("back\\slash", "a", "z", "aa"):
        (project / "src" / "deep" / name).write_bytes(name.encode())
    (project / "src" / "deep" / "aa-folder").mkdir()
    tree, _ = scan(project)
    wrong = tree.get("src/deep/z")
    assert wrong is not None
    wrong = wrong._replace(content_id=XXH3.of_file(b"another"))
    forged = tree.with_updates({"src/deep": {"z": wrong}})
    before = listing_of(forged) if listed else TreeBefore(forged)
    assert look(project, before).unchanged, "as far as stats tell"
    observed = look(project, before, trust=False)
    assert observed.hashed == 7
    folder = assemble(forged, observed)
    assert folder is not None
    assert shape(Tree(XXH3, folder)) == shape(tree)
    changed = {path for path, seen in observed.folders.items() if seen.entries is not None}
    assert changed == {"src", "src/deep"}, "src has a link in it"
    assert look(project, listing_of(tree), trust=False).folders["src/deep"].entries is None


@pytest.mark.parametrize("gone", [True, False])
def test_force_where_files_cannot_be_read(
    project: Path, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    (project / "COPYING").write_bytes(b"copy me")
    tree, _ = scan(project)
    problem = FileNotFoundError if gone else PermissionError

    def refused(algorithm: Any, name: str, *rest: Any) -> Any:
        raise problem(2 if gone else 13, "Permission denied", name)

    monkeypatch.setattr(hashpool, "hash_file", refused)
    after, observed = scan(project, tree, trust=False)
    files = {path for path, entry in after.walk() if entry.kind is Kind.FILE}
    unreadable = [path for path, _ in observed.unreadable]
    if gone:
        assert (files, unreadable) == (set(), [])
    else:
        assert shape(after) == shape(tree)
        assert sorted(unreadable) == sorted(files)


def test_force_vouches_for_nothing_that_is_being_written(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, _ = scan(project)
    monkeypatch.setattr(reading, "_may_be_written", lambda *_: True)
    after, _ = scan(project, tree, trust=False)
    assert {e.stat for _, e in after.walk() if e.kind is Kind.FILE} == {
        filestat.unvouched(7), filestat.unvouched(4),
    }  # fmt: skip
    assert after.root_id == tree.root_id


def test_a_young_file_is_read_again_next_time(project: Path, reads: list[str]) -> None:
    now = time.time_ns()
    for path in project.rglob("*"):
        os.utime(path, ns=(1, 1), follow_symlinks=False)
    tree, _ = scan(project, seen_ns=now - 10**9)
    assert {e.stat for _, e in tree.walk() if e.kind is Kind.FILE} == {
        filestat.unvouched(7), filestat.unvouched(4),
    }  # fmt: skip
    reads.clear()
    # The same again a day later: read once more, then trusted.
    after, _ = scan(project, tree, seen_ns=now + 10**9 * 86400)
    assert sorted(reads) == ["README", "leaf.py", "main.py"]
    assert after.root_id == tree.root_id
    reads.clear()
    scan(project, after, seen_ns=now + 10**9 * 86400)
    assert reads == []


def test_an_edit_within_one_tick_of_the_scan_is_not_missed(project: Path) -> None:
    path = project / "README"
    tree, _ = scan(project, seen_ns=time.time_ns())
    was = path.stat()
    path.write_bytes(b"dear me")
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    after, _ = scan(project, tree, seen_ns=time.time_ns())
    assert shape(after)["README"][1] == XXH3.of_file(b"dear me")


# -- threads


@pytest.fixture
def threaded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every pool starts its threads at once and works in small chunks."""
    used: list[int] = []
    real = HashPool.__init__

    def start(self: HashPool, *args: Any, **options: Any) -> None:
        real(self, *args, **options)
        self._executor = ThreadPoolExecutor(3)
        used.append(1)

    monkeypatch.setattr(HashPool, "__init__", start)
    monkeypatch.setattr(hashpool, "WINDOW", 4)
    return used


def wide(root: Path) -> Path:
    for folder in range(12):
        (root / f"d{folder}").mkdir()
        for file in range(folder):
            (root / f"d{folder}" / f"f{file}").write_bytes(b"%d/%d" % (folder, file))
    (root / "large").write_bytes(b"x" * 600_000)
    return root


def test_threads_give_the_same_tree(workspace: Path, request: pytest.FixtureRequest) -> None:
    wide(workspace)
    inline, _ = scan(workspace)
    before = descriptors()
    assert request.getfixturevalue("threaded") == []
    tree, observed = scan(workspace)
    assert request.getfixturevalue("threaded") == [1]
    assert tree.root_id == inline.root_id
    assert shape(tree) == shape(inline)
    assert observed.hashed == 67
    assert descriptors() == before


def test_threads_report_what_cannot_be_read(
    workspace: Path, threaded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    wide(workspace)
    deny(monkeypatch, "f3")
    tree, observed = scan(workspace)
    assert {remark.path for remark in observed.unreadable} == {f"d{n}/f3" for n in range(4, 12)}
    assert tree.get("d11/f4") is not None


def test_few_queued_files_keep_few_folders_open(
    workspace: Path, threaded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One queued file must not hold thousands of folders open that have nothing to hash."""
    (workspace / "a").mkdir()
    (workspace / "a" / "file").write_bytes(b"1")
    for number in range(60):
        (workspace / f"b{number}").mkdir()
    most = 0

    def note(_: str) -> None:
        nonlocal most
        most = max(most, descriptors())

    before = descriptors()
    scan(workspace, on_folder=note)
    assert most - before < 12
    assert descriptors() == before


@pytest.mark.parametrize(("blocks", "threads"), [(1000, True), (0, False)])
def test_threads_are_for_files_that_come_from_the_disk(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, blocks: int, threads: bool
) -> None:
    wide(workspace)
    inline, _ = scan(workspace)
    pools: list[HashPool] = []
    real = HashPool.__init__

    def note(self: HashPool, *args: Any, **options: Any) -> None:
        real(self, *args, **options)
        pools.append(self)

    monkeypatch.setattr(HashPool, "__init__", note)
    monkeypatch.setattr(hashpool, "WINDOW", 4)
    read = itertools.count(0, blocks)
    monkeypatch.setattr(hashpool, "_blocks_read", lambda: next(read))
    tree, observed = scan(workspace)
    assert [pool._executor is not None for pool in pools] == [threads]
    assert shape(tree) == shape(inline)
    assert observed.hashed == 67


# -- what cannot be read


def deny(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Opening these names fails with EACCES, whoever asks (root may read everything)."""
    real = os.open

    def refuse(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path in names:
            raise PermissionError(13, "Permission denied", path)
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)


def test_an_unreadable_file_is_listed_and_keeps_its_id(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, _ = scan(project)
    (project / "README").write_bytes(b"unseen")
    with monkeypatch.context() as patch:
        deny(patch, "README")
        after, observed = scan(project, tree)
        assert observed.unreadable == [Remark("README", "permission denied")]
        assert after.root_id == tree.root_id
        # Nobody vouches for it: it is tried again each time.
        _, observed = scan(project, after)
        assert observed.unreadable == [Remark("README", "permission denied")]
        _, observed = scan(project, after, trust=False)
        assert observed.unreadable == [Remark("README", "permission denied")]
    final, observed = scan(project, after)
    assert not observed.unreadable
    assert shape(final)["README"][1] == XXH3.of_file(b"unseen")


def test_an_unreadable_file_never_seen_is_listed_and_left_out(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deny(monkeypatch, "README")
    tree, observed = scan(project)
    assert observed.unreadable == [Remark("README", "permission denied")]
    assert tree.get("README") is None
    _, observed = scan(project, tree)
    assert observed.unreadable == [Remark("README", "permission denied")]


def test_an_unreadable_folder_is_listed_and_keeps_what_was_below(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, _ = scan(project)
    (project / "README").write_bytes(b"changed")
    deny(monkeypatch, "src")
    after, observed = scan(project, tree)
    assert observed.unreadable == [Remark("src", "permission denied")]
    assert not observed.unchanged
    known, now = tree.folder("src"), after.folder("src")
    assert known is not None
    assert now is not None
    assert now.content_id == known.content_id
    assert now.unreadable == known.totals.files + known.totals.links
    assert shape(after)["README"][1] == XXH3.of_file(b"changed")


def test_an_unreadable_folder_alone_is_no_change(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, _ = scan(project)
    deny(monkeypatch, "src")
    after, observed = scan(project, tree)
    assert not observed.unchanged
    assert after.root_id == tree.root_id
    assert after.root.unreadable
    assert scan(project, after)[0].root is after.root


def test_an_unreadable_folder_never_seen_is_left_out(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deny(monkeypatch, "src")
    tree, observed = scan(project)
    assert observed.unreadable == [Remark("src", "permission denied")]
    assert tree.get("src") is None


def test_a_folder_that_lists_but_does_not_let_in_is_unreadable(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mode r--: names can be listed, their stats cannot be had."""
    tree, _ = scan(project)
    real = os.scandir
    inner = os.stat(project / "src").st_ino

    class Blind:
        def __init__(self, entry: os.DirEntry[str]) -> None:
            self.name = entry.name
            self.is_dir = entry.is_dir

        def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
            raise PermissionError(13, "Permission denied", self.name)

    @contextlib.contextmanager
    def blind(target: int) -> Any:
        with real(target) as listing:
            is_it = os.fstat(target).st_ino == inner
            yield [Blind(entry) if is_it else entry for entry in listing]

    before = descriptors()
    monkeypatch.setattr(os, "scandir", blind)
    after, observed = scan(project, tree)
    assert observed.unreadable == [Remark("src", "permission denied")]
    assert after.root_id == tree.root_id
    assert after.root.unreadable
    walker = Walker(project, XXH3, Scopes(project), TreeBefore(tree), LATER)
    with pytest.raises(PermissionError):
        walker.walk("src")
    assert descriptors() == before, "no descriptor is left open"


def test_a_root_that_cannot_be_opened_is_an_error(workspace: Path) -> None:
    workspace.rmdir()
    with pytest.raises(FileNotFoundError):
        look(workspace)


AS_NOBODY = """
import os, sys
from pathlib import Path
from indexer.core.hashing import HASHES
from indexer.scan.previous import NothingBefore
from indexer.scan.scopes import Scopes
from indexer.scan.walk import Walker
# After the imports: the interpreter itself may be installed where only root can read it.
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
root = Path(sys.argv[1])
observed = Walker(root, HASHES["sha256"], Scopes(root), NothingBefore(), 0).walk()
print(sorted(map(tuple, observed.unreadable)))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become somebody else")
def test_real_permissions(runtime_dir: Path) -> None:
    """The same with the kernel saying no: a process that is nobody."""
    root = runtime_dir / "w"
    (root / "closed").mkdir(parents=True)
    (root / "secret").write_bytes(b"1")
    runtime_dir.chmod(0o755)
    for path in (root / "closed", root / "secret"):
        path.chmod(0o000)
    run = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(root)],
        capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True,
    )  # fmt: skip
    assert run.stdout == "[('closed', 'permission denied'), ('secret', 'permission denied')]\n"


# -- what happens meanwhile


def after_listing(monkeypatch: pytest.MonkeyPatch, folder: Path, act: Callable[[], None]) -> None:
    """Do something once, right after a folder was listed."""
    real, inode = os.scandir, folder.stat().st_ino
    done = []

    @contextlib.contextmanager
    def listing(target: int) -> Any:
        with real(target) as entries:
            listed = list(entries)
            for entry in listed:
                entry.stat(follow_symlinks=False)
            if os.fstat(target).st_ino == inode and not done:
                done.append(1)
                act()
            yield listed

    monkeypatch.setattr(os, "scandir", listing)


def test_a_file_that_vanishes_is_not_there(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    after_listing(monkeypatch, project, (project / "README").unlink)
    tree, observed = scan(project)
    assert tree.get("README") is None
    assert not observed.unreadable


def test_a_link_that_vanishes_is_not_there(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    after_listing(monkeypatch, project / "src", (project / "src" / "link").unlink)
    tree, observed = scan(project)
    assert tree.get("src/link") is None
    assert not observed.unreadable


def test_a_folder_that_vanishes_is_not_there(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, _ = scan(project)
    after_listing(monkeypatch, project, (project / "empty").rmdir)
    after, observed = scan(project, tree)
    assert not observed.unchanged
    assert after.get("empty") is None
    assert after.folder("src") is tree.folder("src")


def test_a_folder_swapped_for_a_link_is_refused(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"s")

    def swap() -> None:
        (project / "src").rename(tmp_path / "away")
        (project / "src").symlink_to(tmp_path / "outside")

    after_listing(monkeypatch, project, swap)
    tree, _observed = scan(project)
    assert not [path for path, _ in tree.walk() if path.startswith("src")]
    tree, _ = scan(project, tree)
    assert shape(tree)["src"][0] is Kind.LINK


@pytest.mark.parametrize("what", ["link", "fifo", "folder"])
@pytest.mark.timeout(20)
def test_a_file_swapped_for_something_else_is_not_taken_for_it(
    project: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    tree, _ = scan(project)
    path = project / "README"

    def swap() -> None:
        path.unlink()
        if what == "link":
            path.symlink_to("src/main.py")
        elif what == "fifo":
            os.mkfifo(path)
        else:
            path.mkdir()

    os.utime(path, ns=(3, 3))
    with monkeypatch.context() as patch:
        after_listing(patch, project, swap)
        after, observed = scan(project, tree)
    assert [remark.path for remark in observed.unreadable] == ["README"]
    assert shape(after)["README"] == shape(tree)["README"], "its last known id stays"
    final, observed = scan(project, after)
    assert not observed.unreadable
    assert shape(final).keys() == shape(scan(project)[0]).keys()
    assert final.root_id == scan(project)[0].root_id


def test_a_torn_file_keeps_its_last_id_and_is_read_again(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, _ = scan(project)
    path = project / "README"
    path.write_bytes(b"writing")
    real = os.read

    def restless(descriptor: int, size: int) -> bytes:
        os.utime(path, ns=(time.monotonic_ns(), time.monotonic_ns()))
        return real(descriptor, size)

    with monkeypatch.context() as patch:
        patch.setattr(reading.os, "read", restless)
        after, observed = scan(project, tree)
    assert [remark.path for remark in observed.unreadable] == ["README"]
    assert "keeps changing" in observed.unreadable[0].reason
    assert after.root_id == tree.root_id
    final, observed = scan(project, after)
    assert shape(final)["README"][1] == XXH3.of_file(b"writing")


def test_an_error_in_a_callback_leaves_no_descriptor_open(project: Path) -> None:
    before = descriptors()

    def fail(path: str) -> None:
        if path == "src/deep":
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        look(project, on_folder=fail)
    assert descriptors() == before


# -- depth


def nest(root: Path, levels: int, name: str = "d") -> None:
    """Folders one in the other, deeper than a path can be long."""
    descriptor = os.open(root, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=descriptor)
        below = os.open(name, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(os.open("leaf", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)


def unnest(root: Path, levels: int, name: str = "d") -> None:
    """Remove them again: not every tool can."""
    descriptors = [os.open(root, os.O_RDONLY)]
    for _ in range(levels):
        descriptors.append(os.open(name, os.O_RDONLY, dir_fd=descriptors[-1]))
    os.unlink("leaf", dir_fd=descriptors[-1])
    for descriptor in reversed(descriptors[:-1]):
        os.rmdir(name, dir_fd=descriptor)
    for descriptor in descriptors:
        os.close(descriptor)


def test_deep_nesting_ends_at_a_limit(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "MAX_DEPTH", 5)
    nest(workspace, 8)
    try:
        tree, observed = scan(workspace)
        assert tree.get("d/d/d/d/d") is not None
        assert tree.get("d/d/d/d/d/d") is None
        assert observed.skipped == [Remark("d/d/d/d/d/d", "nested deeper than 5 folders")]
        assert scan(workspace, tree)[0].root is tree.root
    finally:
        unnest(workspace, 8)


def test_paths_longer_than_the_system_takes(workspace: Path) -> None:
    name = "n" * 200
    nest(workspace, 60, name)
    try:
        tree, observed = scan(workspace)
        assert tree.root.totals.directories == 61
        assert tree.root.totals.files == 1
        assert not observed.unreadable
        again = look(workspace, TreeBefore(tree))
        assert again.unchanged
        deepest = max((path for path, _ in tree.folders()), key=paths.depth)
        assert len(deepest) > 4096
        assert Scopes(workspace).of(deepest) is not None
    finally:
        unnest(workspace, 60, name)


# -- previous


def test_both_kinds_of_previous_say_the_same(project: Path) -> None:
    tree, _ = scan(project)
    one, other = TreeBefore(tree), listing_of(tree)
    for path in ("", "src", "src/deep", "empty"):
        assert one.stats_of(path) == other.stats_of(path)
        kept = {n: e for n, e in one.entries_of(path).items() if e.folder is None}
        assert kept == other.entries_of(path)
    for previous in (one, other, NothingBefore()):
        assert previous.stats_of("nothing") is None
        assert previous.entries_of("nothing") == {}
