"""What every command takes: `-C`, `--json` and `--quiet`, before or after its name."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from indexer.service.ahead import Ahead


@dataclass(slots=True, eq=False, repr=False)
class Globals:
    """The global options as given so far; the one after the command wins."""

    directory: str | None = None
    json: bool = False
    quiet: bool = False
    line_asks_json: bool = False
    """Whether --json is anywhere on the line; for what is printed before all of it is parsed."""
    ahead: Ahead | None = None
    """A service's first look, where the line is plain enough to begin it before it is parsed."""


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


Gives = tuple[Any, ...]
"""What a document takes its keys from, in order: names of operations, and declared documents."""


class GlobalCommand(click.Command):
    """A command that takes the global options after its own."""

    def __init__(self, *args: Any, gives: Gives | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.gives = gives
        self.params.extend(global_options())


class GlobalGroup(click.Group):
    """Commands under one name; the global options may follow that name too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(global_options())


def merkle_command(
    name: str, gives: Gives | None = None
) -> Callable[[Callable[..., int]], click.Command]:
    """Declare a command: its function gets `Globals` first and returns the exit status.

    `gives` says what it prints with --json where that is not just what the operation of the same
    name gives.
    """

    def declare(function: Callable[..., int]) -> click.Command:
        # Made here because the first parse may be of a command without any global option.
        passing = click.make_pass_decorator(Globals, ensure=True)
        return click.command(name, cls=GlobalCommand, gives=gives)(passing(function))

    return declare


def default_of(method: Callable[..., Any], name: str) -> Any:
    """What a method of `Workspace` takes where nothing is given, for an option to show."""
    return inspect.signature(method).parameters[name].default


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


def plain_texts(
    ctx: click.Context, param: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    """What `plain_text` does, for an option that can be repeated."""
    for one in value:
        plain_text(ctx, param, one)
    return value


def named_values(
    ctx: click.Context, param: click.Parameter, value: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """The pairs of an option that takes K=V and can be repeated."""
    for pair in plain_texts(ctx, param, value):
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{pair!r} is not of the form K=V", ctx, param)
        yield key, text


def json_or_text(text: str) -> Any:
    """The value that a text spells in JSON; the text itself where it spells none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def acting_agent(words: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option that says in whose name something is done; MERKLE_AGENT does otherwise."""
    return click.option(
        "--agent",
        metavar="A",
        envvar="MERKLE_AGENT",
        callback=plain_text,
        help=f"{words} MERKLE_AGENT if not given.",
    )


allow_secrets = click.option(
    "--allow-secrets", is_flag=True, help="Store it even if it looks like it holds one."
)
