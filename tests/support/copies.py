"""Copies of a workspace that stand for the workspace itself, after a crash or before damage."""

from __future__ import annotations

import shutil
from pathlib import Path

from indexer.store.layout import record_format, recorded_format


def copy_workspace(source: Path, target: Path) -> Path:
    """Copy a workspace with its index, as if the index had been made in the copy."""
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    return as_made_here(target)


def as_made_here(root: Path) -> Path:
    """Let an index count as made where it is."""
    record_format(root, recorded_format(root))
    return root
