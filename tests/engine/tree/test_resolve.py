"""From what a user typed to a node."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.core.paths import PathError
from indexer.engine.tree.resolve import AmbiguousNodeError, UnknownNodeError
from indexer.errors import UsageError
from tests.support.engines import Engine
from tests.support.space import with_index


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The same for tests that change nothing."""
    with contextlib.contextmanager(opened)(tmp_path_factory.mktemp("resolve")) as engine:
        yield engine


@pytest.fixture
def engine(workspace: Path) -> Iterator[Engine]:
    """A small workspace, scanned."""
    yield from opened(workspace)


def opened(workspace: Path) -> Iterator[Engine]:
    (workspace / "src").mkdir()
    (workspace / "src" / "main.py").write_bytes(b"main")
    (workspace / "README").write_bytes(b"read me")
    with Engine(with_index(workspace)) as engine:
        engine.scan()
        yield engine


def forge(engine: Engine, *ids: tuple[str, str]) -> None:
    """Give paths ids that begin as we want; real ones do not collide on demand."""
    with engine.database.transaction() as connection:
        for path, node_id in ids:
            connection.execute(
                "UPDATE node_log SET node_id = ? WHERE path = ?", [bytes.fromhex(node_id), path]
            )


def test_a_path(engine: Engine) -> None:
    document = engine.resolve("src/main.py")
    entry = engine.tree.get("src/main.py")
    assert entry is not None
    assert document == {
        "path": "src/main.py",
        "kind": "file",
        "node_id": engine.tree.node_id("src/main.py", entry).hex(),
        "content_id": entry.content_id.hex(),
        "size": 4,
        "superseded": False,
    }


@pytest.mark.parametrize("text", ["", ".", "./", "path:", "path:."])
def test_the_root(still: Engine, text: str) -> None:
    assert still.resolve(text)["path"] == ""
    assert still.resolve(text)["kind"] == "directory"


@pytest.mark.parametrize("digits", [6, 7, 12, 31, 32])
def test_a_unique_prefix(still: Engine, digits: int) -> None:
    node_id = still.resolve("src/main.py")["node_id"]
    for text in (node_id[:digits], "id:" + node_id[:digits]):
        assert still.resolve(text)["path"] == "src/main.py"
        assert still.resolve(text)["superseded"] is False


def test_an_ambiguous_prefix_names_the_candidates(engine: Engine) -> None:
    forge(engine, ("README", "abcdef" + "0" * 26), ("src", "abcdef" + "1" * 26))
    with pytest.raises(AmbiguousNodeError, match="README") as caught:
        engine.resolve("abcdef")
    assert "src" in caught.value.message
    assert caught.value.exit_code == 2
    assert engine.resolve("abcdef0")["path"] == "README"
    assert engine.resolve("abcdef1")["path"] == "src"


def test_a_former_id_leads_to_its_path_and_says_so(engine: Engine, workspace: Path) -> None:
    former = engine.resolve("README")["node_id"]
    (workspace / "README").write_bytes(b"another")
    engine.scan()
    found = engine.resolve(former[:10])
    assert found["path"] == "README"
    assert found["superseded"] is True
    assert found["node_id"] == former
    assert engine.resolve("README")["node_id"] != former
    (workspace / "README").write_bytes(b"read me")
    engine.scan()
    assert engine.resolve(former[:10])["superseded"] is False


def test_a_former_id_of_a_path_that_is_gone(engine: Engine, workspace: Path) -> None:
    former = engine.resolve("README")["node_id"]
    (workspace / "README").unlink()
    engine.scan()
    found = engine.resolve(f"id:{former}")
    assert (found["path"], found["kind"], found["superseded"]) == ("README", "gone", True)
    with pytest.raises(UnknownNodeError):
        engine.resolve("README")


def test_a_present_id_goes_before_a_former_one(engine: Engine, workspace: Path) -> None:
    forge(engine, ("README", "abcdef" + "0" * 26))
    (workspace / "README").write_bytes(b"another")
    engine.scan()
    forge(engine, ("src", "abcdef" + "1" * 26))
    assert engine.resolve("abcdef")["path"] == "src"
    assert engine.resolve("abcdef0")["superseded"] is True


def test_a_path_that_looks_like_an_id(engine: Engine, workspace: Path) -> None:
    name = engine.resolve("src/main.py")["node_id"][:8]
    (workspace / name).write_bytes(b"confusing")
    engine.scan()
    assert engine.resolve(name)["path"] == name
    assert engine.resolve(f"path:{name}")["path"] == name
    assert engine.resolve(f"id:{name}")["path"] == "src/main.py"


def test_a_path_that_looks_like_a_prefix(engine: Engine, workspace: Path) -> None:
    (workspace / "path:x").write_bytes(b"1")
    (workspace / "id:abcdef").write_bytes(b"2")
    engine.scan()
    assert engine.resolve("path:path:x")["path"] == "path:x"
    assert engine.resolve("path:id:abcdef")["path"] == "id:abcdef"


@pytest.mark.parametrize(
    "text", ["nothing", "src/nothing", "id:abc", "id:ABCDEF", "id:xyzxyz", "id:", "path:nothing",
             "000000000000", "id:000000000000", "abc\x1b[2J", "README/below"],
)  # fmt: skip
def test_what_is_not_there_is_a_clear_error(still: Engine, text: str) -> None:
    with pytest.raises(UnknownNodeError) as caught:
        still.resolve(text)
    assert caught.value.hint
    assert caught.value.exit_code == 2
    assert "\x1b" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize("text", ["..", "../x", "/etc/passwd", "a\x00b", "path:/x", "path:../x"])
def test_what_cannot_be_a_path_is_refused(still: Engine, text: str) -> None:
    with pytest.raises(PathError):
        still.resolve(text)


@pytest.mark.parametrize("text", ["..", "/etc", "a\x00b"])
def test_why_ignored_refuses_the_same(engine: Engine, text: str) -> None:
    with pytest.raises(UsageError):
        engine.why_ignored(text)


def test_why_ignored_names_rule_file_and_line(engine: Engine, workspace: Path) -> None:
    (workspace / ".gitignore").write_bytes(b"# logs\n*.log\n!keep.log\n")
    engine.scan()
    assert engine.why_ignored("src/x.log") == {
        "path": "src/x.log",
        "ignored": True,
        "rule": {"pattern": "*.log", "source": ".gitignore", "line": 2, "negated": False},
    }
    kept = engine.why_ignored("keep.log")
    assert kept["ignored"] is False
    assert kept["rule"]["line"] == 3
    assert engine.why_ignored("README") == {"path": "README", "ignored": False, "rule": None}
    assert engine.why_ignored(".git")["rule"]["source"] == "built-in"
