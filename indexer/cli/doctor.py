"""`merkle doctor`."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypedDict

import click

from indexer.cli.columns import pad
from indexer.cli.index_checks import examine, owned, read_everything
from indexer.cli.machine_checks import (
    Check,
    check_file_system,
    check_git,
    check_inotify,
    check_packages,
    check_python,
    check_space,
)
from indexer.cli.opening import refuse_beside_service, root_of
from indexer.cli.options import Globals, merkle_command
from indexer.cli.output import print_json, print_text
from indexer.core.paths import on_screen
from indexer.errors import CorruptError, ExitCode
from indexer.store.layout import Layout, read_format

_COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}
_NAME: Final = 14


class _DoctorDocument(TypedDict):
    checks: list[dict[str, Any]]
    healthy: bool


class DoctorDocument(_DoctorDocument, total=False):
    """Result of `doctor`; `quarantined` where that was asked for."""

    quarantined: list[str]


@merkle_command("doctor", gives=(DoctorDocument,))
@click.option(
    "--quarantine",
    is_flag=True,
    help="Put a database that cannot be read aside, in .merkle/quarantine. Deletes nothing.",
)
def command(options: Globals, quarantine: bool) -> int:
    """Look for what could be wrong with the machine or the workspace, and say what to do.

    Changes nothing, unless --quarantine is given and the database really cannot be read.
    Exit status 0: healthy; 1: something needs attention; 4: the index is damaged.

    \b
    Example:
      merkle doctor
    """
    root = root_of(options)
    moved = put_aside(root) if quarantine else []
    found = examine(root)
    checks = [
        check_python(),
        check_packages(),
        check_git(root),
        check_file_system(root),
        check_space(root),
        check_inotify(found.folders),
        *found.checks,
    ]
    if quarantine:
        checks.append(_moved(root, moved))
    document = _document(checks)
    if quarantine:
        document["quarantined"] = [os.path.relpath(path, root) for path in moved]
    if options.json:
        print_json(document)
    else:
        print_text(_text(document, quiet=options.quiet))
    if found.damaged:
        return ExitCode.CORRUPT
    return ExitCode.FINE if document["healthy"] else ExitCode.FINDINGS


def put_aside(root: Path) -> list[Path]:
    """Move a database that cannot be read into quarantine; the paths it has there now."""
    layout = Layout(root)
    recorded = read_format(root)
    refuse_beside_service(root)
    with owned(layout):
        if not layout.database.exists():
            return []
        try:
            read_everything(layout, recorded)
        except CorruptError:
            # Imported late: a package that is not installed is to be reported, not to fail from.
            from indexer.engine.durable.repair import quarantine_database

            return quarantine_database(layout)
    return []


def _moved(root: Path, moved: list[Path]) -> Check:
    if not moved:
        return Check("quarantine", "ok", "nothing to put aside")
    names = ", ".join(os.path.relpath(path, root) for path in moved)
    return Check("quarantine", "ok", f"put aside as {names}", "run `merkle repair`")


def _document(checks: list[Check]) -> DoctorDocument:
    return {
        "checks": [asdict(check) for check in checks],
        "healthy": all(check.state == "ok" for check in checks),
    }


def _text(document: DoctorDocument, *, quiet: bool) -> str:
    lines = []
    for check in document["checks"]:
        if quiet and check["state"] == "ok":
            continue
        state = click.style(f"{check['state']:4}", fg=_COLOURS[check["state"]], bold=True)
        lines.append(f"{state}  {pad(check['name'], _NAME)} {on_screen(check['message'])}")
        if check["advice"]:
            lines.append(
                f"{'':7}{'':{_NAME}}{click.style('→', fg='cyan')} {on_screen(check['advice'])}"
            )
    if not quiet:
        lines.append("healthy" if document["healthy"] else "needs attention")
    return "\n".join(lines)
