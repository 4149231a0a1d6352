"""How a file of the workspace is opened in the reader's own editor."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from indexer.core import paths

_ADDRESSES: Final = {
    "vscode": "vscode://file{path}:{line}",
    "zed": "zed://file{path}:{line}",
}


class Opening(NamedTuple):
    """An address to follow, or a command to type where an editor has no address."""

    address: str | None
    command: str | None


def opening(editor: str | None, root: Path, path: str, line: int) -> Opening | None:
    """How an editor opens a line of a file; None where no editor is set."""
    if editor is None:
        return None
    file = os.fsencode(root) + b"/" + paths.text_to_bytes(path)
    if editor == "nvim":
        name = shlex.quote(paths.on_screen(os.fsdecode(file)))
        return Opening(None, f'nvim --server "$NVIM" --remote-silent +{line} {name}')
    pattern = _ADDRESSES.get(editor, editor)
    return Opening(pattern.replace("{path}", quote(file)).replace("{line}", str(line)), None)
