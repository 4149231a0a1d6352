"""What an editor shows, and how soon: a real Neovim with the settings of docs/editors.md.

A note about a function is stale after a save that changes the function, and holds again after the
code action "still true". Both are timed inside the editor: from the save, or from asking for the
actions, to the diagnostic that is there or gone.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.measure import REPOSITORY, Row
from indexer import Workspace
from tests.support.neovim import Neovim, settings

LIMIT = 300.0
"""Milliseconds that a person does not notice."""

_USUAL = 8_000
"""Bytes of a file such as one opens."""

_SAVE = """
local line, count, text = ...
vim.fn.setline(line, text)
local begun = vim.loop.hrtime()
vim.cmd('write')
local there = vim.wait(30000, function() return #vim.diagnostic.get(0) == count end, 1)
return { there, (vim.loop.hrtime() - begun) / 1e6 }
"""
_STILL_TRUE = """
vim.api.nvim_win_set_cursor(0, { ..., 0 })
vim.ui.select = function(items, options, choose)
  for _, item in ipairs(items) do
    if options.format_item(item):find('still true') then choose(item, 1) end
  end
end
local begun = vim.loop.hrtime()
vim.lsp.buf.code_action()
local gone = vim.wait(30000, function() return #vim.diagnostic.get(0) == 0 end, 1)
return { gone, (vim.loop.hrtime() - begun) / 1e6 }
"""


def rows(work: Path, rounds: int, tree: Path | None) -> Iterator[Row]:
    """On the sample, and on a folder that was named."""
    named = {"sample": REPOSITORY / "sample_workspace"}
    if tree is not None:
        named[tree.name] = tree
    for name, source in named.items():
        root = work / f"editor-{name}"
        shutil.copytree(
            source, root, symlinks=True, ignore=shutil.ignore_patterns(".merkle", ".git")
        )
        stale, gone = _measured(root, rounds)
        for what, times in (("stale after a save", stale), ("gone after still true", gone)):
            yield _row(f"{name}: {what}, median of {rounds}", statistics.median(times))
            yield _row(f"{name}: {what}, longest", max(times))


def _row(name: str, milliseconds: float) -> Row:
    return Row(name, milliseconds, "ms", "what nobody notices", LIMIT, 1.0)


def _measured(root: Path, rounds: int) -> tuple[list[float], list[float]]:
    stale: list[float] = []
    gone: list[float] = []
    with (
        # Not in the work folder: socket paths end at 107 bytes.
        tempfile.TemporaryDirectory(prefix="mk", dir="/tmp") as runtime,
        mock.patch.dict(
            os.environ,
            {
                "XDG_RUNTIME_DIR": runtime,
                "MERKLE_AGENT": "ann",
                "MERKLE_WATCH_IDLE_EXIT": "60s",
                "PYTHONPATH": str(REPOSITORY),
            },
        ),
    ):
        path, symbol = _noted(root)
        with Neovim(root) as nvim:
            nvim.lua(settings())
            nvim.lua("vim.cmd('edit ' .. vim.fn.fnameescape(...))", path)
            nvim.waits("#vim.lsp.buf_get_clients(0) > 0", "the server is attached")
            nvim.lua("vim.lsp.codelens.refresh()")
            nvim.waits("#vim.lsp.codelens.get(0) > 0", "it has answered")
            text = nvim.lua("return vim.fn.getline(...)", symbol["end_line"])
            # The first round loads what later ones have loaded.
            for number in range(rounds + 1):
                changed = f"{text}  # {number}"
                there, took = nvim.lua(_SAVE, symbol["end_line"], 1, changed)
                if not there:
                    raise RuntimeError(f"no note became stale in {path}")
                no_more, confirmed = nvim.lua(_STILL_TRUE, symbol["line"])
                if not no_more:
                    raise RuntimeError(f"a note in {path} stayed stale")
                if number:
                    stale.append(took)
                    gone.append(confirmed)
    return stale, gone


def _noted(root: Path) -> tuple[str, Any]:
    """Index it, with a note about a function of a usual file; where that is."""
    sources = [path for path in root.rglob("*.py") if path.is_file() and not path.is_symlink()]
    sources.sort(key=lambda path: (abs(path.stat().st_size - _USUAL), str(path)))
    with Workspace.open(root) as workspace:
        workspace.scan()
        workspace.regenerate()
        workspace.agent_add("ann", "writer")
        for source in sources:
            path = source.relative_to(root).as_posix()
            for symbol in workspace.symbols("*", within=f"path:{path}")["symbols"]:
                if symbol["kind"] == "function" and symbol["end_line"] > symbol["line"] + 2:
                    node = f"path:{path}::{symbol['symbol']}"
                    workspace.put_frame(node, "It is so.", frame_type="note", agent="ann")
                    return path, symbol
    raise RuntimeError(f"there is no function in {root}")
