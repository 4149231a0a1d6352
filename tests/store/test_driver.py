"""The database library: loaded by itself, and known to whoever must not fork beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from indexer.scan import shared_walk
from indexer.service.workspace import Workspace
with Workspace.open(sys.argv[1]) as opened:
    assert shared_walk._may_fork()
    opened.scan()
    opened.status()
    list(opened.sql("SELECT path, kind FROM nodes WHERE kind = 'file'")["rows"])
    opened.compose(query="what is a")
assert "_duckdb" in sys.modules
assert "duckdb" not in sys.modules, "the package around it, which takes four times as long"
assert not shared_walk._may_fork()
"""


def test_only_the_library_is_loaded_and_nothing_is_forked_beside_it(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], check=True)
