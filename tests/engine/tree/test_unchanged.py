"""A scan or status that opens no database says what one that does would say, or leaves it to it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.engine.owned import Owned
from indexer.engine.tree import unchanged
from indexer.engine.tree.unchanged import FirstLook, look_first
from indexer.errors import MerkleError
from indexer.scan.walk import Walker
from indexer.service.workspace import Workspace
from indexer.store.database import DatabaseError
from indexer.store.layout import Layout
from indexer.store.standing import forget_standing, read_listings, read_standing, write_standing
from indexer.store.trees import TreeStore
from tests.support.engines import Engine
from tests.support.service import root_from_nothing
from tests.support.space import with_index

FILES = ("a.py", "src/b.py", "src/deep/c.txt", "docs/d.md")


def fill(root: Path) -> None:
    """A few files, old enough that their stamps vouch for them."""
    for number, name in enumerate(FILES):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"def f{number}():\n    return {number}\n")


def settle() -> None:
    """Longer than a tick of the clock that stamps files: what is younger vouches for nothing."""
    time.sleep(0.025)


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    """A workspace that was scanned, and asked for its status."""
    fill(tmp_path)
    settle()
    with Workspace.open(with_index(tmp_path)) as opened:
        opened.scan()
        opened.status()
    return tmp_path


def asked(root: Path, what: Callable[[Workspace], Any]) -> Any:
    """What an operation gives, without the time it took, or how it is refused."""
    try:
        with Workspace.open(root, wait=5) as opened:
            document = dict(what(opened))
    except MerkleError as error:
        return error.code, error.message
    document.pop("seconds", None)
    return document


def compare(root: Path) -> None:
    """The status as it comes, and the one by the database alone."""
    quick = asked(root, lambda opened: opened.status())
    forget_standing(Layout(root))
    assert quick == asked(root, lambda opened: opened.status())


def first_look(root: Path) -> FirstLook | None:
    """The look before the database is opened, as the next command would have it."""
    owned = Owned(root)
    try:
        return look_first(owned)
    finally:
        owned.release()


# -- that it is taken


def test_nothing_is_opened_where_nothing_changed(indexed: Path) -> None:
    program = (
        "import sys\n"
        "from indexer.service.workspace import Workspace\n"
        "with Workspace.open(sys.argv[1]) as opened:\n"
        "    opened.scan(); opened.status()\n"
        "assert not {'_duckdb', 'tiktoken'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", program, str(indexed)], check=True)


def test_what_it_says_is_what_the_database_says(indexed: Path) -> None:
    for what in (lambda opened: opened.scan(), lambda opened: opened.status()):
        assert (first := first_look(indexed)) is not None
        assert first.scan() is not None
        assert first.status() is not None
        quick = asked(indexed, what)
        forget_standing(Layout(indexed))
        assert asked(indexed, what) == quick
        compare(indexed)


def test_what_was_seen_is_not_looked_at_again(
    indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (indexed / "a.py").write_text("def g():\n    return 1\n")
    monkeypatch.setattr("indexer.engine.tree.scan.Walker", None)
    walk = Walker.walk
    monkeypatch.setattr(Walker, "walk", lambda *given: (time.sleep(0.2), walk(*given))[1])
    with Workspace.open(indexed) as opened:
        found = opened.scan()
    assert (found["modified"], found["hashed"]) == (1, 1)
    assert found["seconds"] > 0.2


def test_the_stat_cache_is_not_read_again_to_be_written_out(
    indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (indexed / "a.py").write_text("def g():\n    return 1\n")
    (indexed / "src" / "new").mkdir()
    (indexed / "src" / "new" / "e.py").write_text("e = 1\n")
    shutil.rmtree(indexed / "src" / "deep")
    settle()
    with monkeypatch.context() as patched, Workspace.open(indexed) as opened:
        patched.setattr(TreeStore, "listings", None)
        opened.scan()
        (indexed / "docs" / "d.md").unlink()
        opened.scan()
        opened.close()
    standing = read_standing(Layout(indexed))
    assert standing is not None
    written = read_listings(Layout(indexed), standing.listed)
    with Engine(indexed) as engine:
        assert written == engine.trees.listings()
    assert written is not None
    assert written.keys() == {"", "src", "src/new", "docs"}


# -- that it is not


def test_a_note_makes_the_counts_void_and_not_the_listings(indexed: Path) -> None:
    with Workspace.open(indexed) as opened:
        opened.note("a.py", "a word about it", agent="ann")
    settle()
    first = first_look(indexed)
    assert first is not None
    assert first.scan() is not None
    assert first.status() is None
    compare(indexed)


def test_another_journal_makes_the_counts_void(indexed: Path) -> None:
    """What is in it, and not in the database, is taken in when that is opened."""
    first = first_look(indexed)
    assert first is not None
    assert first.status() is not None
    (log,) = Layout(indexed).journal.iterdir()
    log.write_bytes(log.read_bytes())
    first = first_look(indexed)
    assert first is not None
    assert first.scan() is not None
    assert first.status() is None
    compare(indexed)


def test_another_configuration_makes_the_counts_void(indexed: Path) -> None:
    (indexed / ".merkleignore").write_text("merkle.toml\n")
    (indexed / "merkle.toml").write_text("[types.brief]\nfile = 'outline'\n")
    settle()
    with Workspace.open(indexed) as opened:
        opened.scan()
        opened.status()
    assert (first := first_look(indexed)) is not None
    assert first.status() is not None
    (indexed / "merkle.toml").write_text("[types]\n")
    assert (first := first_look(indexed)) is not None
    assert first.scan() is not None
    assert first.status() is None
    compare(indexed)


@pytest.mark.parametrize("name", ["standing", "listings"])
def test_damaged_files_are_not_used(indexed: Path, name: str) -> None:
    file = indexed / ".merkle" / name
    for how in ("cut", "flipped", "emptied", "gone"):
        content = file.read_bytes()
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        if how == "gone":
            file.unlink()
        else:
            damaged = {"cut": content[:middle], "flipped": flipped, "emptied": b""}
            file.write_bytes(damaged[how])
        assert first_look(indexed) is None, how
        # What opens the database leaves behind what the next one needs.
        compare(indexed)
        assert first_look(indexed) is not None, how


def test_a_link_in_its_place_is_not_followed(indexed: Path, tmp_path_factory: Any) -> None:
    file = indexed / ".merkle" / "listings"
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "listings"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    standing = read_standing(Layout(indexed))
    assert standing is not None
    assert read_listings(Layout(indexed), standing.listed) is None


def test_it_stands_for_one_state_of_the_database(indexed: Path) -> None:
    layout = Layout(indexed)
    standing = read_standing(layout)
    assert standing is not None
    os.utime(layout.database)
    assert read_standing(layout) is None
    write_standing(layout, standing)
    assert read_standing(layout) == standing
    layout.wal.write_bytes(b"")
    assert read_standing(layout) is None


def test_it_is_gone_before_anything_is_written(indexed: Path) -> None:
    layout = Layout(indexed)
    (indexed / "a.py").write_text("other\n")
    with Engine(indexed) as engine:
        assert layout.standing.exists()
        with engine.database.transaction():
            assert not layout.standing.exists()


# -- files that another process reads


class Command(Workspace):
    """A workspace of a process that does nothing else."""

    may_fork = True


@pytest.fixture
def forking(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests themselves may run beside a thread, which does no harm here.

    Small trees are taken apart like large ones.
    """
    monkeypatch.setattr("indexer.scan.shared_walk._may_fork", lambda: True)
    monkeypatch.setattr("indexer.scan.shared_walk._WORTH", 0)
    monkeypatch.setattr("indexer.scan.shared_walk._SMALLEST", 2)
    monkeypatch.setattr("indexer.scan.shared_walk._LEVELS", 1)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})


@pytest.mark.usefixtures("forking")
def test_contents_are_checked_by_another_process(
    indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", str(indexed)], check=True)
    (indexed / ".git" / "info" / "exclude").write_text("*.txt\n")
    subprocess.run(["git", "-C", str(indexed), "add", "-f", *FILES], check=True)
    with Workspace.open(indexed) as opened:
        opened.scan()
        expected = opened.validate(content=True)
    assert [each["path"] for each in expected["warnings"]] == [".git/info/exclude", FILES[2]]
    monkeypatch.setattr("indexer.engine.durable.validate.look", None)
    # Nothing is wrong, and that is told without taking apart what is stored.
    monkeypatch.setattr("indexer.engine.durable.validate._Checks.stored", None)
    with Command.open(indexed) as opened:
        assert opened.validate(content=True) == expected


STORED: dict[str, str | None] = {
    "nothing": None,
    "a content id": "UPDATE node_log SET content_id = '\\x00'::BLOB WHERE kind = 1",
    "a NodeID": "UPDATE node_log SET node_id = '\\x00'::BLOB WHERE kind = 1",
    "a stray node": "INSERT INTO node_log SELECT seq, 'stray', kind, content_id, node_id, size"
    " FROM node_log WHERE kind = 1 LIMIT 1",
    "totals": "UPDATE root_log SET files = files + 1",
    "a root less": "DELETE FROM root_log",
    "a root twice": "INSERT INTO root_log SELECT * FROM root_log",
    "the stat cache": "DELETE FROM listings WHERE path = ''",
    "another stat cache": "UPDATE listings SET ids = reverse(hex(ids))::BLOB WHERE path = ''",
    "a lost root": "INSERT INTO lost_roots SELECT 2, 2, root, at_ns FROM root_log LIMIT 1",
    "a remark": "INSERT INTO remarks VALUES ('secret', 'permission denied', 'unreadable')",
    "a memo": "INSERT INTO memo VALUES ('\\x00'::BLOB, 0, '\\x00'::BLOB)",
    "a body": "INSERT INTO bodies (number, sha256, content) VALUES (1, '\\x00'::BLOB, 'other')",
    "the journal's number": "UPDATE meta SET value = '7' WHERE key = 'journal'",
}
OFTEN = {"a content id", "another stat cache", "a lost root", "a memo", "the journal's number"}
"""One for each of the checks; the others are for long runs."""


@pytest.mark.usefixtures("forking")
@pytest.mark.parametrize(
    "damage",
    [pytest.param(one, marks=[] if one in OFTEN else [pytest.mark.soak]) for one in STORED],
)
def test_what_is_stored_is_checked_while_another_process_reads(
    indexed: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    """Whatever is wrong, it says the same as one that takes everything apart."""
    with Workspace.open(indexed) as opened:
        opened.validate(content=True)
    statement = STORED[damage]
    if statement is not None:
        with Engine(indexed) as engine, engine.database.transaction() as connection:
            connection.execute(statement)
    compared = validated(indexed)
    assert compared == validated(indexed, quickly=False)
    assert (damage in ("nothing", "a lost root")) == bool(compared.get("valid")), compared


@pytest.mark.usefixtures("forking")
def test_a_damaged_journal_is_found_while_another_process_reads(indexed: Path) -> None:
    with Workspace.open(indexed) as opened:
        opened.validate(content=True)
    (segment,) = (indexed / ".merkle" / "journal").iterdir()
    content = segment.read_bytes()
    segment.write_bytes(content[:-20] + b"?" + content[-19:])
    compared = validated(indexed)
    assert compared == validated(indexed, quickly=False)
    assert not compared.get("valid")


def validated(root: Path, *, quickly: bool = True) -> dict[str, Any]:
    """What a validation gives or raises, by a command that may begin another process."""
    with pytest.MonkeyPatch.context() as patched:
        if not quickly:
            patched.setattr(
                "indexer.engine.durable.validate._Checks.hidden_if_sound", lambda *_, **__: None
            )
        try:
            with Command.open(root) as opened:
                return dict(opened.validate(content=True))
        except MerkleError as error:
            return {"code": error.code, "message": error.message}


@pytest.mark.usefixtures("forking")
def test_what_it_finds_is_found_out(indexed: Path) -> None:
    for action in ("edit", "same stamp", "add", "remove", "rename", "link"):
        ACTIONS[action](indexed)
        with Command.open(indexed) as opened:
            found = opened.validate(content=True)
        assert not found["valid"], action
        with Workspace.open(indexed) as opened:
            assert opened.validate(content=True) == found, action
            # The next one begins with nothing to be found.
            opened.scan(force=True)
            assert opened.validate(content=True)["valid"], action


@pytest.mark.usefixtures("forking")
def test_what_status_needs_besides_is_found_out_meanwhile(
    indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for: list[Path] = []
    found_out = unchanged._declared

    def declared(owned: Owned) -> str | None:
        asked_for.append(owned.root)
        return found_out(owned)

    monkeypatch.setattr(unchanged, "_declared", declared)
    expected = asked(indexed, lambda opened: opened.status())
    asked_for.clear()
    with Command.open(indexed) as opened:
        assert opened.status() == expected
        assert opened._engine is None
    assert asked_for == [indexed]
    # Where it is another than what was counted with, it is counted anew.
    monkeypatch.setattr(unchanged, "_declared", lambda owned: "another")
    with Command.open(indexed) as opened:
        assert opened.status() == expected
        assert opened._engine is not None


@pytest.mark.usefixtures("forking")
def test_a_first_scan_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for root in (tmp_path / "one", tmp_path / "other"):
        for number in range(20):
            folder = root / f"f{number % 4}" / f"g{number}"
            folder.mkdir(parents=True)
            (folder / "file.py").write_text(f"x = {number}\n")
        (root / "f0" / "g0" / "link").symlink_to("file.py")
        (root / ".gitignore").write_text("g7\nbuild/\n")
        (root / "f1" / "build").mkdir()
        os.mkfifo(root / "f2" / "g2" / "pipe")
        (root / "f3" / "again.py").hardlink_to(root / "f0" / "g0" / "file.py")
    expected = asked(tmp_path / "one", lambda opened: opened.scan())
    assert (expected["hashed"], len(expected["skipped"])) == (21, 1)
    monkeypatch.setattr("indexer.engine.tree.scan.Walker", None)
    with Command.open(tmp_path / "other") as opened:
        found: dict[str, Any] = {**opened.scan()}
    found.pop("seconds")
    assert found == expected
    settle()
    monkeypatch.undo()
    assert first_look(tmp_path / "other") is not None
    compare(tmp_path / "other")


def fill_folders(root: Path) -> None:
    """Twenty files, each in a folder of its own."""
    for number in range(20):
        folder = root / f"f{number % 4}" / f"g{number}"
        folder.mkdir(parents=True)
        (folder / "file.py").write_text(f"x = {number}\n")


@pytest.mark.usefixtures("forking")
def test_a_database_that_cannot_be_made_beside_a_first_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said, the lock is let go of, and the next scan is as good as a first one."""
    fill_folders(tmp_path)

    def refuse(*_: object, **__: object) -> None:
        raise DatabaseError("no room")

    with monkeypatch.context() as patched:
        patched.setattr("indexer.engine.workspace.Database", refuse)
        with Command.open(tmp_path, wait=0) as opened, pytest.raises(DatabaseError, match="room"):
            opened.scan()
    with Command.open(tmp_path, wait=0) as opened:
        assert opened.scan()["added"] == 45


@pytest.mark.usefixtures("forking")
def test_a_first_scan_that_is_broken_off_beside_its_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_folders(tmp_path)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("indexer.scan.shared_walk._take", interrupt)
        with Command.open(tmp_path, wait=0) as opened, pytest.raises(KeyboardInterrupt):
            opened.scan()
    with Command.open(tmp_path, wait=0) as opened:
        assert opened.scan()["added"] == 45


# -- whatever is done


def _kill(engine: Engine) -> None:
    """Let everything go as the system does for a process that is killed."""
    engine.database._opened.close()
    engine._owned.release()


def _killed_scan(root: Path) -> None:
    engine = Engine(root)
    engine.scan()
    _kill(engine)


def _killed_note(root: Path) -> None:
    engine = Engine(root)
    engine.note(root_name(root), "never to be lost", agent="ann")
    _kill(engine)


def root_name(root: Path) -> str:
    """A file that is there."""
    return next((name for name in FILES if (root / name).is_file()), "")


def _same_stamp(root: Path) -> None:
    path = root / root_name(root)
    if path.is_file():
        stat, content = path.stat(), path.read_bytes()
        path.write_bytes(content[::-1])
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def _older_database(root: Path) -> None:
    layout, kept = Layout(root), root.parent / "kept"
    if kept.exists():
        shutil.copy2(kept, layout.database)
    else:
        shutil.copy2(layout.database, kept)


def _by_workspace(what: Callable[[Workspace], object]) -> Callable[[Path], None]:
    def act(root: Path) -> None:
        asked(root, lambda opened: {"done": what(opened)})

    return act


def _link(root: Path) -> None:
    (root / "link").unlink(missing_ok=True)
    (root / "link").symlink_to(FILES[0])


def _rename(root: Path) -> None:
    path = root / root_name(root)
    if path.is_file():
        path.rename(path.with_name("renamed.py"))


def _hard_link(root: Path) -> None:
    source, target = root / root_name(root), root / "docs" / "again"
    if source.is_file():
        target.unlink(missing_ok=True)
        target.hardlink_to(source)


ACTIONS: dict[str, Callable[[Path], object]] = {
    "edit": lambda root: (root / FILES[0]).write_text("def edited():\n    pass\n"),
    "edit back": lambda root: (root / FILES[0]).write_text("def f0():\n    return 0\n"),
    "same stamp": _same_stamp,
    "add": lambda root: (root / "src" / "new.py").write_text("x = 1\n"),
    "remove": lambda root: (root / FILES[1]).unlink(missing_ok=True),
    "rename": _rename,
    "folder": lambda root: (root / "src" / "empty").mkdir(exist_ok=True),
    "link": _link,
    "hard link": _hard_link,
    "fifo": lambda root: (root / "fifo").exists() or os.mkfifo(root / "fifo"),
    "touch": lambda root: os.utime(root / "docs" / "d.md"),
    "ignore": lambda root: (root / ".gitignore").write_text("*.txt\n"),
    "ignore less": lambda root: (root / ".gitignore").write_text("# nothing\n"),
    "no types": lambda root: (root / "merkle.toml").write_text("[types]\n"),
    "a type": lambda root: (root / "merkle.toml").write_text("[types.t]\nfile = 'outline'\n"),
    "wrong types": lambda root: (root / "merkle.toml").write_text("types = 1\n"),
    "scan": _by_workspace(lambda opened: opened.scan()),
    "note": _by_workspace(lambda opened: opened.note("docs/d.md", "said again", agent="ann")),
    "frames": _by_workspace(lambda opened: opened.regenerate()),
    "killed scan": _killed_scan,
    "killed note": _killed_note,
    "older database": _older_database,
    "database stamped": lambda root: os.utime(Layout(root).database),
    "no journal": lambda root: shutil.rmtree(Layout(root).journal, ignore_errors=True),
    "nothing": lambda root: None,
}


_SEQUENCES = st.lists(st.sampled_from(sorted(ACTIONS)), min_size=4, max_size=8)


@settings(max_examples=6)
@given(_SEQUENCES)
def test_it_says_the_same_whatever_is_done(actions: list[str]) -> None:
    _do(actions)


@pytest.mark.soak
@pytest.mark.timeout(900)
@settings(max_examples=60)
@given(_SEQUENCES)
def test_it_says_the_same_whatever_is_done_at_length(actions: list[str]) -> None:
    _do(actions)


def _do(actions: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        root.mkdir()
        fill(root)
        settle()
        with Workspace.open(root) as opened:
            opened.init()
            opened.scan()
            opened.status()
        for action in actions:
            with contextlib.suppress(MerkleError):
                ACTIONS[action](root)
            settle()
            compare(root)


# -- a question, which begins with a look


@pytest.mark.usefixtures("forking")
@pytest.mark.parametrize("action", [None, "edit", "add", "remove", "rename", "link"])
def test_a_question_takes_what_others_saw_before_the_database_was_opened(
    indexed: Path, monkeypatch: pytest.MonkeyPatch, action: str | None
) -> None:
    if action is not None:
        ACTIONS[action](indexed)
    expected = asked(indexed, lambda opened: opened.compose(query="other words"))
    monkeypatch.setattr("indexer.engine.tree.scan.Walker", None)
    with Command.open(indexed) as opened:
        assert opened.compose(query="other words") == expected
    with Command.open(indexed) as opened:
        found = opened.search("other words")
    assert expected["root"] == found["root"] == root_from_nothing(indexed)
