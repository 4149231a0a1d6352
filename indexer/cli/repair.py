"""`merkle repair`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click

from indexer.cli.columns import counted, path, short
from indexer.cli.opening import refuse_beside_service, root_of
from indexer.cli.options import Globals, merkle_command
from indexer.cli.output import show
from indexer.cli.progress import bar
from indexer.core.paths import on_screen
from indexer.engine.durable.repair import RepairedDocument, repair
from indexer.errors import ExitCode


@merkle_command("repair", gives=(RepairedDocument,))
def command(options: Globals) -> int:
    """Rebuild an index that is damaged, from the files and the journal.

    Checks everything first, and changes nothing that holds. What is damaged is put aside in
    .merkle/quarantine, never deleted; what agents wrote comes back from the journal. A running
    service has to be stopped before. Exit status 0: all is well, now or as before.

    \b
    Example:
      merkle repair
    """
    root = root_of(options)
    refuse_beside_service(root)
    with bar(options) as progress:
        document = repair(root, progress=progress)
    show(options, document, lambda found: "\n".join(_lines(root, found)))
    return ExitCode.FINE


def _lines(root: Path, document: RepairedDocument) -> Iterator[str]:
    word = "repaired" if document["repaired"] else "nothing to repair"
    nodes = counted(document["nodes"], "node")
    yield f"{click.style(word, fg='green', bold=True)}: root {short(document['root'])}, {nodes}"
    yield from (f"  {on_screen(each)}" for each in document["done"])
    if document["gone"]:
        yield click.style("gone", fg="yellow")
        yield from (f"  {on_screen(each)}" for each in document["gone"])
    if document["quarantined"]:
        yield click.style("put aside", dim=True)
        yield from (f"  {path(os.path.relpath(each, root))}" for each in document["quarantined"])
