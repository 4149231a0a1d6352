"""Printing: one JSON document or text for people, made safe and plain where it must be."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from indexer.cli.options import Globals
from indexer.core.json_text import json_text

Document = TypeVar("Document", bound=Mapping[str, Any])


def show(options: Globals, document: Document, text: Callable[[Document], str]) -> None:
    """Print the document: as it is with --json, else as text unless --quiet."""
    if options.json:
        print_json(document)
    elif not options.quiet:
        print_text(text(document))


def print_json(document: Mapping[str, Any]) -> None:
    """Write one JSON document to stdout, in UTF-8 whatever the locale says."""
    click.echo(json_text(document, indent=2).encode())


def print_text(text: str, *, err: bool = False) -> None:
    """Write text that is already safe for a terminal; nothing when there is none."""
    if text:
        stream = sys.stderr if err else sys.stdout
        encoding = getattr(stream, "encoding", None) or "utf-8"
        text = text.encode(encoding, "backslashreplace").decode(encoding)
        click.echo(text, err=err, color=colour())


def colour() -> bool | None:
    """False when colours are unwanted, None to let the terminal decide."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return False if plain else None
