"""`merkle put-frame`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO, Final

import click

from indexer.cli.columns import path, short
from indexer.cli.frame_text import freshness
from indexer.cli.here import from_here
from indexer.cli.nodes import node_name
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, allow_secrets, merkle_command, plain_text
from indexer.cli.output import show
from indexer.errors import ExitCode, UsageError

LONGEST: Final = 1 << 20
"""Bytes of the longest frame there can be; more is not even read."""


class ContentError(UsageError):
    """What was given to be stored is no text, or too much of it."""

    code = "frame_refused"


def _meta(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in value:
        plain_text(ctx, param, pair)
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{pair!r} is not of the form K=V", ctx, param)
        if key in found:
            raise click.BadParameter(f"{key} is given twice", ctx, param)
        found[key] = text
    return found


@merkle_command("put-frame")
@click.argument("node", metavar="NODE", callback=node_name)
@click.argument("file", metavar="FILE", type=click.File("rb"))
@click.option(
    "--type",
    "frame_type",
    metavar="T",
    required=True,
    callback=plain_text,
    help="What kind of frame it is, such as note or review.",
)
@click.option(
    "--agent", metavar="A", required=True, callback=plain_text, help="Who writes it, registered."
)
@click.option(
    "--seen",
    metavar="NODEID",
    callback=plain_text,
    help="The node's id when its author read it; the frame is stale at once if that has changed.",
)
@click.option(
    "--on",
    metavar="WHAT",
    callback=plain_text,
    help="What the frame stays fresh with: content (the default for files), listing (for"
    " folders), or a generated frame type such as outline.",
)
@click.option(
    "--meta", metavar="K=V", multiple=True, callback=_meta, help="Keep a value with it, by name."
)
@allow_secrets
def command(
    options: Globals,
    node: str,
    file: BinaryIO,
    frame_type: str,
    agent: str,
    seen: str | None,
    on: str | None,
    meta: dict[str, str],
    allow_secrets: bool,
) -> int:
    """Write a frame about a file or folder, bound to what its author read.

    FILE holds UTF-8 text, at most 1 MiB; - reads standard input. The frame goes stale when
    what it is bound to changes. The same frame written twice is one frame.

    \b
    Examples:
      merkle agent add alice --role writer
      merkle put-frame src/main.py review.md --type review --agent alice
      echo "Start here." | merkle put-frame src - --type note --agent alice --on listing
    """
    content = _text_of(file)
    with open_workspace(options) as workspace:
        document = workspace.put_frame(
            from_here(options, node),
            content,
            frame_type=frame_type,
            agent=agent,
            seen=seen,
            on=on,
            meta=meta,
            allow_secrets=allow_secrets,
        )
    show(options, document, _text)
    return ExitCode.FINE


def _text_of(file: BinaryIO) -> str:
    raw = file.read(LONGEST + 1)
    if len(raw) > LONGEST:
        raise ContentError(
            f"the content has more than {LONGEST} bytes, the most that a frame holds",
            hint="say less, or split it over several types",
        )
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ContentError(
            f"the content is not UTF-8 text: byte 0x{raw[error.start]:02x} at offset {error.start}",
            hint="a frame holds text; convert it first",
        ) from None


def _text(document: Mapping[str, Any]) -> str:
    done = "stored" if document["created"] else "already stored"
    return f"{done} {short(document['frame_id'])} on {path(document['path'])}: " + freshness(
        document
    )
