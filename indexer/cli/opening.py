"""From the global options to the workspace they mean."""

from __future__ import annotations

import os
from pathlib import Path

from indexer.cli.options import Globals
from indexer.engine.config import load_settings
from indexer.errors import UsageError
from indexer.service.workspace import Workspace, find_workspace


def open_workspace(options: Globals) -> Workspace:
    """The workspace that is meant, with the waiting time that is set for it."""
    root = root_of(options)
    return Workspace.open(root, wait=load_settings(root).wait_s)


def root_of(options: Globals) -> Path:
    """The workspace folder that is meant, whether or not it has been initialised."""
    if options.directory is None:
        return find_workspace()
    root = Path(os.path.abspath(options.directory))
    if not root.is_dir():
        raise UsageError(f"{root} is not a folder", hint="name an existing folder")
    return root
