"""`merkle diff`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from indexer.cli.columns import counted, first, path, short
from indexer.cli.context_text import differences
from indexer.cli.frame_text import state
from indexer.cli.markdown import code
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, merkle_command, plain_text
from indexer.cli.output import print_json, print_text
from indexer.core import paths
from indexer.core.paths import on_screen
from indexer.engine.documents import DiffDocument, NoteChangeDocument
from indexer.errors import ExitCode

_SIGNS: Final = {"added": ("+", "green"), "removed": ("-", "red"), "modified": ("~", "yellow")}


@merkle_command("diff")
@click.argument("old", metavar="[A", required=False, callback=plain_text)
@click.argument("new", metavar="[B]]", required=False, callback=plain_text)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="How to print the differences.",
)
def command(options: Globals, old: str | None, new: str | None, form: str) -> int:
    """Show what changed: files, symbols, and notes that do not hold any more.

    Without A it is what is on disk now against git's last commit, without git against the last
    recorded root. A and B are two recorded roots: the first digits of an id, or @-N, the root N
    batches ago; B is @-0, the newest, unless given. `merkle log` lists them. They can also be the
    first digits of two manifests' ids; write manifest: before digits that could be either.

    \b
    Examples:
      merkle diff
      merkle diff @-1
      merkle diff manifest:3f9a01c2 manifest:77b0e4d1
    """
    with open_workspace(options) as workspace:
        if old is None:
            document = workspace.changes()
        else:
            document = workspace.diff(old, "@-0" if new is None else new)
    if options.json or form == "json":
        print_json(document)
    else:
        print_text(_markdown(document) if form == "markdown" else _text(document))
    return ExitCode.FINE


def _entries(document: DiffDocument) -> Iterator[tuple[str, str, list[str]]]:
    """Each kind of difference: word, colour, and the paths it concerns.

    What a rename brought or took along is told by the rename alone.
    """
    came = {each["new"] for each in document["renamed"]}
    went = {each["old"] for each in document["renamed"]}
    yield "added", "green", _outside(document["added"], came)
    yield "modified", "yellow", _outside(document["modified"], set())
    yield "removed", "red", _outside(document["removed"], went)


def _outside(listed: list[str], folders: set[str]) -> list[str]:
    """The paths, as shown, that are none of the folders and not below one."""
    return [path(each) for each in listed if folders.isdisjoint((each, *paths.ancestors(each)))]


def _text(document: DiffDocument) -> str:
    lines = []
    for word, fg, listed in _entries(document):
        lines += [f"{click.style(f'{word:8}', fg=fg)}  {each}" for each in listed]
    of_manifests = any("old_freshness" in frame for frame in document["frames"])
    if of_manifests:
        lines = []
    for each in document["renamed"]:
        lines.append(
            f"{click.style('renamed ', fg='cyan')}  {path(each['old'])} → {path(each['new'])}"
        )
    lines += _symbol_lines(document)
    frames = list(differences(document["frames"]))
    if of_manifests:
        lines += frames
    elif frames:
        lines += [f"generated frames ({len(frames):,})", *(f"  {each}" for each in first(frames))]
    lines += list(_note_lines(document))
    span = f"{_side(document['old'])} → {short(document['new'])}"
    return "\n".join([*lines, f"{span}: {_count(document)}"])


def _side(identifier: str) -> str:
    """One side of a comparison: a commit of git's, or a recorded root."""
    kind, mark, digits = identifier.partition(":")
    return f"{kind} {short(digits)}" if mark else short(identifier)


def _symbol_lines(document: DiffDocument) -> Iterator[str]:
    """Symbols that came, went and changed, each below its file's name."""
    if document["symbols"]:
        yield f"symbols ({len(document['symbols']):,})"
    lines = [
        click.style(_SIGNS[one["change"]][0], fg=_SIGNS[one["change"]][1])
        + f" {path(one['path'])}::{on_screen(one['symbol'])}  "
        + click.style(on_screen(one["kind"]), dim=True)
        for one in document["symbols"]
    ]
    yield from (f"  {each}" for each in first(lines))


def _note_lines(document: DiffDocument) -> Iterator[str]:
    """What became of notes: the reason to look at them again."""
    if document["notes"]:
        yield f"notes ({len(document['notes']):,})"
    yield from (f"  {each}" for each in first([note_text(one) for one in document["notes"]]))


def note_text(note: NoteChangeDocument) -> str:
    """What became of one note."""
    came = f", from {path(note['from'])}" if note["from"] is not None else ""
    where = path(note["path"]) + (f"::{on_screen(note['symbol'])}" if note["symbol"] else "")
    said = f"{state(note['change'])}  {where}  {on_screen(note['type'])}"
    return f"{said} by {on_screen(note['agent'])}{came}"


def _count(document: DiffDocument) -> str:
    parts = [f"{len(listed):,} {word}" for word, _, listed in _entries(document) if listed]
    if document["renamed"]:
        parts.append(f"{len(document['renamed']):,} renamed")
    return ", ".join(parts) or "no difference"


def _markdown(document: DiffDocument) -> str:
    lines = [f"### `{_side(document['old'])}` → `{short(document['new'])}`", "", _count(document)]
    for word, _, listed in _entries(document):
        if listed:
            lines += ["", f"**{counted(len(listed), 'path')} {word}**", ""]
            lines += [f"- {code(each)}" for each in listed]
    if document["renamed"]:
        lines += ["", f"**{counted(len(document['renamed']), 'path')} renamed**", ""]
        lines += [
            f"- {code(path(each['old']))} → {code(path(each['new']))}"
            for each in document["renamed"]
        ]
    if document["symbols"]:
        lines += ["", f"**{counted(len(document['symbols']), 'symbol')}**", ""]
        lines += [
            f"- {one['change']}: {code(path(one['path']) + '::' + on_screen(one['symbol']))}"
            for one in document["symbols"]
        ]
    if document["notes"]:
        lines += ["", f"**{counted(len(document['notes']), 'note')}**", ""]
        lines += [
            f"- {note['change']}: {code(path(note['path']))}, {code(on_screen(note['type']))} by"
            f" {code(on_screen(note['agent']))}"
            for note in document["notes"]
        ]
    return "\n".join(lines)
