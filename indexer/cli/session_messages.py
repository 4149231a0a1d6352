"""`merkle session append` and `edit`: what is said."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final

import click

from indexer.cli.columns import counted, short
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, allow_secrets, merkle_command, plain_text, plain_texts
from indexer.cli.output import show
from indexer.cli.session_options import (
    DIRECTIONS,
    FORMATS,
    REGIONS,
    STATUSES,
    TYPES,
    Function,
    by_agent,
    json_object,
    pairs,
    parsed_object,
    session_name,
    warned,
)
from indexer.core.paths import on_screen
from indexer.errors import ExitCode, UsageError

LONGEST: Final = 1 << 20
"""Bytes of the longest content there can be; more is not even read."""


class SourceError(UsageError):
    """What is to be said was given in no way, in two, or is no text."""

    code = "E_CONTENT_INVALID"


def _options(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Several options as one decorator."""

    def declare(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return declare


content_options = _options(
    click.option("--role", metavar="R", callback=plain_text, help="Who says it."),
    click.option(
        "--name",
        "label",
        metavar="N",
        callback=plain_text,
        help="The name of who says it, of the tool, or of the kind of artifact.",
    ),
    click.option("--text", metavar="T", callback=plain_text, help="What it says."),
    click.option(
        "--file", metavar="FILE", type=click.File("rb"), help="Read the text; - reads stdin."
    ),
    click.option(
        "--payload", metavar="JSON", callback=json_object, help="What it says, as a JSON object."
    ),
    click.option("--ttl", metavar="N", type=click.IntRange(min=0), help="Cycles until it goes."),
    click.option("--priority", metavar="N", type=int, help="Lower goes first when pruning."),
    click.option("--id", "id", metavar="ID", callback=plain_text, help="Its id, not used before."),
    click.option("--message", metavar="M", callback=plain_text, help="A note beside the commit."),
    click.option(
        "--metadata", metavar="JSON", callback=json_object, help="Values beside the commit."
    ),
    allow_secrets,
    by_agent,
)


@merkle_command("append")
@session_name
@click.option("--type", "type", type=click.Choice(TYPES), help="What kind it is.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Instead: the payload is one message of this provider.",
)
@content_options
@click.option("--direction", type=click.Choice(DIRECTIONS), help="Of a tool: asked, or answered.")
@click.option(
    "--call-id", metavar="ID", callback=plain_text, help="What a call and its result share."
)
@click.option("--status", type=click.Choice(STATUSES), help="How a tool's call ended.")
@click.option("--region", type=click.Choice(REGIONS), help="System blocks, or the active head.")
@click.option("--parent", metavar="ID", callback=plain_text, help="The node to hang it under.")
@click.option(
    "--offset", metavar="N", type=int, help="Before the core (below 0), in it, or after it."
)
@click.option("--node-type", metavar="T", callback=plain_text, help="Such as cb:summary.")
@click.option("--kind", metavar="K", callback=plain_text, help="Its modality, else by its type.")
@click.option(
    "--ref",
    "references",
    metavar="ID",
    multiple=True,
    callback=plain_texts,
    help="A node that must stay as long as this one does. May be repeated.",
)
@click.option(
    "--attr",
    "attributes",
    metavar="K=V",
    multiple=True,
    callback=pairs,
    help="A namespaced attribute such as data_source=web. May be repeated.",
)
def append(
    options: Globals,
    name: str,
    form: str | None,
    file: BinaryIO | None,
    text: str | None,
    **values: Any,
) -> int:
    """Add a block to a session, or a message of a provider.

    An instruction goes to the system blocks, everything else to the active head, unless told
    otherwise. Exactly one of --text, --file and --payload says what the block holds. With --format
    the payload is a whole message, calls and results included; `compile --format` gives it back.

    \b
    Examples:
      merkle session append review --type instruction --text "Answer briefly."
      merkle session append review --type dialogue --role user --text "What changed?"
      merkle session append review --type tool_io --name grep --payload '{"hits": 3}' --ttl 2
      merkle session append review --format openai --payload '{"role": "user", "content": "Hi"}'
    """
    said = _said(text, file, values["payload"])
    if (form is None) == (values["type"] is None):
        raise SourceError("give either --type or --format")
    if form is not None:
        return _append_message(options, name, form, said, values)
    values["attributes"] = values["attributes"] or None
    with open_workspace(options) as workspace:
        document = workspace.session_append(name, text=said, **values)
    return _told(options, document)


def _append_message(
    options: Globals, name: str, form: str, said: str | None, values: dict[str, Any]
) -> int:
    own = ("payload", "allow_secrets", "agent")
    if given := [key for key, value in values.items() if value and key not in own]:
        raise SourceError(f"--{given[0].replace('_', '-')} says nothing about a whole message")
    message = values["payload"] if said is None else parsed_object(said)
    with open_workspace(options) as workspace:
        document = workspace.session_append_message(
            name,
            message,
            form=form,
            allow_secrets=values["allow_secrets"],
            agent=values["agent"],
        )
    show(options, document, _message_text)
    if not options.json:
        warned(document["warnings"])
    return ExitCode.FINE


def _message_text(document: Mapping[str, Any]) -> str:
    size = counted(document["tokens"], "token")
    blocks = counted(len(document["ids"]), "block")
    where = f"cycle {document['cycle']}, {document['live_tokens']:,} live"
    return "\n".join([*map(on_screen, document["ids"]), f"{blocks}, {size} ({where})"])


@merkle_command("edit")
@session_name
@click.argument("target", metavar="TARGET", callback=plain_text)
@click.option("--type", "type", type=click.Choice(TYPES), help="Another kind than it had.")
@content_options
def edit(
    options: Globals,
    name: str,
    target: str,
    file: BinaryIO | None,
    text: str | None,
    **values: Any,
) -> int:
    """Replace what a block says, from now on; what it said stays where it is.

    TARGET is the id of a block, a commit's hash, or 6 or more digits of one. `compile` reads the
    newest edit; `render` shows both.

    \b
    Example:
      merkle session edit review 3f9a21 --text "What changed since Monday?"
    """
    said = _said(text, file, values["payload"])
    with open_workspace(options) as workspace:
        document = workspace.session_edit(name, target, text=said, **values)
    return _told(options, document)


def _said(text: str | None, file: BinaryIO | None, payload: Mapping[str, Any] | None) -> str | None:
    if sum(each is not None for each in (text, file, payload)) != 1:
        raise SourceError("give exactly one of --text, --file and --payload")
    if file is None:
        return text
    raw = file.read(LONGEST + 1)
    if len(raw) > LONGEST:
        raise SourceError(f"the content has more than {LONGEST} bytes, the most a block holds")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise SourceError(
            f"the content is not UTF-8 text: byte 0x{raw[error.start]:02x} at {error.start}"
        ) from None


def _told(options: Globals, document: Mapping[str, Any]) -> int:
    show(options, document, _text)
    if not options.json:
        warned(document["warnings"])
    return ExitCode.FINE


def _text(document: Mapping[str, Any]) -> str:
    size = counted(document["tokens"], "token")
    live, ever = document["live_tokens"], document["total_tokens"]
    where = f"cycle {document['cycle']}, {live:,} live, {ever:,} in all"
    return f"{on_screen(document['id'])}  commit {short(document['commit'])}, {size} ({where})"
