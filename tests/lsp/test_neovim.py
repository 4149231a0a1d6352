"""The server in a real Neovim, set up as docs/editors.md says."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer import Workspace
from tests.lsp.conftest import QUALITY
from tests.support.neovim import Neovim, settings
from tests.support.waiting import wait_until

JUDGE = 30
LENSES = """(function()
  local found = {}
  for _, lens in ipairs(vim.lsp.codelens.get(0)) do
    table.insert(found, { lens.range.start.line, lens.command.title })
  end
  return #found == 2 and found
end)()"""
FLOAT = """(function()
  for _, window in ipairs(vim.api.nvim_list_wins()) do
    if vim.api.nvim_win_get_config(window).relative ~= '' then
      return vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, false)
    end
  end
end)()"""
ABOUT_JUDGE = "vim.diagnostic.get(0, { lnum = 29 })"


@pytest.mark.soak
def test_notes_and_their_staleness_in_neovim(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MERKLE_AGENT", "ann")
    with Neovim(sample) as nvim:
        nvim.lua(settings())
        nvim.lua("vim.cmd('edit ' .. ...)", QUALITY)
        nvim.waits("#vim.lsp.buf_get_clients(0) > 0", "the server is attached")
        nvim.lua("vim.lsp.codelens.refresh()")
        assert nvim.waits(LENSES, "there are lenses") == [
            [0, "note: Marks, and never drops."],
            [JUDGE - 1, "note: Rates are in metres per minute."],
        ]
        nvim.lua("vim.api.nvim_win_set_cursor(0, {...})", JUDGE, 5)
        nvim.lua("vim.lsp.buf.hover()")
        shown = nvim.waits(FLOAT, "a window opens")
        assert "Rates are in metres per minute." in shown
        nvim.lua("vim.cmd('doautocmd CursorMoved')")

        # An edit of the symbol, saved here: told within moments, at the symbol's line.
        nvim.lua("vim.fn.setline(40, '    rate = abs(reading.value - before.value) / 2')")
        begun = nvim.lua("vim.cmd('write'); return vim.loop.hrtime()")
        told = nvim.waits(f"#{ABOUT_JUDGE} == 1 and {ABOUT_JUDGE}", "the note is stale")
        ended = nvim.lua("return vim.loop.hrtime()")
        print(f"diagnostic {(ended - begun) / 1e6:.0f} ms after the save")
        assert told[0]["message"].startswith("stale note about judge by ann: ")
        assert told[0]["severity"] == 3
        assert told[0]["col"] == 4

        nvim.lua("vim.api.nvim_win_set_cursor(0, {...})", JUDGE, 5)
        nvim.lua(
            "offered = {}; vim.ui.select = function(items, options, choose)"
            " for _, item in ipairs(items) do"
            "  offered[#offered + 1] = options.format_item(item)"
            "  if offered[#offered]:find('still true') then choose(item, 1) end end end;"
            " vim.lsp.buf.code_action()"
        )
        nvim.waits(f"#{ABOUT_JUDGE} == 0", "the note holds again")
        assert len(nvim.lua("return offered")) == 4
        with Workspace.open(sample) as workspace:
            found = workspace.notes(f"{QUALITY}::judge")["notes"]
        assert [one["freshness"] for one in found] == ["fresh"]


@pytest.mark.soak
def test_context_is_copied_and_a_note_replaced_in_neovim(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERKLE_AGENT", "ann")
    with Neovim(sample) as nvim:
        nvim.lua(settings())
        nvim.lua("vim.cmd('edit ' .. ...)", QUALITY)
        nvim.waits("#vim.lsp.buf_get_clients(0) > 0", "the server is attached")
        nvim.lua("vim.api.nvim_win_set_cursor(0, {...})", JUDGE, 5)
        choose = (
            "local wanted, typed = ...; vim.ui.input = function(_, done) done(typed) end;"
            " vim.ui.select = function(items, options, choose)"
            " for _, item in ipairs(items) do"
            "  if options.format_item(item):find(wanted, 1, true) then choose(item, 1) end end end;"
            " vim.lsp.buf.code_action()"
        )
        nvim.lua(choose, "copy context", "")
        # Without a clipboard, as here, the unnamed register has it.
        copied = nvim.waits("vim.fn.getreg('\"') ~= '' and vim.fn.getreg('\"')", "it is copied")
        assert copied.startswith(f"{QUALITY}::judge (source, lines 30-41)")
        nvim.lua("vim.fn.setline(40, '    rate = abs(reading.value - before.value) / 2')")
        nvim.lua("vim.cmd('write')")
        nvim.waits(f"#{ABOUT_JUDGE} == 1", "the note is stale")
        nvim.lua(choose, "replace", "Rates are per half minute.")
        nvim.waits(f"#{ABOUT_JUDGE} == 0", "nothing is stale there")

        def replaced() -> bool:
            with Workspace.open(sample) as workspace:
                notes = workspace.notes(f"{QUALITY}::judge")["notes"]
            return [one["content"] for one in notes] == ["Rates are per half minute."]

        wait_until(replaced, "the note is another")
