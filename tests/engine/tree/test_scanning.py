"""Scan, status and validate of a real workspace."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.core.clock import ManualClock
from indexer.core.hashing import HASHES
from indexer.engine.tree.disk import EmptiedError, ReplacedError, UnavailableError
from indexer.errors import NoWorkspaceError, UsageError
from indexer.scan import hashpool
from indexer.store.layout import initialise
from tests.support.engines import Engine
from tests.support.processes import run
from tests.support.space import with_index

DAY = 86400 * 10**9


def tomorrow() -> ManualClock:
    """Seen from tomorrow nothing on disk is young."""
    return ManualClock(time.time_ns() + DAY)


@pytest.fixture
def project(workspace: Path) -> Path:
    (workspace / "src").mkdir()
    (workspace / "src" / "main.py").write_bytes(b"main")
    (workspace / "README").write_bytes(b"read me")
    (workspace / "link").symlink_to("README")
    return with_index(workspace)


@pytest.fixture
def engine(project: Path) -> Iterator[Engine]:
    with Engine(project, clock=tomorrow()) as engine:
        yield engine


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    real = hashpool.hash_file

    def counted(algorithm: Any, name: str, *more: Any) -> Any:
        names.append(name)
        return real(algorithm, name, *more)

    monkeypatch.setattr(hashpool, "hash_file", counted)
    return names


def flat(engine: Engine) -> dict[str, tuple[int, bytes]]:
    return {path: (entry.kind, entry.content_id) for path, entry in engine.tree.walk()}


def test_a_first_scan(engine: Engine) -> None:
    document = engine.scan()
    assert document["root"] == engine.tree.root_id.hex()
    assert (document["nodes"], document["files"], document["directories"]) == (5, 2, 2)
    assert (document["links"], document["bytes"], document["hashed"]) == (1, 4 + 7 + 6, 2)
    assert (document["added"], document["modified"], document["removed"]) == (5, 0, 0)
    assert engine.validate(content=True)["valid"]


def test_a_second_scan_records_nothing(engine: Engine, reads: list[str]) -> None:
    first = engine.scan()
    reads.clear()
    again = engine.scan()
    assert reads == []
    assert again["root"] == first["root"]
    assert again["hashed"] == again["added"] == again["modified"] == again["removed"] == 0
    assert len(engine.log()["roots"]) == 1


def test_the_stat_cache_outlives_the_process(project: Path, reads: list[str]) -> None:
    with Engine(project, clock=tomorrow()) as engine:
        first = engine.scan()
    reads.clear()
    with Engine(project, clock=tomorrow()) as engine:
        assert engine.scan()["root"] == first["root"]
        assert not engine.recorded.in_memory, "an unchanged workspace is not even loaded"
        (project / "README").write_bytes(b"changed")
        document = engine.scan()
    assert reads == ["README"]
    assert document["modified"] == 1


def test_force_reads_everything_again(engine: Engine, reads: list[str]) -> None:
    engine.scan()
    reads.clear()
    assert engine.scan(force=True)["hashed"] == 2
    assert sorted(reads) == ["README", "main.py"]


def test_force_finds_what_the_stat_hides(engine: Engine, project: Path) -> None:
    """Content changed behind the file system's back, as a bad disk or a lying clock would."""
    engine.scan()
    (project / "README").write_bytes(b"dear me")
    engine.reconcile([("README", False)])
    entry = engine.tree.get("README")
    assert entry is not None
    forged = engine.tree.with_updates(
        {"": {"README": entry._replace(content_id=HASHES["xxh3_128"].of_file(b"lie"))}}
    )
    engine.recorded._tree = forged
    assert engine.scan()["modified"] == 0
    assert engine.scan(force=True)["modified"] == 1


def test_status_compares_and_changes_nothing(engine: Engine, project: Path) -> None:
    assert engine.status()["state"] == "missing"
    engine.scan()
    assert engine.status()["state"] == "current"
    (project / "README").write_bytes(b"1")
    (project / "src" / "new").write_bytes(b"2")
    (project / "link").unlink()
    document = engine.status()
    assert document["state"] == "stale"
    assert document["changes"] == {
        "added": ["src/new"], "modified": ["README"], "removed": ["link"],
    }  # fmt: skip
    assert len(engine.log()["roots"]) == 1
    assert engine.status()["changes"] == document["changes"]


def test_special_files_are_told(engine: Engine, project: Path) -> None:
    os.mkfifo(project / "pipe")
    assert engine.scan()["skipped"] == [{"path": "pipe", "reason": "fifo"}]
    assert engine.status()["skipped"] == [{"path": "pipe", "reason": "fifo"}]
    assert engine.validate()["valid"]


def test_what_cannot_be_read_makes_validate_say_so(
    engine: Engine, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = engine.scan()
    real = os.open
    (project / "README").write_bytes(b"unseen")

    def refuse(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "README":
            raise PermissionError(13, "Permission denied", path)
        return real(path, flags, mode, dir_fd=dir_fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        document = engine.scan()
        assert document["unreadable"] == [{"path": "README", "reason": "permission denied"}]
        assert document["root"] == first["root"], "its last known id stays"
        report = engine.validate()
        assert not report["valid"]
        assert [found["path"] for found in report["unchecked"]] == ["README"]
    assert engine.scan()["modified"] == 1
    assert engine.validate(content=True)["valid"]


def test_validate_content_finds_what_a_scan_has_not_seen(engine: Engine, project: Path) -> None:
    engine.scan()
    (project / "README").write_bytes(b"changed")
    assert engine.validate()["valid"]
    report = engine.validate(content=True)
    assert not report["valid"]
    assert [(found["code"], found["path"]) for found in report["errors"]] == [
        ("disk_modified", "README")
    ]


def test_validate_in_parts_reads_every_file_once(engine: Engine, project: Path) -> None:
    for number in range(40):
        (project / f"f{number}").write_bytes(b"%d" % number)
    engine.scan()
    for number in range(40):
        (project / f"f{number}").write_bytes(b"changed %d" % number)
    found: list[str] = []
    for part in (1, 2, 3):
        report = engine.validate(subset=(part, 3))
        found += [each["path"] for each in report["errors"]]
    assert sorted(found) == sorted(f"f{number}" for number in range(40))


def test_validate_expects_a_root(engine: Engine) -> None:
    root = engine.scan()["root"]
    assert engine.validate(expect_root=root)["valid"]
    assert engine.validate(expect_root=root[:8])["valid"]
    other = "0" * 8 if not root.startswith("0" * 8) else "1" * 8
    assert not engine.validate(expect_root=other)["valid"]
    with pytest.raises(UsageError):
        engine.validate(expect_root="no id")


def test_validate_before_a_scan_could_not_check(engine: Engine) -> None:
    report = engine.validate()
    assert not report["valid"]
    assert report["unchecked"]


def test_an_edited_exclude_file_counts_at_the_next_scan(engine: Engine, project: Path) -> None:
    engine.scan()
    (project / ".git" / "info").mkdir(parents=True)
    (project / ".git" / "info" / "exclude").write_bytes(b"README\n")
    assert engine.scan()["removed"] == 1
    report = engine.validate(content=True)
    assert report["valid"]
    assert "info_exclude" in {found["code"] for found in report["warnings"]}
    (project / ".git" / "info" / "exclude").write_bytes(b"")
    assert engine.scan()["added"] == 1


def test_the_lock_file_of_the_workspace_is_never_part_of_it(engine: Engine, project: Path) -> None:
    first = engine.scan()
    (project / "merkle.lock").write_bytes(b"root")
    (project / ".merkleignore").write_bytes(b"!merkle.lock\n!.merkle\n!.git\n")
    (project / ".git").mkdir()
    (project / ".git" / "HEAD").write_bytes(b"ref")
    document = engine.scan()
    assert document["nodes"] == first["nodes"] + 1
    assert engine.tree.get("merkle.lock") is None


# -- deletion needs evidence


def empty(root: Path) -> None:
    for path in root.iterdir():
        if path.name != ".merkle":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def test_a_sudden_emptiness_is_refused_until_accepted(engine: Engine, project: Path) -> None:
    first = engine.scan()
    empty(project)
    with pytest.raises(EmptiedError) as caught:
        engine.scan()
    assert "--accept-empty" in caught.value.hint
    with pytest.raises(EmptiedError):
        engine.reconcile([("README", False), ("src", True), ("link", False)])
    assert engine.status()["state"] == "unavailable"
    assert engine.log()["roots"][0]["root"] == first["root"]
    document = engine.scan(accept_empty=True)
    assert (document["nodes"], document["removed"]) == (1, 4)
    assert engine.validate(content=True)["valid"]


def test_a_missing_root_is_unavailable(engine: Engine, project: Path, tmp_path: Path) -> None:
    first = engine.scan()
    project.rename(tmp_path / "away")
    with pytest.raises(UnavailableError):
        engine.scan()
    with pytest.raises(UnavailableError):
        engine.reconcile([("README", False)])
    (tmp_path / "away").rename(project)
    assert engine.scan()["root"] == first["root"]


def test_another_folder_in_its_place_is_refused(
    engine: Engine, project: Path, tmp_path: Path
) -> None:
    engine.scan()
    project.rename(tmp_path / "away")
    project.mkdir()
    (project / "stranger").write_bytes(b"s")
    with pytest.raises(ReplacedError):
        engine.scan()
    initialise(project)
    (project / ".merkle" / "lock").touch()
    with pytest.raises(ReplacedError):
        engine.reconcile([("stranger", False)])
    assert not (project / ".merkle" / "index.duckdb").exists()


def test_no_workspace(workspace: Path) -> None:
    with pytest.raises(NoWorkspaceError):
        Engine(workspace)
    assert list(workspace.iterdir()) == []


# -- the stat cache and the log


def crash(engine: Engine) -> None:
    """End without the last write of the stat cache."""
    # As if the process had died before.
    engine.recorded.flush = lambda: None  # type: ignore[method-assign]
    engine.close()


def test_after_a_crash_the_log_decides(project: Path) -> None:
    engine = Engine(project, clock=tomorrow())
    engine.scan()
    (project / "README").write_bytes(b"changed")
    (project / "src" / "new").write_bytes(b"new")
    engine.reconcile([("README", False), ("src/new", False)])
    wanted = flat(engine)
    crash(engine)
    with Engine(project, clock=tomorrow()) as engine:
        assert engine.trees.listings() is None
        assert flat(engine) == wanted
        assert engine.status()["state"] == "current"
        assert engine.scan()["modified"] == 0
        assert engine.trees.listings() is not None


def test_remarks_do_not_vouch_for_a_stat_cache_that_lags(project: Path) -> None:
    engine = Engine(project, clock=tomorrow())
    engine.scan()
    (project / "README").write_bytes(b"changed")
    engine.reconcile([("README", False)])
    wanted = flat(engine)
    os.mkfifo(project / "pipe")
    assert engine.scan()["skipped"], "nothing moved, but there is something to remark on"
    crash(engine)
    with Engine(project, clock=tomorrow()) as engine:
        assert flat(engine) == wanted
        assert engine.validate(content=True)["valid"]


def test_a_touch_is_remembered_without_a_new_root(
    engine: Engine, project: Path, reads: list[str]
) -> None:
    engine.scan()
    os.utime(project / "README", ns=(1, 1))
    assert engine.scan()["hashed"] == 1
    assert engine.scan()["hashed"] == 0
    assert len(engine.log()["roots"]) == 1


def test_a_batch_is_told_to_subscribers_once(engine: Engine, project: Path) -> None:
    told: list[set[str]] = []
    engine.subscribers.append(lambda root, changes: told.append({c.path for c in changes}))
    engine.scan()
    (project / "README").write_bytes(b"changed")
    engine.reconcile([("README", False)])
    engine.reconcile([("README", False)])
    engine.scan()
    assert told == [{"", "src", "src/main.py", "README", "link"}, {"", "README"}]


# -- names


NAMES = [
    b"new\nline", b"esc\x1b[31m", b"latin-\xe9", b"\xff\xfe", b"back\\slash", b"\\x41", b"tab\t",
    "caf\u00e9".encode(), "cafe\u0301".encode(), b"n" * 255, "\u202etxt.exe".encode(), b" ", b"-rf",
    "\u6587".encode() * 85, b"'quoted\"", b"*?[a]", b"a:b", b"CON", b"path:x", b"id:abcdef",
]  # fmt: skip


@pytest.mark.parametrize("hash_name", sorted(HASHES))
def test_any_name_survives_everything(
    tmp_path_factory: pytest.TempPathFactory, hash_name: str
) -> None:
    workspace = tmp_path_factory.mktemp("names")
    raw_root = os.fsencode(workspace)
    for number, name in enumerate(NAMES):
        os.mkdir(os.path.join(raw_root, name))
        with open(os.path.join(raw_root, name, name), "wb") as file:
            file.write(b"%d" % number)
    initialise(workspace, hash_name)
    with Engine(workspace, clock=tomorrow()) as engine:
        document = engine.scan()
        assert document["files"] == len(NAMES), "every one is a node of its own"
        assert engine.status()["state"] == "current"
        assert engine.validate(content=True)["valid"]
        paths = [path for path, entry in engine.tree.walk() if path and entry.folder is None]
        assert len(set(paths)) == len(NAMES)
        for path in paths:
            found = engine.resolve(f"path:{path}")
            assert found["path"] == path
            assert engine.resolve(f"id:{found['node_id']}")["path"] == path
        for name in NAMES:
            with open(os.path.join(raw_root, name, name), "wb") as file:
                file.write(b"changed")
        assert sorted(engine.status()["changes"]["modified"]) == sorted(paths)
    with Engine(workspace, clock=tomorrow()) as engine:
        assert engine.reconcile([(path, False) for path in paths])[0].modified == len(paths)
        assert sorted(engine.diff("@-1", "@-0")["modified"]) == sorted(paths)
        assert {row[0] for row in engine.sql("SELECT path FROM nodes")["rows"]} >= set(paths)
        assert engine.validate(content=True)["valid"]
        assert engine.scan()["modified"] == 0


def test_twins_in_two_normal_forms_are_two_files(workspace: Path) -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    (workspace / composed).write_bytes(b"same")
    (workspace / decomposed).write_bytes(b"same")
    with Engine.create(workspace) as engine:
        engine.scan()
        ids = {engine.resolve(name)["node_id"] for name in (composed, decomposed)}
        assert len(ids) == 2


def test_a_change_of_case_is_a_rename(engine: Engine, project: Path) -> None:
    engine.scan()
    (project / "README").rename(project / "Readme")
    assert engine.scan()["renamed"] == 1
    assert engine.diff("@-1", "@-0")["renamed"] == [
        {"old": "README", "new": "Readme", "kind": "file"}
    ]


LOCKED = """
import sys
from indexer.store.driver import duckdb
try:
    duckdb.connect(sys.argv[1])
except duckdb.IOException as error:
    print("locked" if "lock" in str(error) else error)
else:
    print("open")
"""


def test_the_database_under_another_name_is_skipped_and_its_lock_kept(workspace: Path) -> None:
    (workspace / "a.py").write_text("a = 1\n")
    with Engine.create(workspace) as engine:
        engine.scan()
        database = workspace / ".merkle" / "index.duckdb"
        os.link(database, workspace / "copy.bin")
        for look in (lambda: engine.scan(), lambda: engine.reconcile([("copy.bin", False)])):
            look()
            assert engine.tree.get("copy.bin") is None
            assert ("copy.bin", "the index's own database") in engine.recorded.remarks.skipped
            assert run(["-c", LOCKED, database]) == (0, "locked\n", "")
        found = engine.scan()["skipped"]
        assert found == [{"path": "copy.bin", "reason": "the index's own database"}]
