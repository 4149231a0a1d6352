"""Paths as people type them in a folder of the workspace, as nodes of the workspace."""

from __future__ import annotations

import os
from pathlib import Path

import click

from indexer.cli.columns import path
from indexer.cli.opening import root_of
from indexer.cli.options import Globals
from indexer.cli.output import print_text
from indexer.core.paths import PathError, on_screen, text_to_os
from indexer.errors import UsageError
from indexer.service.workspace import Workspace

AMBIGUOUS = "ambiguous_node"


def node_from_here(options: Globals, workspace: Workspace, name: str) -> str:
    """The node that a name means by `from_here`, else the only one whose path ends with the name.

    In the second case it is said which one was taken. `PATH::SYMBOL` is taken apart, where no file
    is called that.
    """
    meant = from_here(options, name)
    if not name or meant.startswith(("path:", "id:")) or _exists(workspace.root, meant):
        return meant
    place, mark, symbol = meant.partition("::")
    if mark and _exists(workspace.root, place):
        return meant
    try:
        found = workspace.resolve(place, by_name=True)["path"]
    except UsageError as error:
        if error.code == AMBIGUOUS:
            raise
        # Whoever asked knows better what to say of it, and may know nodes that are gone.
        return meant
    if found == place or not f"/{found}".endswith(f"/{place}"):
        return meant
    if not options.quiet:
        taken = f"{on_screen(place)} is taken as {path(found)}"
        print_text(click.style(taken, dim=True), err=True)
    return found + mark + symbol


def _exists(root: Path, name: str) -> bool:
    try:
        return os.path.lexists(root / text_to_os(name))
    except PathError:
        return False


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
    try:
        inside = _inside(typed, root)
    except ValueError:
        # It has a NUL character, or is no text that bytes can spell.
        raise PathError(
            f"{on_screen(name)} names no file", hint="no file can be called that"
        ) from None
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
