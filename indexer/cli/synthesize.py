"""`merkle synthesize`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from indexer.cli.columns import first, path, short
from indexer.cli.models import agreed, calls_lines, limit_options
from indexer.cli.nodes import node_name, on_nodes, place
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, merkle_command, plain_text
from indexer.cli.progress import frame_progress
from indexer.cli.signals import ends_politely
from indexer.engine.documents import JsonObject
from indexer.errors import ExitCode


@merkle_command("synthesize")
@click.argument("node", metavar="NODE", callback=node_name)
@click.option(
    "--type",
    "frame_type",
    metavar="T",
    required=True,
    callback=plain_text,
    help="The frame type to make: a declared one, or one that agents write; * takes them all.",
)
@click.option(
    "--policy",
    metavar="P",
    callback=plain_text,
    help="Make folder frames by this policy instead of the declared one, or of concatenate.",
)
@click.option(
    "--agent",
    metavar="A",
    callback=plain_text,
    help="On behalf of this agent, who must be able to.",
)
@limit_options
def command(
    options: Globals,
    node: str,
    frame_type: str,
    policy: str | None,
    agent: str | None,
    max_calls: int | None,
    max_cost: float | None,
    yes: bool,
) -> int:
    """Make the frames of a folder, children first, in or outside the declared scope.

    What is fresh stays, and nothing is computed twice for the same inputs. Of a type that is not
    declared, folders' frames are made from what agents wrote, once: they are not kept up to date,
    and are shown as unmanaged. NODE - reads names from standard input. Exit status 1: some frames
    could not be made.

    \b
    Example:
      merkle synthesize src --type outline
      merkle synthesize src --type review --policy concatenate
    """
    with (
        ends_politely(),
        open_workspace(options) as workspace,
        frame_progress(options) as progress,
    ):

        def synthesize(name: str) -> JsonObject:
            return agreed(
                lambda sure: workspace.synthesize(
                    name,
                    frame_type=frame_type,
                    policy=policy,
                    agent=agent,
                    progress=progress,
                    max_calls=max_calls,
                    max_cost=max_cost,
                    yes=sure,
                ),
                yes=yes,
                may_ask=not options.json,
            )

        return on_nodes(
            options, node, synthesize, lambda name, found: _text(options, name, found), _verdict
        )


def _verdict(document: Mapping[str, Any]) -> ExitCode:
    left = _failed(document) or document.get("stopped")
    return ExitCode.FINDINGS if left else ExitCode.FINE


def _failed(document: Mapping[str, Any]) -> list[str]:
    return [event["path"] for event in document["events"] if event["action"] == "failed"]


def _text(options: Globals, node: str, document: Mapping[str, Any]) -> str:
    if options.quiet:
        return ""
    done = f"{document['generated']:,} made, {document['reused']:,} reused"
    lines = [f"{place(node)}: {done}, frame {short(document['frame_id'])}"]
    failed = [path(each) for each in _failed(document)]
    lines += [f"{click.style('failed', fg='red')}  {each}" for each in first(failed)]
    return "\n".join([*lines, *calls_lines(document, quiet=False)])
