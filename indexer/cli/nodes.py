"""NODE arguments: one name, or `-` for the names on standard input, by lines or NUL characters."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import click

from indexer.cli.columns import path
from indexer.cli.failures import print_error
from indexer.cli.here import from_here, node_from_here
from indexer.cli.options import Globals
from indexer.cli.output import print_json, print_text
from indexer.core import paths
from indexer.engine.documents import JsonObject
from indexer.errors import ExitCode, MerkleError
from indexer.service.workspace import Workspace

STDIN: Final = "-"
_TOGETHER: Final = 1000
"""Names that are asked for in one call: few calls, and no answer without end."""

Call = Callable[[str], Mapping[str, Any]]
Together = Callable[[Sequence[str]], Sequence[JsonObject]]
"""What belongs to each of many names at once: a document, or an `error`."""
Text = Callable[[str, Mapping[str, Any]], str]
"""The text for a name and the document that belongs to it; empty prints nothing."""


def as_text(name: str) -> str:
    """A name that can be sent and printed: bytes that are not UTF-8 get their text form."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return paths.parse(name)
    return name


def node_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Give a NODE argument its text form, where there is one; see `as_text`."""
    return None if value is None else as_text(value)


def _always_fine(document: Mapping[str, Any]) -> ExitCode:
    return ExitCode.FINE


def on_nodes(
    options: Globals,
    workspace: Workspace,
    node: str,
    call: Call,
    text: Text,
    verdict: Callable[[Mapping[str, Any]], ExitCode] = _always_fine,
    together: Together | None = None,
) -> int:
    """Call for a node, or for each that standard input names; print what comes back.

    `together` does many names in one call, where there is such an operation.
    """
    if node == STDIN:
        results = _one_by_one(options, call) if together is None else _many(options, together)
        return _print_each(options, results, text, verdict)
    node = node_from_here(options, workspace, node)
    document = call(node)
    if options.json:
        print_json(document)
    else:
        print_text(text(node, document))
    return verdict(document)


def _one_by_one(options: Globals, call: Call) -> Iterator[JsonObject]:
    """What belongs to each name; one that cannot be used is told and does not stop the others."""
    for name in _names():
        try:
            yield {"node": name, **call(_as_it_stands(options, name))}
        except MerkleError as error:
            yield _refused(name, error)


def _many(options: Globals, together: Together) -> Iterator[JsonObject]:
    """What `_one_by_one` gives, by one call for many names."""
    given_names = _names()
    while names := list(itertools.islice(given_names, _TOGETHER)):
        results: dict[int, JsonObject] = {}
        meant: dict[int, str] = {}
        for place, name in enumerate(names):
            try:
                meant[place] = _as_it_stands(options, name)
            except MerkleError as error:
                results[place] = _refused(name, error)
        given = together(list(meant.values())) if meant else []
        for place, one in zip(meant, given, strict=True):
            results[place] = {**one, "node": names[place]}
        yield from (results[place] for place in range(len(names)))


def _as_it_stands(options: Globals, name: str) -> str:
    """The node that a name of git's or find's stands for, which is never guessed at."""
    return from_here(options, as_text(name), guess=False)


def _refused(name: str, error: MerkleError) -> JsonObject:
    if error.exit_code != ExitCode.USAGE:
        raise error
    problem = {"code": error.code, "message": error.message, "hint": error.hint}
    return {"node": name, "error": problem}


def _print_each(
    options: Globals,
    results: Iterator[JsonObject],
    text: Text,
    verdict: Callable[[Mapping[str, Any]], ExitCode],
) -> int:
    kept: list[JsonObject] = []
    worst, is_first = ExitCode.FINE, True
    for result in results:
        if options.json:
            kept.append(result)
        if "error" in result:
            worst = max(worst, ExitCode.USAGE)
            if not options.json:
                print_error(**result["error"], as_json=False)
        else:
            worst = max(worst, verdict(result))
            if not options.json:
                shown = text(result["node"], result)
                # What takes several lines is set apart from what came before it.
                print_text("\n" + shown if "\n" in shown and not is_first else shown)
        is_first = False
    if options.json:
        print_json({"results": kept})
    return worst


def _names() -> Iterator[str]:
    """The names, each ended by a NUL character where there is any, else by the line's end."""
    given = sys.stdin.buffer.read()
    for name in given.split(b"\0" if b"\0" in given else b"\n"):
        if name:
            yield os.fsdecode(name)


def place(name: str) -> str:
    """A node as a sentence names it."""
    shown = path(name)
    return "workspace" if shown == "." else shown
