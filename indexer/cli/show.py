"""`merkle show`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from indexer.cli.columns import path, short
from indexer.cli.here import node_from_here
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, merkle_command, plain_text
from indexer.cli.output import print_json, print_text
from indexer.core.paths import on_screen
from indexer.errors import ExitCode

if TYPE_CHECKING:
    from indexer.engine.code.source import SourceDocument


def _lines(
    context: click.Context, option: click.Parameter, value: str | None
) -> tuple[int | None, int | None]:
    if value is None:
        return None, None
    found = re.fullmatch(r"(\d{0,9}):(\d{0,9})|(\d{1,9})", value)
    if found is None:
        raise click.BadParameter("give A:B, A:, :B or one line, as in 10:20")
    if found[3]:
        return int(found[3]), int(found[3])
    return int(found[1]) if found[1] else None, int(found[2]) if found[2] else None


@merkle_command("show")
@click.argument("node", metavar="NODE[::SYMBOL]", callback=plain_text)
@click.option("--lines", metavar="A:B", callback=_lines, help="Only these lines.")
def command(options: Globals, node: str, lines: tuple[int | None, int | None]) -> int:
    """Show a file, a symbol or some lines as they are on disk now, with line numbers.

    What is shown is read and hashed at that moment; the NodeID is that of exactly these bytes.
    Secrets are masked.

    \b
    Examples:
      merkle show ingest/saltgauge/store.py::ReadingStore.add
      merkle show ingest/saltgauge/store.py --lines 10:40
    """
    if "::" in node and lines != (None, None):
        raise click.UsageError("give a symbol or --lines, not both.")
    with open_workspace(options) as workspace:
        meant = node_from_here(options, workspace, node)
        document = workspace.show(meant, first=lines[0], last=lines[1])
    if options.json:
        print_json(document)
    else:
        print_text(_text(document))
    return ExitCode.FINE


def _text(document: SourceDocument) -> str:
    first, last = document["lines"]
    name = f"::{on_screen(document['symbol'])}" if document["symbol"] else ""
    heading = click.style(path(document["path"]) + name, bold=True)
    about = f"  lines {first}-{last} of {document['line_count']}"
    about += f"  node {short(document['node_id'])}  {document['freshness']}"
    if document["masked"]:
        about += f"  {document['masked']} masked"
    width = len(str(last))
    shown = [
        click.style(f"{number:>{width}}", dim=True) + "  " + on_screen(line).replace("\\x09", "\t")
        for number, line in enumerate(document["content"].split("\n")[:-1], first)
    ]
    others = document["others"]
    if others:
        shown.append(f"also defined in line {', '.join(map(str, others))}")
    return "\n".join([heading + about, *shown])
