"""`merkle notes`, with `export` and `import`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from indexer.cli.columns import counted, path, short
from indexer.cli.export import pack_file
from indexer.cli.frame_text import about, body, freshness, moment
from indexer.cli.here import node_from_here
from indexer.cli.nodes import node_name
from indexer.cli.opening import open_workspace
from indexer.cli.options import GlobalGroup, Globals, allow_secrets, merkle_command
from indexer.cli.output import show
from indexer.core.paths import on_screen
from indexer.errors import ExitCode

_LIST: Final = "list"


class _NotesGroup(GlobalGroup):
    """A group that lists where no other of its commands is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = next((at for at, one in enumerate(args) if one in self.commands), None)
        skipped = args if named is None else args[:named]
        is_help = any(one in ("--help", "-h") for one in skipped)
        # What stands before a command's name can only be global options.
        is_named = named is not None and all(
            one in ("--json", "--quiet") or one.startswith("-C") or args[at - 1] == "-C"
            for at, one in enumerate(skipped)
        )
        return super().parse_args(ctx, args if is_named or is_help else [_LIST, *args])


@click.group("notes", cls=_NotesGroup, subcommand_metavar="[NODE[::SYMBOL]] | COMMAND [ARGS]...")
def command() -> None:
    """List the notes there are, those that do not hold first; or keep them in a file.

    Without a command this is `merkle notes list`: all notes, or with NODE those at and below it,
    with PATH::SYMBOL those about a symbol. --stale leaves out those that hold.

    \b
    Examples:
      merkle notes
      merkle notes gateway --stale
      merkle notes export merkle.notes
    """


@merkle_command(_LIST, gives=("notes",))
@click.argument("node", metavar="[NODE[::SYMBOL]]", required=False, callback=node_name)
@click.option("--stale", is_flag=True, help="Only those that do not hold.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(0, 1_000_000),
    help="Show at most N.",
)
def list_(options: Globals, node: str | None, stale: bool, limit: int | None) -> int:
    """List notes, those that do not hold first.

    Each with its line, its author and the reason.

    \b
    Examples:
      merkle notes
      merkle notes list ingest/saltgauge/store.py --json
    """
    with open_workspace(options) as workspace:
        where = node_from_here(options, workspace, node) if node is not None else ""
        document = workspace.notes(where, stale=stale, limit=limit)
    show(options, document, lambda found: "\n".join(_lines(found, stale)))
    return ExitCode.FINE


def _lines(document: Mapping[str, Any], stale: bool) -> Iterator[str]:
    for place, note in enumerate(document["notes"]):
        if place:
            yield ""
        where = click.style(path(note["path"]) + about(note), bold=True)
        kind = "" if note["type"] == "note" else f"{on_screen(note['type'])} "
        who = f"{kind}by {on_screen(note['agent'])}, {moment(note['created_at'])}"
        yield f"{where}  {freshness(note)}"
        yield f"  {click.style(short(note['frame_id']), fg='cyan')} {who}"
        if note["content"] is not None:
            yield body(note["content"], indent="    ")
    left = document["found"] - len(document["notes"])
    if not document["found"] and stale:
        yield "no note is stale"
    elif not document["found"]:
        yield 'no notes: `merkle note PATH "what is worth knowing"` writes one'
    elif left:
        yield f"and {left:,} more"


@merkle_command("export", gives=("export-notes",))
@click.argument("file", metavar="FILE", callback=pack_file)
@click.argument("node", metavar="[NODE]", required=False, callback=node_name)
def export(options: Globals, file: str, node: str | None) -> int:
    """Write the notes to a file, a line each, to keep in the repository.

    They are sorted by path. Lines are JSON and say nothing about when they were written, so the
    same notes give the same file, and two people's notes merge as lines do.

    \b
    Example:
      merkle notes export merkle.notes
    """
    with open_workspace(options) as workspace:
        where = node_from_here(options, workspace, node) if node is not None else ""
        document = workspace.export_notes(file, where)
    show(
        options,
        document,
        lambda found: f"wrote {counted(found['notes'], 'note')} to {path(found['file'])}",
    )
    return ExitCode.FINE


@merkle_command("import", gives=("import-notes",))
@click.argument("file", metavar="FILE", callback=pack_file)
@allow_secrets
def import_(options: Globals, file: str, allow_secrets: bool) -> int:
    """Take in a file of notes, checking all of it first.

    What is known already is left as it is. Each note stays its author's. Authors whom nobody knows
    here are registered as writers, and are named; notes of agents who may only read here join the
    history and count for nothing.

    \b
    Example:
      merkle notes import merkle.notes
    """
    with open_workspace(options) as workspace:
        document = workspace.import_notes(file, allow_secrets=allow_secrets)
    show(options, document, lambda found: "\n".join(_imported(found)))
    return ExitCode.FINE


def _imported(document: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"{counted(document['notes'], 'note')} in {path(document['file'])},"
        f" {document['added']:,} of them new"
    )
    if document["registered"]:
        yield f"registered as writers: {', '.join(map(on_screen, document['registered']))}"


for one in (list_, export, import_):
    command.add_command(one)
