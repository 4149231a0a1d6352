"""`merkle lock`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from indexer.cli.columns import counted, short
from indexer.cli.opening import open_workspace, refuse_accidental_root
from indexer.cli.options import Globals, merkle_command
from indexer.cli.output import show
from indexer.errors import ExitCode


@merkle_command("lock")
def command(options: Globals) -> int:
    """Write merkle.lock, the content ids of all folders and files, to be committed with them.

    Brings the index up to date first. The file depends on nothing but content, has one line per
    folder and file, and is no part of the tree itself. `merkle validate --locked` compares with
    it; after a merge that touched it, lock again.

    \b
    Example:
      merkle lock && git add merkle.lock
    """
    refuse_accidental_root(options)
    with open_workspace(options) as workspace:
        document = workspace.lock()
    show(options, document, _text)
    return ExitCode.FINE


def _text(document: Mapping[str, Any]) -> str:
    word = "wrote" if document["written"] else "nothing to write:"
    folders = counted(document["folders"], "folder")
    return f"{word} {document['path']}, root {short(document['root'])}, {folders}"
