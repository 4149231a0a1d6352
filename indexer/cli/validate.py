"""`merkle validate`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from indexer.cli.columns import counted, first, path, short
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, merkle_command, plain_text
from indexer.cli.output import print_json, print_text
from indexer.cli.reports import github, junit
from indexer.core.paths import on_screen
from indexer.errors import ExitCode

if TYPE_CHECKING:
    from indexer.engine.durable.validate import FindingDocument, ValidateDocument


def _subset(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    if value is None:
        return None
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", value, re.ASCII)
    if match is None or not 1 <= int(match.group(1)) <= int(match.group(2)):
        raise click.BadParameter("give a part and the number of parts, such as 1/7", ctx, param)
    return int(match.group(1)), int(match.group(2))


@merkle_command("validate")
@click.option("--content", is_flag=True, help="Also read every file and compare it.")
@click.option(
    "--subset",
    metavar="N/T",
    callback=_subset,
    help="Read the N-th of T parts of the files only; all T parts together are --content.",
)
@click.option(
    "--expect-root",
    metavar="ID",
    callback=plain_text,
    help="Fail unless this is the recorded root (6 or more digits).",
)
@click.option(
    "--locked", is_flag=True, help="Also compare the files as they are now with merkle.lock."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "junit", "github"]),
    default="text",
    show_default=True,
    help="How to print the findings.",
)
def command(
    options: Globals,
    content: bool,
    subset: tuple[int, int] | None,
    expect_root: str | None,
    locked: bool,
    form: str,
) -> int:
    """Check every invariant of the index; with --content also the disk against it.

    Where search terms are kept for more than 2,000 frame bodies, those of an even sample of 2,000
    are made again and compared; so are symbols, uses and search terms of an even sample of 200
    files. How many that were is said. Everything else is checked whole.

    Changes nothing. --locked names the files that are not as merkle.lock has them; where they are
    as they should be, `merkle lock` writes it anew.
    Exit status 0: valid; 1: the disk, the lock or the root differs; 3: something could not be
    checked; 4: what is stored contradicts itself.

    \b
    Example:
      merkle validate --content --format github
    """
    with open_workspace(options) as workspace:
        document = workspace.validate(
            content=content, subset=subset, expect_root=expect_root, locked=locked
        )
    if options.json or form == "json":
        print_json(document)
    elif form == "junit":
        click.echo(junit(document).encode())
    elif form == "github":
        print_text(github(document))
    else:
        print_text(_text(document, quiet=options.quiet))
    return _exit_code(document)


def _exit_code(document: ValidateDocument) -> ExitCode:
    if any(_is_about_the_store(finding["code"]) for finding in document["errors"]):
        return ExitCode.CORRUPT
    if document["errors"]:
        return ExitCode.FINDINGS
    return ExitCode.UNCHECKED if document["unchecked"] else ExitCode.FINE


def _is_about_the_store(code: str) -> bool:
    return not (code.startswith(("disk_", "lock_")) or code == "unexpected_root")


def _text(document: ValidateDocument, *, quiet: bool) -> str:
    found = [
        *_lines("error", "red", document["errors"]),
        *_lines("unchecked", "magenta", document["unchecked"]),
    ]
    if quiet:
        return "\n".join(found)
    if any(finding["code"].startswith("lock_") for finding in document["errors"]):
        told = "if the files are as they should be, run `merkle lock` and commit merkle.lock"
        found.append(click.style("hint:", fg="cyan") + f" {told}")
    found += _lines("warning", "yellow", document["warnings"])
    nodes = counted(document["node_count"], "node")
    verdict = (
        click.style("valid", fg="green", bold=True)
        if document["valid"]
        else click.style("not valid", fg="red", bold=True)
        if document["errors"]
        else click.style("not checked in full", fg="magenta", bold=True)
    )
    found.append(f"{verdict}: root {short(document['root'])}, {nodes}")
    if document["files_known"]:
        of = counted(document["files_known"], "file")
        found.append(f"symbols, uses and words compared of {document['files_checked']:,} of {of}")
    found.append(click.style(on_screen(document["note"]), dim=True))
    return "\n".join(found)


def _lines(word: str, fg: str, findings: Iterable[FindingDocument]) -> list[str]:
    lines = [
        f"{click.style(word, fg=fg)} {path(finding['path'])}: {on_screen(finding['message'])}"
        f" {click.style('[' + finding['code'] + ']', dim=True)}"
        for finding in findings
    ]
    return list(first(lines))
