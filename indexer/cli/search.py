"""`merkle search`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click

from indexer.cli.code_text import limit_option
from indexer.cli.columns import counted, path, table
from indexer.cli.frame_text import freshness, not_made
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, merkle_command, plain_text, plain_texts
from indexer.cli.output import print_json, print_text
from indexer.core.paths import on_screen
from indexer.errors import ExitCode
from indexer.service.workspace import Workspace

KINDS: Final = ("frame", "symbol", "reference", "text")


def _kinds(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    named = [kind.strip() for one in value for kind in one.split(",")]
    for kind in named:
        if kind not in KINDS:
            raise click.BadParameter(f"{kind!r} is none of {', '.join(KINDS)}", ctx, param)
    return tuple(dict.fromkeys(named))


@merkle_command("search")
@click.argument("question", callback=plain_text)
@click.option(
    "--kind",
    "kinds",
    metavar="K[,K]",
    multiple=True,
    callback=_kinds,
    help="What to look for: frame, symbol, reference, text. frame and symbol if not given.",
)
@click.option(
    "--type", "types", metavar="T", multiple=True, callback=plain_texts,
    help="Of frames, only those of these types.",
)  # fmt: skip
@limit_option(Workspace.search)
def command(
    options: Globals, question: str, kinds: tuple[str, ...], types: tuple[str, ...], limit: int
) -> int:
    """List what matches a question best.

    `frame` finds what is known about files and folders. `symbol` finds functions, classes and
    headings, by name and by what stands in them. `reference` finds where a symbol is used that
    QUESTION names. `text` finds the lines that have exactly QUESTION in them, whether or not
    letters are capitals unless QUESTION has some; files are read for it at that moment. What is
    not fresh says so. Exit status 1: nothing matches.

    \b
    Examples:
      merkle search "how is a gauge calibrated"
      merkle search judge --kind symbol,reference
      merkle search "INSERT OR" --kind text
    """
    with open_workspace(options) as workspace:
        asked: dict[str, Any] = {"kinds": kinds} if kinds else {}
        document = workspace.search(question, limit=limit, types=types, **asked)
    if options.json:
        print_json(document)
    else:
        print_text("\n".join(_lines(document["results"], _marked(question))))
        _remarks(document)
    return ExitCode.FINE if document["results"] else ExitCode.FINDINGS


def _marked(question: str) -> re.Pattern[str]:
    """What stands out in an excerpt: the question itself, or else its words."""
    words = sorted(set(re.findall(r"\w\w+", question)), key=lambda one: -len(one))
    return re.compile("|".join(map(re.escape, [question.strip(), *words])), re.IGNORECASE)


def _lines(results: Sequence[Mapping[str, Any]], marked: re.Pattern[str]) -> Iterator[str]:
    heads = table([_head(one) for one in results]).split("\n")
    for head, one in zip(heads, results, strict=bool(results)):
        first, *more = _excerpt(one["excerpt"], marked)
        yield f"{head}  {first}".rstrip()
        yield from (f"    {line}".rstrip() for line in more)


def _head(one: Mapping[str, Any]) -> list[str]:
    """Where it stands, so that an editor can go there, then what it is."""
    line = f":{one['line']}" if one["line"] is not None else ""
    told = [on_screen(one["type"]), one["sure"] or "", on_screen(one["symbol"] or "")]
    if one["freshness"] != "fresh":
        told.append(freshness(one))
    return [click.style(path(one["path"]) + line, bold=True), "  ".join(filter(None, told))]


def _excerpt(text: str, marked: re.Pattern[str]) -> list[str]:
    shown = [on_screen(line).replace("\\x09", "\t") for line in text.split("\n")]
    return [
        marked.sub(lambda found: click.style(found.group(), fg="red", bold=True), line)
        for line in shown
    ]


def _remarks(document: Mapping[str, Any]) -> None:
    if not document["results"]:
        print_text("nothing matches", err=True)
    left = document["found"] - len(document["results"])
    if left:
        print_text(f"and {left:,} more: --limit N shows them", err=True)
    if document["missing"]:
        print_text(not_made(document["missing"]), err=True)
    if document["unread"]:
        told = f"{counted(document['unread'], 'file')} not looked through: too long, too many, or"
        print_text(f"{told} new to the index", err=True)
