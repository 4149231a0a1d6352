"""`merkle init`."""

from __future__ import annotations

from typing import Any

import click

from indexer.cli.columns import path
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, merkle_command
from indexer.cli.output import show
from indexer.errors import ExitCode


@merkle_command("init")
@click.option(
    "--hash",
    "hash_name",
    metavar="NAME",
    type=click.Choice(["xxh3_128", "sha256"]),
    help="Hash for all ids: xxh3_128 (the default, fast) or sha256 (also withstands forgery).",
)
def command(options: Globals, hash_name: str | None) -> int:
    """Make the workspace's own folder, .merkle.

    It ignores itself, so no repository has to mention it. The hash is chosen once: xxh3_128
    detects accidents, sha256 also withstands files written on purpose to collide. A first
    `merkle scan` does the same with the default; repeating it is harmless.

    \b
    Example:
      merkle init --hash sha256
    """
    with open_workspace(options) as workspace:
        show(options, workspace.init(hash_name), _text)
    return ExitCode.FINE


def _text(document: dict[str, Any]) -> str:
    done = "Initialised" if document["created"] else "Already initialised:"
    return f"{done} {path(document['workspace'])} (hash {document['hash']})"
