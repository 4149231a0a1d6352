"""What commands about code have in common: their options, and how they print."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from indexer.cli.columns import counted, path, table
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, default_of, plain_text
from indexer.cli.output import print_json, print_text
from indexer.core.paths import on_screen
from indexer.errors import ExitCode

if TYPE_CHECKING:
    from indexer.service.workspace import Workspace

SURE: Final = ("exact", "import", "unique", "name")

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

symbol_argument = click.argument("symbol", metavar="SYMBOL", callback=plain_text)


def limit_option(method: Callable[..., Any]) -> Decorator:
    """The option that bounds what a method of `Workspace` lists, with that method's default."""
    return click.option(
        "--limit",
        metavar="N",
        type=click.IntRange(1, 1_000_000),
        default=default_of(method, "limit"),
        show_default=True,
        help="Print at most N.",
    )


def sure_option(method: Callable[..., Any]) -> Decorator:
    """The option that leaves out what is less sure, with that method's default."""
    default = default_of(method, "sure")
    return click.option(
        "--sure",
        type=click.Choice(SURE),
        default=default,
        show_default=default is not None,
        help="Only what is at least so sure: said in the file itself, by an import or a declared"
        " type, by being the only symbol of that name, or by the name alone.",
    )


def show_symbols(options: Globals, ask: Callable[[Workspace], Any]) -> int:
    """Print the symbols that a question finds; exit status 1 where there are none."""
    with open_workspace(options) as workspace:
        document = ask(workspace)
    if options.json:
        print_json(document)
    else:
        print_text(table([_symbol_row(one) for one in document["symbols"]]))
        _remarks(document, "symbols")
    return ExitCode.FINE if document["symbols"] else ExitCode.FINDINGS


def show_edges(options: Globals, ask: Callable[[Workspace], Any], by: str = "path") -> int:
    """Print the edges that a question finds."""
    with open_workspace(options) as workspace:
        document = ask(workspace)
    if options.json:
        print_json(document)
    else:
        several = len({edge["target"] for edge in document["edges"]}) > 1
        print_text(table([_edge_row(one, several, by) for one in document["edges"]]))
        _remarks(document, "edges")
    return ExitCode.FINE


def _symbol_row(one: dict[str, Any]) -> list[str]:
    place = f"{path(one['path'])}:{one['line']}"
    said = on_screen(one["signature"])
    if one["doc"]:
        said += click.style(f"  {on_screen(one['doc'])}", dim=True)
    return [place, one["kind"], click.style(on_screen(one["symbol"]), bold=True), said]


def _edge_row(one: dict[str, Any], several: bool, by: str) -> list[str]:
    row = [f"{path(one['path'])}:{one['line']}", one["sure"], on_screen(one["symbol"]) or "-"]
    if "distance" in one:
        row.insert(0, str(one["distance"]))
        row.append("test" if one["test"] else "")
    if several or by == "target":
        row.append("-> " + on_screen(one["target"]))
    return row


def _remarks(document: Any, listed: str) -> None:
    left = document["found"] - len(document[listed])
    if left:
        print_text(f"and {left:,} more: --limit N shows them", err=True)
    if document["missing"]:
        files = counted(document["missing"], "file")
        print_text(
            f"{files} not read yet: `merkle regenerate` or a running service does it", err=True
        )
