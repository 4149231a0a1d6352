"""`merkle synthesize`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from indexer.cli.columns import short
from indexer.cli.models import agreed, calls_lines, limit_options
from indexer.cli.nodes import node_name, on_nodes, place
from indexer.cli.opening import open_workspace
from indexer.cli.options import (
    Globals,
    acting_agent,
    json_or_text,
    merkle_command,
    named_values,
    plain_text,
)
from indexer.cli.regenerate import failed_lines, made_text, verdict
from indexer.cli.signals import ends_politely


def _options(
    ctx: click.Context, param: click.Parameter, value: tuple[str, ...]
) -> dict[str, object]:
    """What was given by name: numbers, true, false and lists as JSON has them, the rest as text."""
    found: dict[str, object] = {}
    for key, text in named_values(ctx, param, value):
        one = json_or_text(text)
        if key in found:
            before = found[key]
            one = [*(before if isinstance(before, list) else [before]), one]
        found[key] = one
    return found


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
    "--option",
    "given",
    metavar="K=V",
    multiple=True,
    callback=_options,
    help="An option of the policy, as merkle.toml has it: match=risk, max_tokens=200,"
    ' include=["*.py"]. Given twice, a list of both.',
)
@acting_agent("On behalf of this agent, who must be able to.")
@limit_options
def command(
    options: Globals,
    node: str,
    frame_type: str,
    policy: str | None,
    given: dict[str, object],
    agent: str | None,
    max_calls: int | None,
    max_cost: float | None,
    yes: bool,
) -> int:
    """Make the frames of a folder, children first, in or outside the declared scope.

    What is fresh stays, and nothing is computed twice for the same inputs. Of a type that is not
    declared, folders' frames are made from what agents wrote, once: nothing makes them again by
    itself, and they are stale when something below changes. NODE - reads names from standard
    input. Exit status 1: some frames could not be made.

    \b
    Example:
      merkle synthesize ingest --type outline
      merkle synthesize ingest --type review --policy filter --option match=risk
    """
    with ends_politely(), open_workspace(options) as workspace:

        def synthesize(name: str) -> Mapping[str, Any]:
            return agreed(
                lambda sure: workspace.synthesize(
                    name,
                    frame_type=frame_type,
                    policy=policy,
                    options=given or None,
                    agent=agent,
                    max_calls=max_calls,
                    max_cost=max_cost,
                    yes=sure,
                ),
                yes=yes,
                may_ask=not options.json,
            )

        return on_nodes(
            options,
            workspace,
            node,
            synthesize,
            lambda name, found: _text(options, name, found),
            verdict,
        )


def _text(options: Globals, node: str, document: Mapping[str, Any]) -> str:
    lines = failed_lines(document)
    if not options.quiet:
        done = made_text(document["generated"], document["reused"])
        made = f", frame {short(document['frame_id'])}" if document["frame_id"] else ""
        lines.insert(0, f"{place(node)}: {done}{made}")
    return "\n".join([*lines, *calls_lines(document, quiet=options.quiet)])
