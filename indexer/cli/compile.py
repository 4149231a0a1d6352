"""`merkle compile`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from indexer.cli.columns import counted, fields
from indexer.cli.options import Globals, merkle_command
from indexer.cli.output import show
from indexer.compiler import compile_stages
from indexer.engine.documents import JsonObject
from indexer.engine.sessions.policies import agreed_plugins
from indexer.errors import ExitCode, UsageError

LONGEST: Final = 64 << 20
"""Bytes of the longest file that is read."""


class NotJsonError(UsageError):
    """A file that should hold JSON does not."""

    code = "not_json"


@merkle_command("compile")
@click.argument("events", metavar="EVENTS.json", type=click.File("rb"))
@click.option(
    "--policy",
    metavar="POLICY.json",
    type=click.File("rb"),
    help='What to keep, show and collapse: {"selection": …, "header": …, "collapse": …}.',
)
def command(options: Globals, events: BinaryIO, policy: BinaryIO | None) -> int:
    """Run the staged compiler on a stream of events.

    EVENTS.json is a list of {"kind", "turn", "payload"}; - reads standard input. An event may also
    have an "id", "pinned": true, which no limit takes out, and a "pair", whose halves stay or go
    together. The stages are RAW (an inventory), SPEC (the selection), HEADER (the messages by
    hash) and FROZEN (what was used, for replay). `seq` and `timestamp` take no part in them.
    Needs no workspace.

    \b
    Examples:
      merkle compile events.json --json
      merkle compile events.json --policy policy.json
    """
    stream = _read(events)
    rules = None if policy is None else _read(policy)
    if rules is not None and not isinstance(rules, dict):
        raise NotJsonError("the policy must be a JSON object")
    plugins = agreed_plugins(Path(options.directory or "."), rules)
    document = dict(compile_stages(stream, rules, plugins=plugins).to_json())
    show(options, document, _text)
    return ExitCode.FINE


def _read(file: BinaryIO) -> Any:
    raw = file.read(LONGEST + 1)
    name = click.format_filename(getattr(file, "name", "-"))
    if len(raw) > LONGEST:
        raise NotJsonError(f"{name} has more than {LONGEST} bytes", hint="compile it in parts")
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise NotJsonError(f"{name} is not JSON: {error}") from None


def _text(document: JsonObject) -> str:
    stages = document["stages"]
    raw, spec, frozen = stages["RAW"], stages["SPEC"], stages["FROZEN"]
    return fields(
        [
            (
                "RAW",
                f"{counted(raw['event_count'], 'event')}, {counted(raw['turn_count'], 'turn')}",
            ),
            (
                "SPEC",
                f"{len(spec['selected_ids']):,} selected, {len(spec['dropped_ids']):,} dropped",
            ),
            ("FROZEN", f"{counted(len(frozen['messages']), 'message')}, {frozen['mode']}"),
            *((name, digest) for name, digest in document["hashes"].items()),
        ]
    )
