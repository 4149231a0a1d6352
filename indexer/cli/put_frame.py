"""`merkle put-frame`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, BinaryIO, Final

import click

from indexer.cli.columns import path, short
from indexer.cli.frame_text import about, freshness
from indexer.cli.here import from_here, node_from_here
from indexer.cli.nodes import node_name
from indexer.cli.opening import open_workspace
from indexer.cli.options import (
    Globals,
    acting_agent,
    allow_secrets,
    merkle_command,
    named_values,
    plain_text,
    plain_texts,
)
from indexer.cli.output import show
from indexer.errors import ExitCode, UsageError

LONGEST: Final = 1 << 20
"""Bytes of the longest frame there can be; more is not even read."""

LONGEST_BATCH: Final = 32 << 20
"""Bytes of all frames that are written together, at most."""


class ContentError(UsageError):
    """What was given to be stored is no text, or too much of it."""

    code = "frame_refused"


def _meta(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, text in named_values(ctx, param, value):
        if key in found:
            raise click.BadParameter(f"{key} is given twice", ctx, param)
        found[key] = text
    return found


@merkle_command("put-frame")
@click.argument("node", metavar="[NODE[::SYMBOL]", required=False, callback=node_name)
@click.argument("file", metavar="FILE]", required=False, type=click.File("rb"))
@click.option(
    "--lines",
    metavar="FILE",
    type=click.File("rb"),
    help="Several frames in one transaction, all or nothing: one JSON object a line, with node,"
    " content, type, agent, seen, on, replaces, replace_mine and meta. What a line does not say"
    " is taken from --type and --agent.",
)
@click.option(
    "--type",
    "frame_type",
    metavar="T",
    callback=plain_text,
    help="What kind of frame it is, such as note or review.",
)
@acting_agent("Who writes it, registered.")
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
    "--replaces",
    metavar="FRAME_ID",
    multiple=True,
    callback=plain_texts,
    help="A note about the same node that this one takes the place of; can be repeated.",
)
@click.option(
    "--replace-mine",
    is_flag=True,
    help="Take the place of all notes of this type that the same agent wrote about the node.",
)
@click.option(
    "--meta", metavar="K=V", multiple=True, callback=_meta, help="Keep a value with it, by name."
)
@allow_secrets
def command(
    options: Globals,
    node: str | None,
    file: BinaryIO | None,
    lines: BinaryIO | None,
    frame_type: str | None,
    agent: str | None,
    seen: str | None,
    on: str | None,
    replaces: tuple[str, ...],
    replace_mine: bool,
    meta: dict[str, str],
    allow_secrets: bool,
) -> int:
    """Write a frame about a file, a folder or a symbol.

    It is bound to what its author read. FILE holds UTF-8 text, at most 1 MiB; - reads standard
    input. The frame goes stale when what it is bound to changes: with PATH::SYMBOL that is the
    symbol's text, wherever in the file it stands. The same frame written twice is one frame. Notes
    accumulate: a second one leaves the first as it is, unless it says that it replaces it.

    \b
    Examples:
      merkle agent add alice --role writer
      merkle put-frame ingest/saltgauge/store.py review.md --type review --agent alice
      merkle put-frame ingest/saltgauge/store.py::ReadingStore.add why.md --type note --agent alice
      echo "Start here." | merkle put-frame ingest - --type note --agent alice --on listing
      merkle put-frame docs/runbook.md review.md --type review --agent alice --replace-mine
      merkle put-frame --lines reviews.jsonl --type review --agent alice
    """
    if lines is not None:
        if file is not None or seen or on or replaces or replace_mine or meta:
            raise click.UsageError("with --lines, each line says what it is about")
        return _several(options, lines, {"type": frame_type, "agent": agent}, allow_secrets)
    if node is None or file is None:
        raise click.UsageError("give NODE and FILE, or --lines FILE")
    if frame_type is None or agent is None:
        raise click.UsageError(f"--{'type' if frame_type is None else 'agent'} is missing")
    content = text_of(file)
    with open_workspace(options) as workspace:
        document = workspace.put_frame(
            node_from_here(options, workspace, node),
            content,
            frame_type=frame_type,
            agent=agent,
            seen=seen,
            on=on,
            replaces=replaces,
            replace_mine=replace_mine,
            meta=meta,
            allow_secrets=allow_secrets,
        )
    show(options, document, _text)
    return ExitCode.FINE


def _several(
    options: Globals, lines: BinaryIO, usual: Mapping[str, str | None], allow_secrets: bool
) -> int:
    """Store what JSON lines say, all of it or nothing."""
    frames: list[object] = []
    for number, line in enumerate(text_of(lines, LONGEST_BATCH).splitlines(), 1):
        if line.strip():
            try:
                one = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ContentError(
                    f"line {number} is not JSON: {error}", hint="write one object a line"
                ) from None
            if isinstance(one, dict):
                one = {**{k: v for k, v in usual.items() if v is not None}, **one}
                if isinstance(one.get("node"), str):
                    one["node"] = from_here(options, one["node"])
            frames.append(one)
    with open_workspace(options) as workspace:
        document = workspace.put_frames(frames, allow_secrets=allow_secrets)
    show(options, document, lambda found: "\n".join(map(_text, found["frames"])))
    return ExitCode.FINE


def text_of(file: BinaryIO, longest: int = LONGEST) -> str:
    """What a stream says, refused where it is no text or too much of it."""
    raw = file.read(longest + 1)
    if len(raw) > longest:
        raise ContentError(
            f"the content has more than {longest} bytes, the most that a frame or a batch holds",
            hint="say less, or split it over several",
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
    replaced = "".join(f", replaces {short(one)}" for one in document["replaced"])
    said = f"{done} {short(document['frame_id'])} on {path(document['path'])}{about(document)}"
    return f"{said}{replaced}: {freshness(document)}"
