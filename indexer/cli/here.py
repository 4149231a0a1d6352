"""Paths as people type them in a folder of the workspace, as paths of the workspace."""

from __future__ import annotations

import os
from pathlib import Path

from indexer.cli.opening import root_of
from indexer.cli.options import Globals
from indexer.core.paths import PathError, on_screen


def from_here(options: Globals, name: str, *, guess: bool = True) -> str:
    """The workspace's name for what is meant: `/…`, `./…` and `../…` count from where we are.

    Any other name counts from the workspace's root; with `guess`, from the current folder if
    only there is something of that name. A symbol behind `::` stays with its file.
    """
    place, within, symbol = name.partition("::")
    if within and not os.path.lexists(os.path.join(root_of(options), name)):
        return from_here(options, place, guess=guess) + within + symbol
    first = name.partition("/")[0]
    if first not in ("", ".", ".."):
        return _below(options, name) if guess else name
    if not name:
        return name
    root = root_of(options)
    typed = os.path.join(root if options.directory is not None else os.getcwd(), name)
    inside = _inside(typed, root)
    if inside is None:
        raise PathError(
            f"{on_screen(name)} is not in the workspace {on_screen(str(root))}",
            hint="name a file or folder in it, or another workspace with -C",
        )
    return inside


def _below(options: Globals, name: str) -> str:
    if options.directory is not None:
        return name
    root, here = root_of(options), os.getcwd()
    is_here = not os.path.lexists(root / name) and os.path.lexists(os.path.join(here, name))
    found = _inside(os.path.join(here, name), root) if is_here else None
    return found or name


def _inside(typed: str, root: Path) -> str | None:
    """The path below the root, None outside; a link is looked through if that helps."""
    folder, last = os.path.split(os.path.normpath(typed))
    for place, top in (
        (os.path.normpath(typed), str(root)),
        (os.path.join(os.path.realpath(folder), last), os.path.realpath(root)),
    ):
        if place == top:
            return ""
        if place.startswith(top.rstrip("/") + "/"):
            return place[len(top.rstrip("/")) + 1 :]
    return None
