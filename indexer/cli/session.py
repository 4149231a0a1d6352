"""`merkle session`: conversations as context trees with snapshots, selectors and diffs."""

from __future__ import annotations

import click

from indexer.cli import (
    session_files,
    session_keeping,
    session_messages,
    session_reads,
    session_writes,
)
from indexer.cli.options import GlobalGroup


@click.group("session", cls=GlobalGroup)
def command() -> None:
    """Keep conversations as trees with snapshots, selectors and diffs.

    A block is added to the active head; a commit seals it as a turn and makes a snapshot. @t0
    is the last snapshot, @t-1 the one before, @c3 that of cycle 3, and @w the work in progress.

    \b
    Examples:
      merkle session new review --budget 8000 --on-budget reject
      merkle session append review --type dialogue --role user --text "What changed?"
      merkle session commit review
      merkle session select review "@t0 .mt:last .cb"
      merkle session render review @w
    """


for _part in (
    session_writes.new,
    session_messages.append,
    session_messages.edit,
    session_writes.set_,
    session_writes.annotate,
    session_writes.commit,
    session_writes.move,
    session_writes.remove,
    session_writes.group,
    session_writes.attempt,
    session_reads.select,
    session_reads.diff,
    session_reads.render,
    session_reads.compile_,
    session_reads.tree,
    session_writes.budget,
    session_files.pull,
    session_files.export,
    session_files.import_,
    session_keeping.log,
    session_keeping.fork,
    session_keeping.merge,
    session_keeping.rename,
    session_keeping.delete,
    session_keeping.restore,
    session_reads.list_,
    session_reads.show_,
):
    command.add_command(_part)
