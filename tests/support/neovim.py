"""A real Neovim without a screen, driven over its own remote procedure calls."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import msgpack
import pytest

from tests.support.processes import REPOSITORY
from tests.support.waiting import PATIENCE

_REQUEST, _ANSWER = 0, 1


def settings() -> str:
    """The settings for this Neovim that docs/editors.md shows, with this very `merkle`."""
    page = (REPOSITORY / "docs" / "editors.md").read_text()
    (shown,) = re.findall(r"```lua\n(-- Neovim 0\.7.*?)```", page, re.DOTALL)
    command = ", ".join(f'"{part}"' for part in (sys.executable, "-P", "-m", "indexer.cli"))
    assert shown.count('"merkle", ') == 1
    return shown.replace('"merkle", ', f"{command}, ")


class Neovim:
    """An embedded Neovim with no configuration but what a test gives it."""

    def __init__(self, folder: Path) -> None:
        found = shutil.which("nvim")
        if found is None:
            pytest.skip("Neovim is needed: apt-get install neovim")
        self._process = subprocess.Popen(
            [found, "--embed", "--headless", "-u", "NONE", "-i", "NONE", "-n"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder,
        )  # fmt: skip
        self._incoming = msgpack.Unpacker(raw=False, strict_map_key=False)
        self._asked = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # As a person does it; the servers are told to leave.
        self._send([2, "nvim_command", ["qall!"]])
        try:
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._process.stdin.close()
            self._process.stdout.close()

    def lua(self, code: str, *arguments: Any) -> Any:
        """Run Lua code, which sees its arguments as `...`; what it returns."""
        self._asked += 1
        self._send([_REQUEST, self._asked, "nvim_exec_lua", [code, list(arguments)]])
        while True:
            for message in self._incoming:
                if message[0] == _ANSWER and message[1] == self._asked:
                    assert message[2] is None, message[2]
                    return message[3]
            assert self._process.stdout is not None
            # It is a buffered reader, which its type does not tell.
            piece = self._process.stdout.read1(1 << 16)  # type: ignore[attr-defined]
            assert piece, "Neovim is gone"
            self._incoming.feed(piece)

    def waits(self, condition: str, what: str, *arguments: Any) -> Any:
        """Let it go on until a Lua expression is true; its value."""
        code = (
            f"local given = {{...}}; local found; vim.wait({int(PATIENCE * 1000)}, function()"
            f" found = (function() return {condition} end)(); return found end, 5); return found"
        )
        found = self.lua(code, *arguments)
        assert found, f"gave up waiting until {what}"
        return found

    def _send(self, message: list[Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgpack.packb(message))
        self._process.stdin.flush()
