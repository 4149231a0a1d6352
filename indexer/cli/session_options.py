"""What the session commands share: their arguments, and how they print ids and bytes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

from indexer.cli.options import plain_text
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
by_agent = click.option(
    "--agent",
    metavar="A",
    envvar="MERKLE_AGENT",
    callback=plain_text,
    help="Who does it: a registered agent. MERKLE_AGENT if not given.",
)


def json_object(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> Mapping[str, Any] | None:
    """An option whose value is a JSON object."""
    if value is None:
        return None
    plain_text(ctx, param, value)
    try:
        found = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"it is not JSON: {error}", ctx, param) from None
    if not isinstance(found, dict):
        raise click.BadParameter("it is no JSON object", ctx, param)
    return found


def json_text(text: str) -> Mapping[str, Any]:
    """A JSON object from a file or standard input."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"it is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise click.UsageError("it is no JSON object")
    return found


def each_plain(
    ctx: click.Context, param: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    """An option that may be repeated, each time some text."""
    for each in value:
        plain_text(ctx, param, each)
    return value


def pairs(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, Any]:
    """`K=V` options as a mapping; V is JSON where it reads as such, and text otherwise."""
    found: dict[str, Any] = {}
    for pair in each_plain(ctx, param, value):
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{pair!r} is not of the form K=V", ctx, param)
        try:
            found[key] = json.loads(text)
        except (ValueError, RecursionError):
            found[key] = text
    return found


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
