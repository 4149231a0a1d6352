"""Composed context on a terminal: what is in it, what is not, and the text itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from indexer.cli.columns import counted, fields, path, short, table
from indexer.cli.frame_text import about, body, freshness, not_made
from indexer.cli.output import print_json, print_text
from indexer.core.fence import unfenced
from indexer.core.paths import on_screen
from indexer.engine.documents import JsonObject

format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "messages"]),
    default="text",
    show_default=True,
    help="Text for people, or the messages alone as a JSON array.",
)


def print_messages(document: Mapping[str, Any]) -> None:
    """Write the messages alone, as one compact JSON array: the bytes a replay gives again."""
    text = json.dumps(document["messages"], separators=(",", ":"))
    # The one control character that JSON lets through; the rest is ASCII.
    click.echo(text.replace("\x7f", "\\u007f"))


def show_context(document: Mapping[str, Any], *, as_json: bool, form: str, quiet: bool) -> None:
    """Print a composition in the form that was asked for."""
    if as_json:
        print_json(document)
    elif form == "messages":
        print_messages(document)
    else:
        print_text("\n".join(_lines(document, quiet)).removeprefix("\n"))


def _lines(document: Mapping[str, Any], quiet: bool) -> Iterator[str]:
    if not quiet:
        yield from _summary(document)
    in_message_order = sorted(document["items"], key=lambda item: int(item["message"]))
    for item, message in zip(in_message_order, document["messages"], strict=True):
        heading, _, text = unfenced(message["content"]).partition("\n\n")
        yield ""
        state = freshness(item)
        tokens = counted(item["tokens"], "token")
        yield f"{click.style(on_screen(heading), bold=True)}: {state}, {tokens}"
        if text:
            yield body(text)


def _summary(document: Mapping[str, Any]) -> Iterator[str]:
    stored = "recorded" if document["recorded"] else "not recorded; --record keeps it"
    request = document["request"]
    summary = [
        ("manifest", f"{document['manifest_id']} ({stored})"),
        ("root", document["root"]),
        ("tokens", f"{document['tokens']:,} of {document['budget']:,} ({document['tokenizer']})"),
        ("frames", f"{len(document['items']):,} of {document['candidates']:,}"),
        ("order", on_screen(request["order"])),
    ]
    if document["freshness_as_of"] != "now":
        summary.append(("freshness", "as it was when this was recorded"))
    counts = document["omitted"]["counts"]
    if counts:
        told = ", ".join(f"{number:,} {on_screen(reason)}" for reason, number in counts.items())
        summary.append(("left out", told))
    if document.get("missing"):
        summary.append(("missing", click.style(not_made(document["missing"]), fg="yellow")))
    yield fields(summary)
    rows = [
        [f"{place}.", _name(item), on_screen(item["type"]), f"{item['tokens']:,}"]
        for place, item in enumerate(document["items"], 1)
    ]
    if rows:
        yield ""
        yield table(rows, right=frozenset({0, 3}))
        for place, why in enumerate(document.get("why") or (), 1):
            made = ", ".join(f"{name} {part:,}" for name, part in why["parts"].items() if part)
            yield f"{place}. {why['score']:,}: {made or 'named'}"
    elif document["freshness_as_of"] == "now":
        yield ""
        yield click.style(_why_nothing(document), fg="yellow")


def _name(item: Mapping[str, Any]) -> str:
    """What an item is about; of source and of some notes also the symbol and the lines."""
    if item["type"] != "source" or not item.get("lines"):
        return path(item["path"]) + about(item)
    first, last = item["lines"]
    symbol = f"::{on_screen(item['symbol'])}" if item["symbol"] else ""
    return f"{path(item['path'])}{symbol}:{first}-{last}"


def _why_nothing(document: Mapping[str, Any]) -> str:
    if not document["candidates"]:
        return (
            "nothing to choose from: `merkle regenerate` makes outlines, or a running service does"
        )
    if "budget" in document["omitted"]["counts"]:
        return "no frame fits the budget: give a larger --budget"
    if document["request"].get("query"):
        return "no frame has a word of the question: try others, or name a file or folder"
    return "every frame was left out: ask for less strictly chosen ones"


def differences(frames: Sequence[JsonObject]) -> Iterator[str]:
    """The frames that two manifests or roots do not share, a line each."""
    colours = {"added": "green", "removed": "red", "modified": "yellow", "missing": "magenta"}
    for frame in frames:
        word = click.style(f"{frame['change']:8}", fg=colours[frame["change"]])
        by = f" by {on_screen(frame['agent'])}" if frame.get("agent") else ""
        name = f"::{on_screen(frame['symbol'])}" if frame.get("symbol") else ""
        what = f"{path(frame['path'])}{name} ({on_screen(frame['type'])}{by})"
        moved = " → ".join(short(frame[key]) for key in ("old", "new") if frame[key])
        if frame["change"] == "missing":
            moved += " → none"
        elif frame["old"] == frame["new"]:
            moved = f"{frame['old_freshness']} → {frame['new_freshness']}"
        yield f"{word}  {what}  {click.style(on_screen(moved), dim=True)}"
