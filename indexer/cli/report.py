"""`merkle report`."""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypedDict

import click

from indexer.cli.columns import path, short
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, merkle_command, plain_text
from indexer.cli.output import show
from indexer.cli.report_html import html_report
from indexer.cli.report_markdown import markdown_report
from indexer.engine.documents import JsonObject
from indexer.errors import ExitCode, UncheckedError
from indexer.store.atomic import write_atomically

_FORMS: Final = {".html": "html", ".htm": "html", ".md": "markdown", ".markdown": "markdown"}
_STDOUT: Final = "-"


class ReportedDocument(TypedDict):
    """Result of `report`: what was written, and the gist of it."""

    file: str
    format: str
    root: str | None
    base: str | None
    state: str
    coverage: JsonObject


@merkle_command("report", gives=(ReportedDocument,))
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "--base",
    metavar="ROOT",
    callback=plain_text,
    help="Also tell what changed since this recorded root (its digits, or @-N).",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "markdown"]),
    help="How to write it; otherwise the file's name decides, and Markdown goes to stdout.",
)
def command(options: Globals, file: str, base: str | None, form: str | None) -> int:
    """Write the state of the workspace as one HTML or Markdown file. FILE - is stdout.

    Root, coverage, freshness, changes since a base root, and a map of the files. The file needs
    nothing beside it, holds no script and no time: the same state gives the same bytes. Exit
    status 3: it was written, but the disk could not be compared with the index.

    \b
    Examples:
      merkle report report.html --base @-1
      merkle report - --format markdown >> "$GITHUB_STEP_SUMMARY"
    """
    form = form or _form(file)
    if file == _STDOUT and options.json:
        raise click.UsageError("--json and a report on stdout exclude each other.")
    with open_workspace(options) as workspace:
        document = workspace.report(base)
    text = html_report(document) if form == "html" else markdown_report(document)
    if file == _STDOUT:
        click.echo(text.encode(), nl=False)
    else:
        write_whole(Path(file), text.encode())
        show(options, _told(file, form, document), _text)
    checked = document["state"] in ("current", "stale") and not document["unreadable"]
    return ExitCode.FINE if checked else ExitCode.UNCHECKED


def _form(file: str) -> str:
    if file == _STDOUT:
        return "markdown"
    form = _FORMS.get(os.path.splitext(file)[1].lower())
    if form is None:
        raise click.UsageError("The name does not tell the format; give --format.")
    return form


def _told(file: str, form: str, document: Mapping[str, Any]) -> ReportedDocument:
    return {
        "file": file,
        "format": form,
        "root": document["root"],
        "base": document["base"],
        "state": document["state"],
        "coverage": document["coverage"],
    }


def _text(document: ReportedDocument) -> str:
    covered = document["coverage"]["fresh_pct"]
    return (
        f"wrote {path(document['file'])}: root {short(document['root'])}, {document['state']}, "
        f"{covered} % of nodes covered"
    )


def write_whole(target: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old one or the new one; a device is written to."""
    try:
        if target.exists() and not modes.S_ISREG(target.stat().st_mode):
            target.write_bytes(content)
            return
        # The file itself, where its name is a link to it.
        target = Path(os.path.realpath(target))
        write_atomically(target, content)
    except OSError as error:
        raise UncheckedError(
            f"cannot write {path(str(target))}: {error.strerror or error}", hint="name another file"
        ) from error
