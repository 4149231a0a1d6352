"""`merkle compact`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from indexer.cli.columns import counted
from indexer.cli.durations import duration
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, merkle_command
from indexer.cli.output import show
from indexer.errors import ExitCode


@merkle_command("compact")
@click.option(
    "--keep",
    metavar="TIME",
    callback=duration,
    help="Keep only bodies younger than TIME (10m, 2h, 30d), not all that kept roots have.",
)
def command(options: Globals, keep: float | None) -> int:
    """Forget old roots and old generated frames, and make the index file smaller.

    How many roots are kept is set by `history.keep` and `history.keep_count` in merkle.toml.
    What agents and models wrote is never dropped, nor what a recorded context or a session names;
    sessions that were deleted go for good. A service compacts by itself when it has nothing else
    to do and the index has grown, and leaves those alone.

    \b
    Examples:
      merkle compact
      merkle compact --keep 7d
    """
    with open_workspace(options) as workspace:
        document = workspace.compact(keep)
    show(options, document, _text)
    return ExitCode.FINE


def _text(document: Mapping[str, Any]) -> str:
    dropped = counted(document["dropped"], "body", "bodies")
    text = f"dropped {dropped}, kept {document['kept']:,}"
    repeated = counted(document["repeated_heads"], "repeated row", "repeated rows")
    if document["repeated_heads"]:
        text += f"; dropped {repeated} of heads"
    if document["purged_sessions"]:
        text += f"; let {counted(document['purged_sessions'], 'deleted session')} go for good"
    roots, frames = document["forgotten_roots"], document["forgotten_frames"]
    if roots or frames:
        text += f"; forgot {counted(roots, 'root')} and {counted(frames, 'frame')}"
    before, after = document["bytes_before"], document["bytes_after"]
    return f"{text}\nthe index had {before:,} bytes and has {after:,}"
