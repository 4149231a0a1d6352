"""`merkle scan`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from indexer.cli.columns import counted, fields, remarks, size
from indexer.cli.opening import open_workspace, refuse_accidental_root
from indexer.cli.options import Globals, merkle_command
from indexer.cli.output import print_json, print_text
from indexer.errors import ExitCode

if TYPE_CHECKING:
    from indexer.engine.tree.results import ScanDocument


@merkle_command("scan")
@click.option("--force", is_flag=True, help="Read every file again, trusting no cached stat.")
@click.option("--accept-empty", is_flag=True, help="Confirm that everything is really gone.")
def command(options: Globals, force: bool, accept_empty: bool) -> int:
    """Bring the index up to date with the disk.

    Reads only what changed since the last scan, and records one new root when anything did.
    A first scan also initialises the workspace. A workspace that is suddenly empty is taken
    for an accident unless --accept-empty says otherwise.

    \b
    Example:
      merkle scan
    """
    refuse_accidental_root(options)
    with open_workspace(options) as workspace:
        document = workspace.scan(force=force, accept_empty=accept_empty)
    show_scan(options, document)
    return ExitCode.FINE


def show_scan(options: Globals, document: ScanDocument) -> None:
    """Print a scan's result; what could not be read is told even when quiet."""
    if options.json:
        print_json(document)
        return
    problems = "\n".join(remarks("unreadable", document["unreadable"], "red"))
    if options.quiet:
        print_text(problems, err=True)
        return
    print_text("\n".join([*_summary(document), *filter(None, [problems])]))


def _summary(document: ScanDocument) -> Iterator[str]:
    counts = [
        counted(document["files"], "file"),
        counted(document["directories"], "folder"),
        *([counted(document["links"], "link")] if document["links"] else []),
        size(document["bytes"]),
    ]
    yield fields(
        [
            ("root", click.style(document["root"], bold=True)),
            ("tree", ", ".join(counts)),
            ("changes", changes_line(document)),
            ("read", f"{counted(document['hashed'], 'file')} in {document['seconds']:.2f} s"),
        ]
    )
    yield from remarks("skipped", document["skipped"], "yellow")


def changes_line(document: ScanDocument) -> str:
    """`3 added, 1 removed`, or that nothing changed."""
    parts = [
        click.style(f"{number:,} {word}", fg=fg)
        for number, word, fg in (
            (document["added"], "added", "green"),
            (document["modified"], "modified", "yellow"),
            (document["removed"], "removed", "red"),
            (document["renamed"], "renamed", "cyan"),
        )
        if number
    ]
    return ", ".join(parts) or "none"
