"""`merkle sql`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from indexer.cli.columns import table
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, default_of, merkle_command, plain_text
from indexer.cli.output import print_json, print_text
from indexer.core.paths import on_screen
from indexer.errors import ExitCode, UsageError
from indexer.service.workspace import Workspace

if TYPE_CHECKING:
    from indexer.engine.search.sql import SqlDocument


@merkle_command("sql")
@click.argument("query", callback=plain_text)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 10_000_000),
    default=default_of(Workspace.sql, "limit"),
    show_default=True,
    help="Print at most N rows.",
)
@click.option(
    "--timeout",
    metavar="S",
    type=click.FloatRange(0.001, 86_400),
    default=default_of(Workspace.sql, "timeout"),
    show_default=True,
    help="Give up after S seconds.",
)
def command(options: Globals, query: str, limit: int, timeout: float) -> int:
    """Ask the index a question in SQL: one SELECT, which can change nothing.

    The views are nodes (path, kind, node_id, content_id, size, seq), changes (seq, path,
    change, kind, old_content_id, new_content_id), roots (seq, root, content_id, at, cause and
    counts), frames (seq, frame_id, path, type, agent, basis, content_sha256, node_id,
    created_at, meta), heads (path, type, agent, frame_id, basis, action, seq), basis (basis,
    frame_ids) and symbols (path, symbol, name, kind, signature, doc, line, end_line, first_byte,
    last_byte, sha256). QUERY - reads the query from standard input.

    \b
    Example:
      merkle sql "SELECT path, size FROM nodes WHERE kind = 'file' ORDER BY size DESC LIMIT 5"
    """
    with open_workspace(options) as workspace:
        document = workspace.sql(_stdin() if query == "-" else query, limit=limit, timeout=timeout)
    if options.json:
        print_json(document)
        return ExitCode.FINE
    print_text(_text(document))
    if document["truncated"]:
        print_text(f"only the first {limit:,} rows: --limit N shows more", err=True)
    return ExitCode.FINE


def _stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise UsageError("the query is not UTF-8") from None


def _text(document: SqlDocument) -> str:
    head = [click.style(_cell(name), bold=True) for name in document["columns"]]
    numbers = frozenset(
        place
        for place in range(len(head))
        if all(_is_number(row[place]) for row in document["rows"])
    )
    return table(
        [head, *([_cell(value) for value in row] for row in document["rows"])], right=numbers
    )


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    return on_screen(str(value)).replace("\t", "\\x09")
