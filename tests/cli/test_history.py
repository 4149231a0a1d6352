"""`log`, `diff` and `sql`: what was recorded."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from indexer.cli.diff import _markdown
from indexer.engine.documents import DiffDocument
from indexer.engine.search.sql import SqlDocument
from indexer.engine.tree.history import LogDocument
from tests.support.copies import copy_workspace

pytestmark = pytest.mark.usefixtures("kept_open")


@pytest.fixture
def changed(
    workspace: Path, made: Path, merkle: Any, kept_open: Any, request: pytest.FixtureRequest
) -> Path:
    """A workspace with two recorded roots."""
    if not (made / "changed").exists():
        scanned = request.getfixturevalue("scanned")
        (scanned / "new.txt").write_text("x")
        (scanned / "README.md").unlink()
        (scanned / "src" / "deep").rename(scanned / "tables")
        assert merkle("-C", scanned, "scan").code == 0
        kept_open.close()
        shutil.move(scanned, made / "changed")
    shutil.rmtree(workspace, ignore_errors=True)
    return copy_workspace(made / "changed", workspace)


def test_log_is_newest_first_and_limited(changed: Path, process: Any) -> None:
    ran = process("-C", changed, "log", "--json")
    assert ran.code == 0
    assert set(ran.json) == set(LogDocument.__annotations__)
    assert [root["seq"] for root in ran.json["roots"]] == [2, 1]
    lines = process("-C", changed, "log", "-n", "1").out.splitlines()
    assert len(lines) == 2
    assert lines[1].startswith(f"@-0  {ran.json['roots'][0]['root'][:12]}  20")


def test_log_before_the_first_scan(workspace: Path, merkle: Any) -> None:
    merkle("-C", workspace, "init")
    assert "nothing recorded yet" in merkle("-C", workspace, "log").out
    assert merkle("-C", workspace, "log", "--json").json == {"roots": [], "lost": []}


def test_diff_tells_what_lies_between(changed: Path, process: Any) -> None:
    ran = process("-C", changed, "diff", "@-1", "@-0", "--json")
    assert ran.code == 0
    assert set(ran.json) == set(DiffDocument.__annotations__)
    assert "new.txt" in ran.json["added"]
    assert "README.md" in ran.json["removed"]
    assert {"old": "src/deep", "new": "tables", "kind": "directory"} in ran.json["renamed"]
    assert process("-C", changed, "diff", "@-1", "@-0", "--format", "json").json == ran.json
    text = process("-C", changed, "diff", ran.json["old"][:8], "@-0").out
    assert "added     new.txt\n" in text
    assert "renamed   src/deep → tables\n" in text
    assert text.splitlines()[-1].endswith(": 1 added, 1 removed, 1 renamed")
    assert "no difference" in process("-C", changed, "diff", "@-0", "@-0").out


def test_diff_lists_the_frames_that_were_made_for_each_root(peopled: Path, merkle: Any) -> None:
    (peopled / "src" / "main.py").write_text("def ebb(): pass\n")
    assert merkle("-C", peopled, "regenerate", "src/main.py").code == 0
    lines = merkle("-C", peopled, "diff", "@-1", "@-0").out.splitlines()
    assert lines[0] == "modified  src/main.py"
    assert lines[1:4] == ["symbols (1)", "  + src/main.py::ebb  function", "generated frames (3)"]
    assert lines[4].startswith("  missing   . (outline by merkle:summarize)  ")
    assert lines[4].endswith(" → none")
    assert lines[6].startswith("  modified  src/main.py (outline by merkle:outline)  ")
    assert lines[7].endswith(": 1 modified")


def test_diff_in_markdown(changed: Path, merkle: Any) -> None:
    text = merkle("-C", changed, "diff", "@-1", "@-0", "--format", "markdown").out
    assert text.startswith("### `")
    assert "**1 path added**\n\n- `new.txt`\n" in text
    assert "- `src/deep` → `tables`" in text


def test_markdown_spans_hold_backticks() -> None:
    document: DiffDocument = {
        "old": "a" * 32, "new": "b" * 32, "added": ["x``y", "`", "\u202eevil"],
        "removed": [], "modified": [], "renamed": [], "symbols": [], "frames": [], "notes": [],
    }  # fmt: skip
    text = _markdown(document)
    assert "- ``` x``y ```" in text
    assert "- `` ` ``" in text
    assert "- `\\u202eevil`" in text


def test_unknown_roots_are_wrong_use(changed: Path, merkle: Any) -> None:
    for root in ("@-9", "ffffffffff", "ab", "../x", "/etc", "@-", "@--1", ""):
        ran = merkle("-C", changed, "diff", "--json", "--", root, "@-0")
        assert ran.code == 2, root
        assert ran.json["error"]["code"] == "unknown_root", root


def test_bytes_that_are_no_text_are_refused(changed: Path, process: Any) -> None:
    for line in ([b"diff", b"\xff\xfe", b"@-0"], [b"sql", b"SELECT '\xff'"]):
        ran = process("-C", changed, "--json", *line)
        assert ran.code == 2
        assert "not UTF-8" in ran.json["error"]["message"]


def test_sql_prints_a_table(changed: Path, process: Any) -> None:
    query = "SELECT path, size, NULL AS nothing FROM nodes WHERE kind = 'file' ORDER BY path"
    ran = process("-C", changed, "sql", query, "--json")
    assert ran.code == 0
    assert set(ran.json) == set(SqlDocument.__annotations__)
    assert ran.json["columns"] == ["path", "size", "nothing"]
    lines = process("-C", changed, "sql", query).out.splitlines()
    assert lines == [
        "path              size  nothing",
        ".gitignore           6     NULL",
        "new.txt              1     NULL",
        "src/main.py         14     NULL",
        "tables/table.csv  2000     NULL",
    ]


def test_sql_from_stdin_with_a_limit(changed: Path, process: Any) -> None:
    ran = process("-C", changed, "sql", "-", "--limit", "2", stdin=b"SELECT path FROM nodes")
    assert ran.code == 0
    assert len(ran.out.splitlines()) == 3
    assert "--limit" in ran.err
    assert process("-C", changed, "sql", "-", stdin=b"\xff").code == 2


def test_sql_cells_are_safe(changed: Path, merkle: Any) -> None:
    ran = merkle("-C", changed, "sql", "SELECT chr(27) || '[2J' || chr(10) || 'x' AS evil, true t")
    assert ran.out.splitlines()[1] == "\\x1b[2J\\x0ax  true"


def test_sql_refuses_all_but_one_select(changed: Path, merkle: Any) -> None:
    for query in (
        "", "DROP TABLE node_log", "SELECT 1; SELECT 2", "SELECT FROM WHERE", "SELECT * FROM nope",
        "COPY nodes TO '/tmp/x'", "SELECT * FROM read_text('/etc/passwd')", "INSTALL httpfs",
    ):  # fmt: skip
        ran = merkle("-C", changed, "sql", "--json", query)
        assert ran.code == 2, query
        assert ran.json["error"]["code"] == "bad_query", query


def test_sql_syntax_errors_keep_their_layout(changed: Path, merkle: Any) -> None:
    ran = merkle("-C", changed, "sql", "SELECT * FRM nodes")
    assert ran.code == 2
    assert "\nLINE 1: SELECT * FRM nodes\n" in ran.err


def test_sql_gives_up_in_time(changed: Path, merkle: Any) -> None:
    query = "SELECT count(*) FROM range(100000000) a, range(100000000) b"
    ran = merkle("-C", changed, "sql", query, "--timeout", "0.2", "--json")
    assert ran.code == 2
    assert "longer than" in ran.json["error"]["message"]
