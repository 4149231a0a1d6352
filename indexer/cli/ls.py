"""`merkle ls`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from indexer.cli.columns import counted, listed_name, size, table
from indexer.cli.frame_text import state
from indexer.cli.here import node_from_here
from indexer.cli.nodes import node_name
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, merkle_command
from indexer.cli.output import print_json, print_text
from indexer.errors import ExitCode

if TYPE_CHECKING:
    from indexer.engine.tree.listing import ListedDocument, ListingDocument

_WORDS: Final = ("fresh", "stale", "unknown", "unmanaged")


@merkle_command("ls")
@click.argument("node", metavar="[NODE]", default=".", callback=node_name)
def command(options: Globals, node: str) -> int:
    """List what is in a folder, and what is known about it: kind, size, how fresh.

    NODE is the folder where you stand unless given. After the size of a folder stands how many
    files and folders in it have frames that are fresh, stale and so on; `bare` have none yet.

    \b
    Examples:
      merkle ls
      merkle ls ingest --json
    """
    with open_workspace(options) as workspace:
        document = workspace.ls(node_from_here(options, workspace, node))
    if options.json:
        print_json(document)
    else:
        print_text(_text(document))
    return ExitCode.FINE


def _text(document: ListingDocument) -> str:
    rows = [
        [listed_name(one["name"], one["kind"]), size(one["size"]), _known(one), _notes(one)]
        for one in document["entries"]
    ]
    return table(rows, right=frozenset((1,)))


def _known(one: ListedDocument) -> str:
    counts = one["counts"]
    if one["kind"] != "directory":
        return state(one["freshness"]) if one["freshness"] in _WORDS else _bare("bare")
    said = [f"{counts[word]:,} {state(word)}" for word in _WORDS if word in counts]
    if "none" in counts:
        said.append(_bare(f"{counts['none']:,} bare"))
    return ", ".join(said)


def _bare(text: str) -> str:
    return click.style(text, dim=True)


def _notes(one: ListedDocument) -> str:
    return counted(one["notes"], "note") if one["notes"] else ""
