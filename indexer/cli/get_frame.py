"""`merkle get-frame`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from indexer.cli.columns import counted, fields, first, path
from indexer.cli.frame_text import about, body, freshness, moment
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, merkle_command, plain_text
from indexer.cli.output import show
from indexer.core.paths import on_screen
from indexer.errors import ExitCode

if TYPE_CHECKING:
    from indexer.engine.frames.read import FrameDocument


@merkle_command("get-frame")
@click.argument("frame", metavar="FRAME_ID", callback=plain_text)
def command(options: Globals, frame: str) -> int:
    """Show one frame, whole: what it says, what it was made from, and whether it still holds.

    FRAME_ID is 6 or more digits of a frame's id, as list-frames, get-node and compose show them.

    \b
    Example:
      merkle get-frame 3f9a01c2
    """
    with open_workspace(options) as workspace:
        document = workspace.get_frame(frame)
    show(options, document, lambda found: "\n".join(_lines(found)))
    return ExitCode.FINE


def _lines(document: FrameDocument) -> Iterator[str]:
    title = f"{on_screen(document['type'])} by {on_screen(document['agent'])}"
    yield click.style(f"{title}, about {path(document['path'])}{about(document)}", bold=True)
    rows = [
        ("frame", document["frame_id"]),
        ("state", freshness(document)),
        ("written", f"{moment(document['created_at'])}, {counted(document['tokens'], 'token')}"),
    ]
    rows += [("supersedes", one) for one in document["supersedes"]]
    if document["superseded_by"] is not None:
        rows.append(("superseded by", document["superseded_by"]))
    yield fields(rows, "  ")
    yield "  " + click.style("made from", dim=True)
    listed = [f"{on_screen(i['input'])}  {i['id'] or 'none'}" for i in document["inputs"]]
    yield from (f"    {line}" for line in first(listed))
    yield ""
    if document["content"] is None:
        yield click.style("  (its body was dropped by compact)", dim=True)
    else:
        yield body(document["content"])
