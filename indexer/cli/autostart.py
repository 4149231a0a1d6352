"""A service for a workspace so large that every command without one makes its user wait."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from indexer.cli.output import print_text
from indexer.cli.progress import is_terminal
from indexer.engine.settings import load_settings
from indexer.errors import MerkleError

LARGE: Final = 20_000
"""Files from which on looking at all of them takes longer than a person likes to wait."""


def start_if_large(root: Path, files: int) -> None:
    """Start a service that ends when it is idle, and say so: in a terminal, never in CI."""
    if files <= LARGE or not is_terminal() or os.environ.get("CI"):
        return
    # Imported late: few commands start another process.
    from indexer.service.served import IDLE_EXIT, spawn_service

    with contextlib.suppress(MerkleError, OSError):
        if load_settings(root).autostart:
            spawn_service(root)
            print_text(
                f"started a service for these {files:,} files, so that the next command answers at"
                f" once; it ends when unused for {IDLE_EXIT} (service.autostart = false: never)",
                err=True,
            )
