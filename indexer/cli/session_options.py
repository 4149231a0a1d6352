"""What the session commands share: their arguments, and how they print ids and bytes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

from indexer.cli.columns import short
from indexer.cli.options import acting_agent, json_or_text, named_values, plain_text
from indexer.cli.output import print_text
from indexer.core.paths import on_screen

TYPES: Final = ("instruction", "dialogue", "tool_io", "reasoning", "artifact", "output", "freeform")
REGIONS: Final = ("sys", "ah")
FORMATS: Final = ("openai", "anthropic")
FORMS: Final = ("thread", "messages", *FORMATS)
DIRECTIONS: Final = ("call", "result")
STATUSES: Final = ("success", "error")

Function = TypeVar("Function", bound=Callable[..., Any])

session_name = click.argument("name", metavar="NAME", callback=plain_text)
by_agent = acting_agent("Who does it: a registered agent.")


def json_object(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> Mapping[str, Any] | None:
    """An option whose value is a JSON object."""
    if value is None:
        return None
    plain_text(ctx, param, value)
    try:
        return parsed_object(value)
    except click.UsageError as error:
        raise click.BadParameter(error.message, ctx, param) from None


def parsed_object(text: str) -> Mapping[str, Any]:
    """The JSON object that a text holds."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"it is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise click.UsageError("it is no JSON object")
    return found


def pairs(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, Any]:
    """`K=V` options as a mapping; V is JSON where it reads as such, and text otherwise."""
    return {key: json_or_text(text) for key, text in named_values(ctx, param, value)}


def short_id(identifier: str) -> str:
    """A node's id as it is printed: of a hash the first digits, of a chosen id all of it."""
    return identifier if len(identifier) < 32 else short(identifier)


def print_document(text: str) -> None:
    """Exact bytes where they go into a file or a pipe; on a terminal nothing that could harm it."""
    if sys.stdout.isatty():
        print_text(on_screen(text))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()


def warned(warnings: list[str]) -> None:
    """Tell warnings apart from the result."""
    for warning in warnings:
        print_text(click.style("warning:", fg="yellow") + f" {on_screen(warning)}", err=True)
