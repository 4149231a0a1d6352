"""`merkle session select`, `diff`, `render`, `compile`, `tree`, `list` and `show`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypedDict

import click

from indexer.cli.columns import counted, fields, short, table
from indexer.cli.frame_text import body, moment
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, merkle_command, plain_text
from indexer.cli.output import print_json, print_text
from indexer.cli.session_options import (
    FORMATS,
    json_object,
    pairs,
    print_document,
    session_name,
    short_id,
    warned,
)
from indexer.core.canonical import canonical_json
from indexer.core.paths import on_screen
from indexer.engine.documents import JsonObject
from indexer.errors import ExitCode

_COUNT: Final = click.IntRange(min=0)
TURNS: Final = 10
"""Turns that `show` prints, the newest; --json has them all."""
_MODES: Final = ("unified", "jsonpatch", "tokens")


@merkle_command("select")
@session_name
@click.argument("selector", metavar="SELECTOR", callback=plain_text)
@click.option("--include-content", is_flag=True, help="For a range: how contents changed.")
@click.option("--content-mode", type=click.Choice(_MODES), help="As which kind of difference.")
@click.option("--context-lines", metavar="N", type=_COUNT, help="Lines around a difference.")
@click.option("--max-snapshots", metavar="N", type=_COUNT, help="Snapshots of a range, at most.")
@click.option("--max-changes", metavar="N", type=_COUNT, help="Changes per snapshot, at most.")
def select(options: Globals, name: str, selector: str, **values: Any) -> int:
    """Print the ids of the nodes that a selector finds, in canonical order.

    With a range of snapshots (@t-5..@t-1) it is what changed from each to the next instead.

    \b
    Examples:
      merkle session select review "@t0 .mt:last .cb"
      merkle session select review "@w ^ah .cb[role='user']"
      merkle session select review "@t-3..@t0 .cb" --include-content
    """
    values["include_content"] = values["include_content"] or None
    with open_workspace(options) as workspace:
        document: Mapping[str, Any] = workspace.session_select(name, selector, **values)
    if options.json:
        print_json(document)
    elif "ids" in document:
        print_text("\n".join(map(on_screen, document["ids"])))
    else:
        print_text("\n".join(_range(document)))
    return ExitCode.FINE


def _range(document: Mapping[str, Any]) -> Iterator[str]:
    for each in document["diffs"]:
        yield f"{on_screen(each['to']['label'])} → {on_screen(each['from']['label'])}"
        difference = {
            "added": each["added_ids"],
            "removed": each["removed_ids"],
            "changed": each["changed"],
        }
        yield from (f"  {line}" for line in _difference(difference))
    for warning in document.get("warnings", ()):
        yield click.style(on_screen(warning), fg="yellow")
    for error in document.get("errors", ()):
        yield click.style(on_screen(error["message"]), fg="red")


def _difference(document: Mapping[str, Any]) -> Iterator[str]:
    for node_id in document["added"]:
        yield click.style("added    ", fg="green") + on_screen(node_id)
    for node_id in document["removed"]:
        yield click.style("removed  ", fg="red") + on_screen(node_id)
    for each in document["changed"]:
        named = ", ".join(map(on_screen, each["fields"]))
        yield click.style("changed  ", fg="yellow") + f"{on_screen(each['id'])}: {named}"
        if "diff" in each.get("content_diff", {}):
            yield from body(each["content_diff"]["diff"], "    ").split("\n")


@merkle_command("diff")
@session_name
@click.argument("older", metavar="A", callback=plain_text)
@click.argument("newer", metavar="B", callback=plain_text)
@click.argument("selector", metavar="[SELECTOR]", required=False, callback=plain_text)
def diff(options: Globals, name: str, older: str, newer: str, selector: str | None) -> int:
    """Show what differs between two snapshots, node by node.

    \b
    Examples:
      merkle session diff review @t-1 @t0
      merkle session diff review @c1 @w ".cb"
    """
    with open_workspace(options) as workspace:
        document = workspace.session_diff(name, older, newer, selector)
    if options.json:
        print_json(document)
        return ExitCode.FINE
    lines = list(_difference(document))
    lines += [
        click.style("moved    ", fg="cyan") + f"{on_screen(m['removed'])} → {on_screen(m['added'])}"
        for m in document["moves"]
    ]
    print_text("\n".join(lines) or "no difference")
    return ExitCode.FINE


@merkle_command("render", gives=())
@session_name
@click.argument("snapshot", metavar="[@SNAPSHOT|attempt:ID]", required=False, callback=plain_text)
def render(options: Globals, name: str, snapshot: str | None) -> int:
    """Print the provider thread of a snapshot: the same bytes for the same snapshot, always.

    Without one it is the last commit; @w is the work in progress, and attempt:ID what that attempt
    sent, in the form it was sent.

    \b
    Examples:
      merkle session render review @w
      merkle session render review attempt:a1
    """
    with open_workspace(options) as workspace:
        document = workspace.session_render(name, snapshot)
    print_document(document["thread"])
    return ExitCode.FINE


@merkle_command("compile")
@session_name
@click.option("--as-of", metavar="T", callback=plain_text, help="As it was at that time.")
@click.option("--up-to", metavar="ID", callback=plain_text, help="Only up to that commit.")
@click.option("--show-edits", is_flag=True, help="Mark what was edited.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="As this provider takes it; prints the bytes to send.",
)
@click.option(
    "--stage",
    type=click.Choice(["RAW", "SPEC", "HEADER", "FROZEN"], case_sensitive=False),
    help="Also the document of this stage of the compiler.",
)
@click.option(
    "--map-role",
    "roles",
    metavar="TYPE=ROLE",
    multiple=True,
    callback=pairs,
    help="The role of a content type. May be repeated.",
)
@click.option(
    "--policy", metavar="JSON", callback=json_object, help="What to select, and how to collapse."
)
def compile_(options: Globals, name: str, roles: dict[str, Any], **values: Any) -> int:
    """Print a session as messages for a model: edits in place, skipped blocks left out.

    What was pulled from the workspace stands in messages of its own, fenced as data. Where it no
    longer holds it is labelled, or replaced by what was pulled later, and told so. Pinned blocks
    stay whatever the policy says.

    \b
    Examples:
      merkle session compile review --json
      merkle session compile review --format openai > messages.json
      merkle session compile review --as-of 2026-01-31T12:00:00Z --show-edits
      merkle session compile review --policy '{"selection": {"max_turns": 5}}' --stage SPEC
    """
    with open_workspace(options) as workspace:
        document = workspace.session_compile(
            name, roles={key: str(value) for key, value in roles.items()}, **values
        )
    if options.json:
        print_json(document)
    elif values["form"] is not None:
        print_document(_sent_text(document))
    else:
        print_text("\n".join(_messages(document)))
    if not options.json:
        warned(list(_told(document)))
    return ExitCode.FINE


def _sent_text(document: Mapping[str, Any]) -> str:
    """What is to be sent, in its one spelling; its SHA-256 is the document's."""
    of_anthropic = {key: document[key] for key in ("messages", "system") if key in document}
    sent = document["messages"] if document["form"] == "openai" else of_anthropic
    return canonical_json(sent).decode()


def _told(document: Mapping[str, Any]) -> Iterator[str]:
    for note in document["context"]:
        place = note["path"] or "the context"
        if note["action"] == "labelled":
            reason = f": {note['because']}" if note["because"] else ""
            yield f"{place} ({note['type']}) is {note['freshness']} and labelled so{reason}"
        elif note["action"] == "replaced":
            yield f"{place} ({note['type']}) is replaced by what was pulled later"
    for block in document["unpaired"]:
        yield f"{block} is left out: a call without its result, or the other way round"


def _messages(document: Mapping[str, Any]) -> Iterator[str]:
    for message in document["messages"]:
        named = "".join(
            f" {on_screen(message[key])}"
            for key in ("name", "direction", "call_id", "status")
            if key in message
        )
        yield click.style(on_screen(message["role"]) + named, bold=True)
        yield body(message["content"])
    count = counted(document["token_count"], "token")
    yield f"{counted(len(document['messages']), 'message')}, {count}"


@merkle_command("tree")
@session_name
@click.option("--stages", is_flag=True, help="With the documents of all four stages.")
@click.option(
    "--policy", metavar="JSON", callback=json_object, help="What to select, and how to collapse."
)
def tree(options: Globals, name: str, stages: bool, policy: Mapping[str, Any] | None) -> int:
    """Show a session as a tree with a line for each block: what it is, and what becomes of it.

    \b
    Examples:
      merkle session tree review
      merkle session tree review --stages --json
    """
    with open_workspace(options) as workspace:
        document = workspace.session_tree(name, stages=stages, policy=policy)
    if options.json:
        print_json(document)
        return ExitCode.FINE
    rows = {row["id"]: row for row in document["nodes"]}
    lines = list(_shape(document["tree"], rows, 0))
    counts, hashes = document["selection"], document["hashes"]
    lines.append(
        f"{counts['selected']:,} selected, {counts['dropped']:,} dropped,"
        f" {counts['collapsed']:,} collapsed"
    )
    lines += [f"{key} {digest}" for key, digest in hashes.items()]
    if document["compiler"] is not None:
        lines.append(json.dumps(document["compiler"]["stages"], indent=2))
    print_text("\n".join(lines))
    return ExitCode.FINE


def _shape(node: JsonObject, rows: Mapping[str, JsonObject], depth: int) -> Iterator[str]:
    row = rows.get(node["id"])
    named = on_screen(short_id(node["id"]))
    line = f"{'  ' * depth}{click.style(on_screen(node['node_type']), dim=True)} {named}"
    if row is not None:
        marks = [row["type"], "pinned" if row["pinned"] else "", row["freshness"] or ""]
        marks += [f"dropped: {row['dropped']}" if row["dropped"] else ""]
        marks += ["collapsed" if row["collapsed"] else "", counted(row["tokens"], "token")]
        more = "…" if row["preview_truncated"] else ""
        told = ", ".join(filter(None, marks))
        line += f" ({on_screen(told)}) {on_screen(row['preview'])}{more}"
    yield line
    for child in node.get("children", ()):
        yield from _shape(child, rows, depth + 1)


@merkle_command("list")
@click.option("--deleted", is_flag=True, help="Those that `session restore` brings back.")
def list_(options: Globals, deleted: bool) -> int:
    """List every session with its cycle, its blocks and its tokens.

    \b
    Examples:
      merkle session list
      merkle session list --deleted
    """
    with open_workspace(options) as workspace:
        document = workspace.session_list(deleted=deleted)
    if options.json:
        print_json(document)
        return ExitCode.FINE
    rows = [
        [
            on_screen(each["name"]),
            f"cycle {each['cycle']}",
            counted(each["commits"], "block"),
            counted(each["tokens"], "token"),
            moment(each["updated_at"]),
        ]
        for each in document["sessions"]
    ]
    none = "no deleted session" if deleted else "no sessions: `merkle session new NAME` begins one"
    print_text(table(rows) or none)
    return ExitCode.FINE


class ShownTreeDocument(TypedDict):
    """What `show` adds to a session in figures."""

    tree: JsonObject


@merkle_command("show", gives=("session-show", ShownTreeDocument))
@session_name
@click.argument("snapshot", metavar="[@SNAPSHOT]", required=False, callback=plain_text)
def show_(options: Globals, name: str, snapshot: str | None) -> int:
    """Show a session in figures, and the tree of a snapshot.

    Without one it is the work in progress. Of many turns the newest 10 are printed.

    \b
    Example:
      merkle session show review @t0
    """
    with open_workspace(options) as workspace:
        document: Mapping[str, Any] = workspace.session_show(
            name, snapshot=snapshot or "@w", tree=True
        )
    if options.json:
        print_json(document)
    else:
        print_text("\n".join([_figures(document), *_tree(document["tree"]["root"], 0)]))
    return ExitCode.FINE


def _figures(document: Mapping[str, Any]) -> str:
    budget = document["budget"]["max_tokens"]
    limit = f" of {budget:,}" if budget is not None else ""
    return fields(
        [
            ("session", on_screen(document["name"])),
            ("cycle", str(document["cycle"])),
            ("commits", f"{document['commits']:,}, head {short(document['head'])}"),
            ("tokens", f"{document['live_tokens']:,}{limit} live, {document['tokens']:,} in all"),
            ("attempts", str(len(document["attempts"]))),
        ]
    )


def _tree(node: Mapping[str, Any], depth: int) -> Iterator[str]:
    said = node.get("content")
    text = on_screen(said if isinstance(said, str) else "" if said is None else "(object)")
    line = text if len(text) <= 60 else text[:59] + "…"
    role = f" {on_screen(node['role'])}" if "role" in node else ""
    offset = f" [{node['offset']:+d}]" if node["offset"] else ""
    yield f"{'  ' * depth}{click.style(on_screen(node['nodeType']), dim=True)}{offset}{role} " + (
        f"{on_screen(short_id(node['id']))}  {line}".rstrip()
    )
    children = node.get("children", [])
    if node["nodeType"] == "^seq" and len(children) > TURNS:
        earlier = counted(len(children) - TURNS, "earlier turn")
        yield click.style(f"{'  ' * (depth + 1)}{earlier}", dim=True)
        children = children[-TURNS:]
    for child in children:
        yield from _tree(child, depth + 1)
