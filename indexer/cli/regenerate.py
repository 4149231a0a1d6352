"""`merkle regenerate`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from indexer.cli.columns import counted, path, remarks, table
from indexer.cli.models import agreed, calls_lines, limit_options, totals_lines
from indexer.cli.nodes import STDIN, node_name, on_nodes, place
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, acting_agent, merkle_command, plain_text
from indexer.cli.signals import ends_politely
from indexer.core import paths
from indexer.core.paths import on_screen
from indexer.engine.documents import JsonObject
from indexer.errors import ExitCode


@merkle_command("regenerate")
@click.argument("node", metavar="[NODE]", default="", callback=node_name)
@click.option(
    "--type", "frame_type", metavar="T", callback=plain_text, help="Only frames of this type."
)
@click.option(
    "--recursive", is_flag=True, help="Also everything below a folder; always so for the root."
)
@click.option(
    "--plan", is_flag=True, help="Only tell what would be made, why, and what models would cost."
)
@acting_agent("Who asks for it, a registered writer; kept beside the frames.")
@limit_options
def command(
    options: Globals,
    node: str,
    frame_type: str | None,
    recursive: bool,
    plan: bool,
    agent: str | None,
    max_calls: int | None,
    max_cost: float | None,
    yes: bool,
) -> int:
    """Make generated frames again where they are stale, in the declared scopes.

    NODE is the whole workspace unless given; NODE - reads names from standard input, one a line.
    A folder's frame is made from those below it: while one of them is stale, only --recursive
    makes it. Exit status 1: some frames could not be made, or a cap ended the run; the next run
    goes on from there. With --plan: some frames could not be made in this way.

    \b
    Examples:
      merkle regenerate --plan
      merkle regenerate --type summary --max-cost 2.50
      git diff --name-only | merkle regenerate - --type outline
    """

    def text(name: str, document: Mapping[str, Any]) -> str:
        if plan:
            return plan_text(name, document)
        return regenerated_text(name, document, quiet=options.quiet)

    with ends_politely(), open_workspace(options) as workspace:

        def regenerate(name: str) -> Mapping[str, Any]:
            below = recursive or not name or workspace.resolve(name)["path"] == paths.ROOT
            return agreed(
                lambda sure: workspace.regenerate(
                    name,
                    frame_type=frame_type,
                    recursive=below,
                    plan=plan,
                    agent=agent,
                    max_calls=max_calls,
                    max_cost=max_cost,
                    yes=sure,
                ),
                yes=yes,
                may_ask=node != STDIN and not options.json,
            )

        return on_nodes(options, workspace, node, regenerate, text, verdict)


def verdict(document: Mapping[str, Any]) -> ExitCode:
    """Whether every frame could be made, and was."""
    left = document["failed"] or document.get("stopped")
    return ExitCode.FINDINGS if left else ExitCode.FINE


def regenerated_text(name: str, document: Mapping[str, Any], *, quiet: bool = False) -> str:
    """What was made at a node, and what could not be."""
    lines = failed_lines(document)
    if not quiet:
        done = made_text(document["regenerated"], document["reused"])
        lines.insert(0, f"{place(name)}: " + ("up to date" if document["unchanged"] else done))
    if document.get("shared") is not None:
        lines += _team_lines(document["shared"], quiet)
    return "\n".join([*lines, *calls_lines(document, quiet=quiet)])


def made_text(made: int, known: int) -> str:
    """How many frames came about, and how many of them without any work."""
    text = f"{counted(made + known, 'frame')} written"
    return f"{text}, {known:,} of them from earlier results" if known else text


def failed_lines(document: Mapping[str, Any]) -> list[str]:
    """What could not be made and why, then what to do about it, each once."""
    failed = document["failed"]
    hints = dict.fromkeys(each["hint"] for each in failed if each.get("hint"))
    return [*remarks("failed", failed, "red"), *map(_hint_line, hints)]


def _hint_line(hint: str) -> str:
    return click.style("hint:", fg="cyan") + f" {on_screen(hint)}"


def _team_lines(shared: JsonObject, quiet: bool) -> list[str]:
    """What came from the team and went there; what is wrong is said even quietly."""
    lines = []
    if not quiet:
        lines.append(f"team: {shared['fetched']:,} fetched, {shared['pushed']:,} pushed")
    if shared["refused"]:
        lines.append(click.style(f"team: {shared['refused']:,} rows refused", fg="red"))
    if shared["problem"]:
        lines.append(click.style(f"team: {on_screen(shared['problem'])}", fg="yellow"))
    return lines


def plan_text(name: str, document: Mapping[str, Any]) -> str:
    """What would be made, and because of what."""
    rows = [
        [
            click.style(_action(step), fg="cyan"),
            on_screen(step["type"]),
            path(step["path"]),
            _price(step),
            click.style(on_screen(step["because"]), dim=True),
        ]
        for step in document["plan"]
    ]
    failed = failed_lines(document)
    if not rows:
        nothing = "nothing can be made" if failed else "nothing to make"
        return "\n".join([f"{place(name)}: {nothing}", *failed])
    if not any(step.get("calls") for step in document["plan"]):
        rows = [[*row[:3], row[4]] for row in rows]
    total = totals_lines(document["totals"])
    return "\n".join([f"{place(name)}: {len(rows):,} to make", table(rows), *total, *failed])


def _action(step: JsonObject) -> str:
    """What would be done, and by whom it is known already."""
    return "team" if step["from"] == "team" else on_screen(step["action"])


def _price(step: JsonObject) -> str:
    """What a model's part of a step takes, as far as it can be told."""
    if not step.get("calls"):
        return ""
    about = "~" if step["estimated"] else ""
    tokens = f"{about}{step['tokens']:,} in, up to {step['tokens_out']:,} out"
    return tokens if step["cost"] is None else f"{tokens}, {about}{step['cost']:.4f}"
