"""`merkle status`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from indexer.cli.columns import counted, fields, first, path, remarks, size
from indexer.cli.frame_text import counts, freshness, not_made
from indexer.cli.here import from_here
from indexer.cli.log import lost_lines
from indexer.cli.opening import open_workspace
from indexer.cli.options import Globals, merkle_command
from indexer.cli.output import print_json, print_text, show
from indexer.cli.tree import tree_nodes, tree_text
from indexer.core import paths
from indexer.core.paths import on_screen
from indexer.engine.documents import JsonObject
from indexer.errors import ExitCode

if TYPE_CHECKING:
    from indexer.engine.tree.results import StatusDocument

EXIT_CODES: Final = {
    "current": ExitCode.FINE,
    "stale": ExitCode.FINDINGS,
    "degraded": ExitCode.UNCHECKED,
    "unavailable": ExitCode.UNCHECKED,
    "unknown": ExitCode.UNCHECKED,
    "missing": ExitCode.NO_WORKSPACE,
}
_COLOURS: Final = {"current": "green", "stale": "yellow", "missing": "yellow"}
_LISTED: Final = 5
"""How many agents, and frames that are not fresh, are named before `and N more`."""
_MEANINGS: Final = {
    "current": "the index is true",
    "stale": "the disk has moved on: run `merkle scan`",
    "degraded": "the service may miss changes",
    "unavailable": "the workspace cannot be looked at now",
    "unknown": "not compared with the disk",
    "missing": "not indexed yet: run `merkle scan`",
}


@merkle_command("status")
@click.option("--no-wait", is_flag=True, help="Do not wait until the service has seen all changes.")
@click.option(
    "--why-ignored",
    metavar="PATH",
    help="Name the rule, its file and line, that leaves PATH out of the tree.",
)
@click.option("--tree", is_flag=True, help="Also print the tree, with the first digits of NodeIDs.")
@click.option(
    "--depth",
    metavar="N",
    type=click.IntRange(min=1),
    help="With --tree: go down N levels only.",
)
def command(
    options: Globals, no_wait: bool, why_ignored: str | None, tree: bool, depth: int | None
) -> int:
    """Compare the disk with the index, changing neither.

    Exit status 0: current; 1: stale; 3: cannot tell (degraded, unavailable, something could not
    be read); 5: never scanned.

    \b
    Examples:
      merkle status --tree --depth 2
      merkle status --why-ignored build/app.js
    """
    if depth is not None and not tree:
        raise click.UsageError("--depth needs --tree.", click.get_current_context())
    with open_workspace(options) as workspace:
        if why_ignored is not None:
            named = paths.parse(from_here(options, why_ignored))
            show(options, workspace.why_ignored(named), _why_text)
            return ExitCode.FINE
        if workspace.is_initialised:
            document = workspace.status(wait=not no_wait)
        else:
            document = never_scanned(workspace.root)
        nodes = None
        if tree:
            nodes = tree_nodes(workspace, depth) if document["scanned"] else []
    code = _exit_code(document)
    if options.json:
        print_json(document if nodes is None else {**document, "tree": nodes})
    elif not options.quiet:
        print_text(_text(document, nodes))
    elif code != ExitCode.FINE:
        print_text("\n".join([fields([_state(document)]), *_changes(document), *_unread(document)]))
    return code


def _exit_code(document: StatusDocument) -> ExitCode:
    code = EXIT_CODES.get(document["state"], ExitCode.UNCHECKED)
    # It is never fine where something could not be read.
    return ExitCode.UNCHECKED if code == ExitCode.FINE and document["unreadable"] else code


def never_scanned(root: Path) -> StatusDocument:
    """The status of a folder that has no index, found without opening one."""
    return {
        "workspace": str(root),
        "scanned": False,
        "state": "missing",
        "root": None,
        "content_id": None,
        "hash": None,
        "nodes": 0,
        "files": 0,
        "directories": 0,
        "links": 0,
        "bytes": 0,
        "changes": {"added": [], "modified": [], "removed": []},
        "skipped": [],
        "unreadable": [],
        "frames": {
            "total": 0,
            "fresh": 0,
            "stale": 0,
            "orphaned": 0,
            "unmanaged": 0,
            "unknown": 0,
            "missing": 0,
        },
        "types": {},
        "agents": [],
        "not_fresh": [],
        "largest": [],
        "read_only": False,
        "lost": [],
        "service": {"running": False, "pid": None, "watches": 0, "degraded": None, "web": None},
    }


def _text(document: StatusDocument, nodes: list[JsonObject] | None) -> str:
    parts = [tree_text(nodes), ""] if nodes else []
    summary = [("workspace", path(document["workspace"])), _state(document)]
    if document["scanned"]:
        summary += _tree_summary(document)
    if document["read_only"]:
        alone = click.style("read-only", fg="yellow")
        summary.append(("index", f"{alone}: reads work, nothing can be recorded here"))
    summary.append(("service", _service(document["service"])))
    if document["service"].get("web"):
        summary.append(("web page", on_screen(str(document["service"]["web"]))))
    parts.append(fields(summary))
    parts += _changes(document)
    parts += _not_fresh(document)
    parts += _unread(document)
    parts += [click.style(each, fg="yellow") for each in lost_lines(document["lost"])]
    parts += remarks("skipped", document["skipped"], "yellow")
    if document["largest"]:
        parts.append(click.style("largest files", dim=True))
        parts += [f"  {path(each)}" for each in document["largest"]]
    return "\n".join(parts)


def _state(document: StatusDocument) -> tuple[str, str]:
    state = document["state"]
    meaning = _MEANINGS.get(state, "")
    if state == "current" and document["unreadable"]:
        meaning = "but for what could not be read"
    elif state == "current" and document["frames"]["missing"]:
        meaning = "the tree is true; frames are missing"
    shown = click.style(state, fg=_COLOURS.get(state, "red"), bold=True)
    return "state", f"{shown}  {click.style(meaning, dim=True)}"


def _unread(document: StatusDocument) -> Iterator[str]:
    return remarks("unreadable", document["unreadable"], "red")


def _tree_summary(document: StatusDocument) -> Iterator[tuple[str, str]]:
    parts = [counted(document["files"], "file"), counted(document["directories"], "folder")]
    if document["links"]:
        parts.append(counted(document["links"], "link"))
    yield "root", f"{document['root']}  {click.style(document['hash'] or '', dim=True)}"
    yield "tree", ", ".join([*parts, size(document["bytes"])])
    yield from _frames_summary(document)


def _frames_summary(document: StatusDocument) -> Iterator[tuple[str, str]]:
    who = "the service" if document["service"].get("running") else "`merkle regenerate`"
    if not document["frames"].get("total"):
        yield "frames", click.style(f"none yet: {who} makes them", dim=True)
        return
    yield "frames", counts(document["frames"])
    if document["frames"]["missing"]:
        told = not_made(document["frames"]["missing"], f"{who} makes them")
        yield "missing", click.style(told, fg="yellow")
    for name, numbers in document["types"].items():
        yield f"  {on_screen(name)}", counts(numbers)
    agents = [f"{on_screen(agent['id'])} {agent['coverage_pct']}%" for agent in document["agents"]]
    if agents:
        yield "agents", ", ".join(first(agents, _LISTED))


def _service(service: JsonObject) -> str:
    if not service.get("running"):
        return click.style("not running", dim=True)
    watches = counted(service.get("watches") or 0, "watch", "watches")
    text = f"running, pid {service.get('pid')}, {watches}"
    if service.get("degraded"):
        text += click.style(f", degraded: {on_screen(str(service['degraded']))}", fg="red")
    return text


def _changes(document: StatusDocument) -> Iterator[str]:
    changes = document["changes"]
    for word, fg, listed in (
        ("added", "green", changes["added"]),
        ("modified", "yellow", changes["modified"]),
        ("removed", "red", changes["removed"]),
    ):
        if listed:
            yield click.style(f"{word} ({len(listed):,})", fg=fg)
            yield from (f"  {line}" for line in first([path(each) for each in listed]))


def _not_fresh(document: StatusDocument) -> Iterator[str]:
    frames = document["frames"]
    if document["not_fresh"]:
        total = frames["total"] - frames["fresh"]
        yield click.style(f"frames not fresh ({total:,})", fg="yellow")
        lines = [
            f"{path(frame['path'])}  {on_screen(frame['type'])} by {on_screen(frame['agent'])},"
            f" {freshness(frame)}"
            for frame in document["not_fresh"]
        ]
        yield from (f"  {line}" for line in first(lines, _LISTED, of=total))


def _why_text(document: Mapping[str, Any]) -> str:
    named = path(document["path"])
    rule = document["rule"]
    if rule is None:
        return f"{named} is not ignored: no rule matches it"
    line = f":{rule['line']}" if rule.get("line") else ""
    place = f"{path(str(rule['source']))}{line}"
    pattern = on_screen(str(rule["pattern"]))
    if document["ignored"]:
        return f"{named} is ignored by {pattern}  {click.style(place, dim=True)}"
    return f"{named} is not ignored: {pattern} lets it in  {click.style(place, dim=True)}"
