"""NODE arguments: one name, or `-` for the names on standard input, by lines or NUL characters."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import click

from indexer.cli.columns import path
from indexer.cli.failures import print_error
from indexer.cli.here import from_here
from indexer.cli.options import Globals
from indexer.cli.output import print_json, print_text
from indexer.core import paths
from indexer.engine.documents import JsonObject
from indexer.errors import ExitCode, MerkleError

STDIN: Final = "-"

Call = Callable[[str], Mapping[str, Any]]
Text = Callable[[str, Mapping[str, Any]], str]
"""The text for a name and the document that belongs to it; empty prints nothing."""


def as_text(name: str) -> str:
    """A name that can be sent and printed: bytes that are not UTF-8 get their text form."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return paths.parse(name)
    return name


def node_name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Check a NODE argument; see `as_text`."""
    return as_text(value)


def _always_fine(document: Mapping[str, Any]) -> ExitCode:
    return ExitCode.FINE


def on_nodes(
    options: Globals,
    node: str,
    call: Call,
    text: Text,
    verdict: Callable[[Mapping[str, Any]], ExitCode] = _always_fine,
) -> int:
    """Call for a node, or for each that standard input names; print what comes back."""
    if node == STDIN:
        return _on_each(options, call, text, verdict)
    node = from_here(options, node)
    document = call(node)
    if options.json:
        print_json(document)
    else:
        print_text(text(node, document))
    return verdict(document)


def _on_each(
    options: Globals, call: Call, text: Text, verdict: Callable[[Mapping[str, Any]], ExitCode]
) -> int:
    """A name that cannot be used is told, and does not stop the others."""
    results: list[JsonObject] = []
    worst = ExitCode.FINE
    for name in _names():
        try:
            # What git or find prints is meant as it stands, not as somebody in a folder means it.
            document = call(from_here(options, as_text(name), guess=False))
        except MerkleError as error:
            if error.exit_code != ExitCode.USAGE:
                raise
            worst = max(worst, ExitCode.USAGE)
            problem = {"code": error.code, "message": error.message, "hint": error.hint}
            results.append({"node": name, "error": problem})
            if not options.json:
                print_error(**problem, as_json=False)
            continue
        worst = max(worst, verdict(document))
        if not options.json:
            shown = text(name, document)
            # What takes several lines is set apart from what came before it.
            print_text("\n" + shown if results and "\n" in shown else shown)
        results.append({"node": name, **document})
    if options.json:
        print_json({"results": results})
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
