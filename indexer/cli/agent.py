"""`merkle agent`: `add` and `list`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from indexer.cli.columns import table
from indexer.cli.opening import open_workspace
from indexer.cli.options import GlobalGroup, Globals, merkle_command, plain_text, plain_texts
from indexer.cli.output import print_json, print_text, show
from indexer.core.paths import on_screen
from indexer.engine.frames.roles import ROLES
from indexer.errors import ExitCode


@click.group("agent", cls=GlobalGroup)
def command() -> None:
    """Register agents, and list them: who may read, write and synthesize.

    \b
    Examples:
      merkle agent add alice --role writer
      merkle agent list
    """


@merkle_command("add")
@click.argument("agent_id", metavar="ID", callback=plain_text)
@click.option(
    "--role",
    type=click.Choice(ROLES),
    required=True,
    help="A reader only reads, a writer also writes frames, synthesis also has folders summed up.",
)
@click.option(
    "--can",
    metavar="C",
    multiple=True,
    callback=plain_texts,
    help="Allow only this of what the role can: read, write or synthesize. May be repeated.",
)
def add(options: Globals, agent_id: str, role: str, can: tuple[str, ...]) -> int:
    """Register an agent, or give a known one another role.

    \b
    Example:
      merkle agent add alice --role writer
    """
    with open_workspace(options) as workspace:
        document = workspace.agent_add(agent_id, role, can)
    show(options, document, _text)
    return ExitCode.FINE


@merkle_command("list", gives=("agents",))
def list_(options: Globals) -> int:
    """List every registered agent with its role and what it can do.

    \b
    Example:
      merkle agent list
    """
    with open_workspace(options) as workspace:
        document = workspace.agent_list()
    if options.json:
        print_json(document)
    else:
        print_text(_text(document) or "no agents: `merkle agent add ID --role writer` adds one")
    return ExitCode.FINE


def _text(document: Mapping[str, Any]) -> str:
    return table(
        [
            [on_screen(agent["id"]), on_screen(agent["role"]), on_screen(", ".join(agent["can"]))]
            for agent in document["agents"]
        ]
    )


command.add_command(add)
command.add_command(list_)
