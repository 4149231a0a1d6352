"""What commands that may call models share: caps, the question before a large run, the bill."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, TypeVar

import click

from indexer.cli.columns import counted
from indexer.cli.progress import is_terminal
from indexer.core.paths import on_screen
from indexer.engine.documents import JsonObject
from indexer.errors import MerkleError

CONFIRM = "needs_yes"
"""The code of the error that an answer of yes overcomes."""

F = TypeVar("F", bound=Callable[..., Any])
Document = TypeVar("Document")


class _Amount(click.ParamType[float]):
    name = "amount"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """An amount of money in the currency of the price table."""
        try:
            amount = Decimal(str(value))
        except InvalidOperation:
            amount = Decimal(-1)
        if not amount.is_finite() or not 0 <= amount < 10**9:
            self.fail(f"{value!r} is not an amount such as 2.50", param, ctx)
        return float(amount)


def limit_options(function: F) -> F:
    """Add --max-calls, --max-cost and --yes."""
    for option in (
        click.option("--yes", is_flag=True, help="Agree to a large run without being asked."),
        click.option(
            "--max-cost",
            metavar="X",
            type=_Amount(),
            help="Stop before models cost more than X, by the prices in merkle.toml.",
        ),
        click.option(
            "--max-calls",
            metavar="N",
            type=click.IntRange(0, 10**9 - 1),
            help="Stop before a model is called more than N times, retries included.",
        ),
    ):
        function = option(function)
    return function


def agreed(call: Callable[[bool], Document], *, yes: bool, may_ask: bool) -> Document:
    """Call, and on a terminal ask whether a run that needs a yes gets one."""
    try:
        return call(yes)
    except MerkleError as error:
        if error.code != CONFIRM or not may_ask or not _is_conversation():
            raise
        question = f"{on_screen(error.message)}. Go on?"
        if not click.confirm(question, default=False, err=True):
            raise
    return call(True)


def _is_conversation() -> bool:
    return is_terminal() and sys.stdin is not None and sys.stdin.isatty()


def watcher_limits(root: Path) -> JsonObject:
    """What one pass of the watcher may ask of models."""
    # Imported late: only where a model was called.
    from indexer.engine.models.settings import load_llm_settings

    values = load_llm_settings(root).values
    if not values["watch"]:
        return {"models": False}
    return {"max_calls": min(values["watch_calls_per_pass"], values["watch_calls"])}


def calls_lines(document: Mapping[str, Any], *, quiet: bool) -> list[str]:
    """What a run's calls came to, and why it ended early if it did."""
    lines = []
    if document.get("calls") and not quiet:
        tokens = f"{document['tokens_in']:,} tokens in, {document['tokens_out']:,} out"
        cost = f", cost {document['cost']:.4f}" if document["cost"] else ""
        lines.append(f"{counted(document['calls'], 'call')}, {tokens}{cost}")
    if document.get("stopped"):
        why = _STOPPED.get(document["stopped"], on_screen(str(document["stopped"])))
        left = counted(document["waiting"], "frame")
        lines.append(f"{click.style('stopped', fg='yellow')}  {why}; {left} left for the next run")
    return lines


_STOPPED = {
    "max_calls": "no more calls are allowed",
    "max_cost": "another call could cost more than is allowed",
    "refused": "the server refuses every call",
    "unreachable": "the server does not answer",
    "configuration": "merkle.toml changed meanwhile",
}


def totals_lines(totals: JsonObject) -> list[str]:
    """What a plan comes to, where models or a team have a part in it."""
    known = f"{totals['reused']:,} known from earlier results"
    if totals["team"]:
        known += f", {totals['team']:,} from the team"
    lines = []
    if totals["calls"]:
        if totals["cost"] is not None:
            cost = f"cost up to {totals['cost']:.4f}"
        else:
            cost = f"no price for {', '.join(map(on_screen, totals['unpriced']))}"
        calls = f"up to {counted(totals['calls'], 'call')}"
        tokens = f"{totals['tokens']:,} tokens in, up to {totals['tokens_out']:,} out"
        lines.append(f"{calls}, {tokens}, {cost}; {known}")
    elif totals["team"]:
        lines.append(known)
    if totals["team_problem"]:
        said = f"the team could not be asked: {on_screen(totals['team_problem'])}"
        lines.append(click.style(said, fg="yellow"))
        lines.append("what it has is counted as still to be made")
    return lines
