"""What each page shows, as values for its template."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterable
from itertools import zip_longest
from typing import Any, Final

from indexer.core import paths
from indexer.core.frames import GENERATED_AGENT_PREFIX
from indexer.core.tree import Tree
from indexer.engine.code.source import SourceDocument, show
from indexer.engine.documents import JsonObject
from indexer.engine.frames.coverage import Coverage
from indexer.engine.frames.explain import explain
from indexer.engine.frames.freshness import judge
from indexer.engine.frames.opened import Frames
from indexer.engine.frames.read import get_node, list_frames
from indexer.engine.search.search import TEXT, search
from indexer.engine.team.commands import shared_status
from indexer.engine.tree.history import diff, log
from indexer.engine.tree.line_changes import LineChange, line_changes
from indexer.engine.tree.lost import lost_documents
from indexer.engine.tree.resolve import UnknownNodeError
from indexer.engine.tree.scan import tree_as_on_disk
from indexer.engine.workspace import Engine
from indexer.errors import MerkleError, UsageError
from indexer.service.server import Api
from indexer.web.colours import BY, Colours
from indexer.web.drawing import View, legend, maps
from indexer.web.editor import opening

LISTED: Final = 100
"""Rows on one page of a table."""
RECENT: Final = 8
"""Newest roots on the overview."""
NOT_FRESH: Final = 12
"""Stale nodes on the overview."""
HISTORY: Final = 40
"""Former frames on the page of a node."""
DIFF_LISTED: Final = 500
"""Entries of each kind on the page of a difference."""
HITS: Final = 60
"""Paths that a search shows."""
BEST: Final = 20
"""Results of each other kind that a search shows."""
LINES: Final = 2000
"""Lines of a file that its page shows."""
NAMED_CHANGES: Final = 4
"""Changed paths that the overview names of each root."""
_LARGE_BATCH: Final = 2000
"""Batches with more changes are counted, not listed, on the overview."""
_DEEPEST_PAGE: Final = 10_000


class Query:
    """A request's query, read with clear errors."""

    def __init__(self, values: dict[str, str]) -> None:
        self._values = values

    def text(self, name: str, default: str = "") -> str:
        """A text, as it came."""
        value = self._values.get(name, default)
        if "\x00" in value or any("\ud800" <= char <= "\udfff" for char in value):
            raise UsageError(f"{name} holds a character that no text has")
        return value

    def choice(self, name: str, words: Iterable[str]) -> str:
        """One of a few words, the first unless another is given."""
        known = list(words)
        value = self.text(name) or known[0]
        if value not in known:
            raise UsageError(f"{name} must be one of: {', '.join(known)}", hint="follow the links")
        return value

    def flag(self, name: str) -> bool:
        """Whether something is asked for."""
        return bool(self.text(name))

    def number(self, name: str, most: int = 10**8) -> int:
        """A whole number, 0 where none is given."""
        value = self._values.get(name, "0")
        if not (value.isascii() and value.isdigit() and int(value[:9]) < most):
            raise UsageError(f"{name} must be a whole number", hint="go back and follow the links")
        return int(value[:9])

    def page(self) -> int:
        """The number of a table's page, from 0."""
        return self.number("page", _DEEPEST_PAGE)


class Pages:
    """One method per page."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._coverage = Coverage(lambda: api.engine.frames)
        self._colours = Colours()
        self._between: dict[tuple[str, str], list[tuple[str, str]]] = {}

    def overview(self, query: Query) -> dict[str, Any]:
        """The map of a folder, what is not fresh in it, recent roots, the service's health."""
        at = paths.parse(query.text("at"))
        view = View(query.text("size") == "files", query.choice("colour", BY), query.flag("dim"))
        page = query.page()

        def read(engine: Engine) -> dict[str, Any]:
            tree = tree_as_on_disk(engine, paths.ROOT)
            colouring = self._colours.of(view.colour, tree, engine.frames.heads)
            with self._coverage as coverage:
                coverage.bring_up_to(tree)
                here = coverage.known(at)
                if here is None or here.kind != "directory":
                    hint = "it may have been renamed or removed: begin at the top"
                    raise UsageError(f"{paths.on_screen(at)} is no folder of this tree", hint=hint)
                rows = coverage.heaviest(at, (page + 1) * LISTED, by_files=view.by_files)
                drawn = maps(coverage, here, view, colouring)
                stale = coverage.stale(NOT_FRESH, below=at)
            totals = tree.root.totals
            return {
                "at": at,
                "here": here,
                "view": view,
                "sizes": [
                    ("tokens of frames", view._replace(by_files=False)),
                    ("tokens of files", view._replace(by_files=True)),
                ],
                "colours": [(words, view._replace(colour=name)) for name, words in BY.items()],
                "other_dim": view._replace(dim=not view.dim),
                "crumbs": crumbs(at),
                "maps": drawn,
                "legend": legend(colouring.shares(here), colouring),
                "rows": rows[page * LISTED :],
                "pages": pager(page, here.entries),
                "totals": totals,
                "root": tree.root_id.hex(),
                "not_fresh": _not_fresh(engine.frames, tree, stale),
                "recent": self._recent(),
                "health": self._health(),
            }

        return self._api.perform(read)

    def node(self, query: Query) -> dict[str, Any]:
        """One node: its record, its frames with freshness and reason, history, the chain."""
        given = f"id:{query.text('id')}" if query.text("id") else f"path:{query.text('path')}"
        shown = query.text("type") or None
        line = query.number("line")

        def read(engine: Engine) -> dict[str, Any]:
            found = _node_or_gone(engine, given)
            path = found["path"]
            history = list_frames(engine, f"path:{path}", limit=HISTORY + 1)["frames"]
            types = sorted({slot[0] for slot in engine.frames.heads.heads_at(path)})
            chain = None
            if types:
                chosen = shown if shown in types else None
                chain = explain(engine, f"path:{path}", frame_type=chosen)
            frames = [_with_written(frame) for frame in found["frames"]]
            source, why_not = _source(engine, found, line)
            editor = engine.frames.declared.settings.values["web.editor"]
            return {
                "node": found,
                "crumbs": crumbs(path),
                "frames": frames,
                "source": source,
                "why_not": why_not,
                "notes_at": _notes_at(frames),
                "opening": opening(str(editor) if editor else None, engine.root, path, line or 1)
                if found["kind"] == "file"
                else None,
                "types": types,
                "history": history[:HISTORY],
                "older": len(history) > HISTORY,
                "chain": chain,
                "children": found["children"][:LISTED],
                "more_children": len(found["children"]) - LISTED,
            }

        return self._api.perform(read)

    def search(self, query: Query) -> dict[str, Any]:
        """Paths that hold every word, what matches best, and the lines that have just that text."""
        asked = query.text("q").strip()[:200]
        words = asked.casefold().split()

        def read(engine: Engine) -> dict[str, Any]:
            hits: list[tuple[Any, ...]] = []
            if words:
                for path, entry in tree_as_on_disk(engine, paths.ROOT).walk():
                    folded = path.casefold()
                    if path and all(word in folded for word in words):
                        name = folded.rpartition("/")[2]
                        rank = (not all(word in name for word in words), len(path), path)
                        hits.append((*rank, entry.kind.label, entry.size))
            hits.sort()
            found = [{"path": hit[2], "kind": hit[3], "size": hit[4]} for hit in hits[:HITS]]
            best = search(engine, asked, limit=BEST)["results"] if words else []
            lines = search(engine, asked, kinds=[TEXT], limit=BEST) if words else None
            return {
                "asked": asked,
                "words": words,
                "found": found,
                "count": len(hits),
                "best": best,
                "lines": lines["results"] if lines else [],
                "line_count": lines["found"] if lines else 0,
            }

        return self._api.perform(read)

    def roots(self, query: Query) -> dict[str, Any]:
        """Recorded roots, newest first."""
        page = query.page()
        listed = log(self._api.engine, (page + 1) * LISTED + 1)["roots"]
        part = listed[page * LISTED :]
        rows = [
            {**root, "before": part[number + 1]["root"] if number + 1 < len(part) else None}
            for number, root in enumerate(part[:LISTED])
        ]
        total = page * LISTED + len(part)
        return {"rows": rows, "pages": pager(page, total)}

    def diff(self, query: Query) -> dict[str, Any]:
        """What differs between two recorded roots."""
        old, new = query.text("old", "@-1").strip(), query.text("new", "@-0").strip()
        path = query.text("path")

        def read(engine: Engine) -> tuple[JsonObject, tuple[list[LineChange], str | None] | None]:
            lines = line_changes(engine, old, new, path) if path else None
            return dict(diff(engine, old, new)), lines

        found, lines = self._api.perform(read)
        moved = {rename["old"] for rename in found["renamed"]}
        came = {rename["new"] for rename in found["renamed"]}
        groups = [
            ("added", [path for path in found["added"] if path not in came]),
            ("modified", found["modified"]),
            ("removed", [path for path in found["removed"] if path not in moved]),
        ]
        return {
            "old": found["old"],
            "new": found["new"],
            "asked": (old, new),
            "path": path,
            "lines": lines[0] if lines else [],
            "why_not": lines[1] if lines else None,
            "symbols": found.get("symbols", [])[:DIFF_LISTED],
            "symbol_count": len(found.get("symbols", [])),
            "notes": found.get("notes", [])[:DIFF_LISTED],
            "groups": [(word, rows[:DIFF_LISTED], len(rows)) for word, rows in groups],
            "renamed": found["renamed"][:DIFF_LISTED],
            "renamed_count": len(found["renamed"]),
        }

    def health(self, query: Query) -> dict[str, Any]:
        """What the service does, has to do and takes: queue, passes, memory, models, the team."""

        def read(engine: Engine) -> dict[str, Any]:
            settings = engine.frames.declared.settings
            return {
                "health": self._health(),
                "work": self._api.writer.work(),
                "missing": engine.frames.missing.of(engine.tree),
                "totals": engine.tree.root.totals,
                "read_only": engine.read_only,
                "remarks": engine.trees.remarks(),
                "lost": lost_documents(engine.trees),
                "team": shared_status(engine) if settings.values["shared.url"] else None,
            }

        return self._api.perform(read)

    def _recent(self) -> list[JsonObject]:
        """The newest roots, each with the one before it and the first paths that changed."""
        roots = log(self._api.engine, RECENT + 1)["roots"]
        rows: list[JsonObject] = []
        for root, before in zip_longest(roots[:RECENT], roots[1:]):
            named: list[tuple[str, str]] = []
            changed = root["added"] + root["modified"] + root["removed"]
            if before is not None and changed <= _LARGE_BATCH:
                named = self._changes(before["root"], root["root"])
            rows.append(
                {
                    **root,
                    "before": before["root"] if before else None,
                    "named": named[:NAMED_CHANGES],
                    "unnamed": max(len(named) - NAMED_CHANGES, 0),
                }
            )
        return rows

    def _changes(self, old: str, new: str) -> list[tuple[str, str]]:
        """The paths that differ between two roots, kept because recorded roots never change."""
        known = self._between.get((old, new))
        if known is None:
            found = diff(self._api.engine, old, new)
            listed = (
                ("modified", found["modified"]),
                ("added", found["added"]),
                ("removed", found["removed"]),
            )
            known = [(word, path) for word, part in listed for path in part]
            if len(self._between) >= 8 * RECENT:
                self._between.clear()
            self._between[old, new] = known
        return known

    def _health(self) -> dict[str, Any]:
        return {**self._api.health(), "memory": memory()}


def crumbs(path: str) -> list[tuple[str, str]]:
    """Every folder on the way to a path and the path itself, as name and path."""
    steps = [*reversed(paths.ancestors(path)), path] if path else [path]
    return [(paths.split(step)[1], step) for step in steps]


def pager(page: int, total: int) -> dict[str, Any]:
    """Which rows are shown, and the pages beside this one."""
    first, last = page * LISTED + 1, min((page + 1) * LISTED, total)
    return {
        "first": first,
        "last": last,
        "total": total,
        "before": page - 1 if page else None,
        "after": page + 1 if last < total else None,
    }


def memory() -> int:
    """Bytes this process holds in memory now, or at most held where that cannot be told."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


def _source(
    engine: Engine, node: JsonObject, line: int
) -> tuple[SourceDocument | None, str | None]:
    """The text of a file around a line, read and hashed now; or why there is none to show."""
    if node["kind"] != "file":
        return None, None
    try:
        first = max(line - LINES // 2, 1)
        return show(engine, f"path:{node['path']}", first=first, last=first + LINES - 1), None
    except MerkleError as error:
        return None, error.message


def _notes_at(frames: list[JsonObject]) -> dict[int, list[JsonObject]]:
    """The notes about symbols, by the line at which their symbol begins."""
    found: dict[int, list[JsonObject]] = {}
    for frame in frames:
        if frame["written"] and frame.get("line"):
            found.setdefault(frame["line"], []).append(frame)
    return found


def _node_or_gone(engine: Engine, given: str) -> JsonObject:
    """A node with its frames; of a path that is gone, what is left to tell."""
    try:
        return dict(get_node(engine, given))
    except UnknownNodeError:
        path = list_frames(engine, given, limit=1)["path"]
        return {
            "path": path,
            "kind": "gone",
            "node_id": "",
            "content_id": "",
            "size": 0,
            "superseded": False,
            "children": [],
            "frames": [],
            "frame_count": 0,
        }


def _with_written(frame: JsonObject) -> JsonObject:
    """A frame, and whether its text was written by somebody who may use markdown."""
    return {**frame, "written": not frame["agent"].startswith(GENERATED_AGENT_PREFIX)}


def _not_fresh(frames: Frames, tree: Tree, stale: list[str]) -> list[JsonObject]:
    """The stale frames of some paths, each with the reason."""
    rows = []
    for path in stale:
        for (frame_type, agent), head in frames.heads.live_at(path):
            judged = judge(frames, tree, path, frame_type, agent, head)
            if judged.freshness.value == "stale":
                rows.append(
                    {"path": path, "type": frame_type, "agent": agent, "because": judged.because}
                )
    return rows
