"""What every command takes: `-C`, `--json` and `--quiet`, before or after its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import click


@dataclass(slots=True)
class Globals:
    """The global options as given so far; the one after the command wins."""

    directory: str | None = None
    json: bool = False
    quiet: bool = False
    line_asks_json: bool = False
    """Whether --json is anywhere on the line; for what is printed before all of it is parsed."""


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value:
        setattr(ctx.ensure_object(Globals), str(param.name), value)


def _not_empty(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value == "":
        raise click.BadParameter("the folder's name is empty", ctx, param)
    _remember(ctx, param, value)


def global_options() -> list[click.Parameter]:
    """Fresh parameters for one command; they end up in the context's `Globals`."""
    return [
        click.Option(
            ["-C", "directory"],
            metavar="DIR",
            type=click.Path(file_okay=False),
            expose_value=False,
            callback=_not_empty,
            help="Use the workspace in DIR.",
        ),
        click.Option(
            ["--json"],
            is_flag=True,
            expose_value=False,
            callback=_remember,
            help="Print one JSON document.",
        ),
        click.Option(
            ["--quiet"],
            is_flag=True,
            expose_value=False,
            callback=_remember,
            help="Print only what needs attention.",
        ),
    ]


class GlobalCommand(click.Command):
    """A command that takes the global options after its own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(global_options())


class GlobalGroup(click.Group):
    """Commands under one name; the global options may follow that name too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(global_options())


def merkle_command(name: str) -> Callable[[Callable[..., int]], click.Command]:
    """Declare a command: its function gets `Globals` first and returns the exit status."""

    def declare(function: Callable[..., int]) -> click.Command:
        # Made here because the first parse may be of a command without any global option.
        passing = click.make_pass_decorator(Globals, ensure=True)
        return click.command(name, cls=GlobalCommand)(passing(function))

    return declare


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether a command line asks for JSON, also when it cannot be parsed as a whole."""
    own = list(arguments)
    if "--" in own:
        own = own[: own.index("--")]
    return "--json" in own or "--format=json" in own or ("--format", "json") in pairwise(own)


def plain_text(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse an argument that is not text: bytes that are not UTF-8 name no id and no query."""
    if value is not None:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise click.BadParameter("it contains bytes that are not UTF-8", ctx, param) from None
    return value


allow_secrets = click.option(
    "--allow-secrets", is_flag=True, help="Store it even if it looks like it holds one."
)
