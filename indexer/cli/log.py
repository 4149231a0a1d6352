"""`merkle log`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from indexer.cli.columns import short, table
from indexer.cli.frame_text import moment
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, default_of, merkle_command
from indexer.cli.output import print_json, print_text
from indexer.core.paths import on_screen
from indexer.engine.tree.lost import lost_text
from indexer.errors import ExitCode
from indexer.service.workspace import Workspace

if TYPE_CHECKING:
    from indexer.engine.tree.history import LogDocument, RootDocument
    from indexer.engine.tree.lost import LostDocument


@merkle_command("log")
@click.option(
    "-n",
    "limit",
    metavar="N",
    type=click.IntRange(1, 1_000_000),
    default=default_of(Workspace.log, "limit"),
    show_default=True,
    help="Show at most N roots.",
)
def command(options: Globals, limit: int) -> int:
    """List the recorded roots, newest first.

    Every batch of changes records one root. The first column is what `merkle diff` takes. In the
    changes + is added, ~ modified, - removed and → renamed; what was renamed is also counted as
    removed and added, with everything below it.

    \b
    Example:
      merkle log -n 5
    """
    with open_workspace(options) as workspace:
        document = workspace.log(limit)
    if options.json:
        print_json(document)
    else:
        print_text(_text(document))
    return ExitCode.FINE


def _text(document: LogDocument) -> str:
    roots = document["roots"]
    if not roots:
        return "nothing recorded yet: run `merkle scan`"
    head = ["", "root", "at (UTC)", "cause", "changes", "nodes"]
    rows = [_row(place, root) for place, root in enumerate(roots)]
    shown = table([[click.style(name, dim=True) for name in head], *rows], right=frozenset({5}))
    return "\n".join([shown, *lost_lines(document["lost"])])


def lost_lines(lost: list[LostDocument]) -> Iterator[str]:
    """What was recorded and is gone, a line each."""
    for each in lost:
        when, last = moment(each["noticed_at"]), short(each["root"])
        yield f"{lost_text(each['first'], each['last'])} (noticed {when}); the last was {last}"


def _row(place: int, root: RootDocument) -> list[str]:
    return [
        click.style(f"@-{place}", fg="cyan"),
        short(root["root"]),
        moment(root["at"]),
        on_screen(root["cause"]),
        _counts(root),
        f"{root['nodes']:,}",
    ]


def _counts(root: RootDocument) -> str:
    counts = (
        ("+", root["added"], "green"),
        ("~", root["modified"], "yellow"),
        ("-", root["removed"], "red"),
        ("→", root["renamed"], "cyan"),
    )
    return " ".join(click.style(f"{sign}{number}", fg=fg) for sign, number, fg in counts if number)
