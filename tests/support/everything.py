"""A small workspace with something of every kind, and everything that a reader is told of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from indexer.core.frames import MemoKey, body_hash
from indexer.errors import MerkleError
from tests.support.engines import Engine
from tests.support.space import python

SETTINGS = "[history]\nkeep_count = 500\n"

TABLES = (
    "root_log", "node_log", "frame_log", "head_log", "agent_log", "input_lists", "memo",
    "bodies", "manifest_log", "model_results", "session_names", "session_heads",
    "session_requests", "session_records", "session_blobs", "session_versions", "share_due",
    "unvouched",
)  # fmt: skip
"""What `sql` shows but for the stat cache, the postings and the numbers of the present."""


def fill(root: Path) -> None:
    """Files of several kinds in a few folders."""
    for number in range(12):
        place = root / f"src/p{number % 3}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"m{number}.py").write_text(python(f"f{number}", doc=f"Does {number}."))
    (root / "README.md").write_text("# Tide tables\n\nHigh water, low water.\n")
    (root / "merkle.toml").write_text(SETTINGS)
    (root / "link").symlink_to("README.md")


def write_everything(root: Path) -> None:
    """Something of every kind that an index can hold, some of it older than the rest."""
    with Engine.create(root) as engine:
        engine.scan()
        engine.add_agent("ann", "reader")
        engine.add_agent("ann", "writer")
        engine.add_agent("bob", "writer")
        engine.regenerate()
        for edition in range(4):
            edit(root / "src/p0/m0.py", edition)
            engine.scan()
            engine.regenerate()
            note(engine, "src/p0/m0.py", f"of edition {edition}")
        note(engine, "src", "about the folder", agent="bob")
        note(engine, "README.md", "has a title", frame_type="todo")
        engine.invalidate("src/p1")
        engine.regenerate()
        for generation in (0, 1):
            engine.records.write([answer(generation)])
        engine.compose(["src/p0/m0.py"], record=True)
        engine.session_new("talk")
        for number in range(4):
            engine.session_append("talk", type="dialogue", role="user", text=f"word {number}")
            engine.session_commit("talk")


def write_more(engine: Engine) -> None:
    """What is in the log of the database and not yet in its file."""
    root = engine.root
    for edition in range(10, 14):
        edit(root / "src/p2/m2.py", edition)
        engine.scan()
        note(engine, "src/p2/m2.py", f"of edition {edition}")
    engine.regenerate()
    engine.session_append("talk", type="dialogue", role="user", text="the last word")


def edit(path: Path, edition: int) -> None:
    """Another text, with another outline."""
    path.write_text(python("changed", value=edition, doc=f"Edition {edition}."))


def note(
    engine: Engine, path: str, text: str, agent: str = "ann", frame_type: str = "note"
) -> None:
    """Write a note."""
    engine.put_frame(path, text, frame_type=frame_type, agent=agent)


def answer(generation: int) -> dict[str, Any]:
    """The record of an answer that a model gave."""
    body = f"the answer of generation {generation}"
    return {
        "kind": "model", "key": MemoKey(bytes(range(32))).hex(), "generation": generation,
        "content": body_hash(body).hex(), "body": body, "meta": {"model": "m"},
    }  # fmt: skip


# -- what a reader is told


def _notes(engine: Engine) -> Any:
    return sorted(
        (path, one["type"], one["agent"], one["frame_id"], one["content"])
        for path, _ in engine.tree.walk()
        for one in engine.list_frames(path, content=True, limit=1000)["frames"]
        if one["type"] != "outline"
    )


def _sessions(engine: Engine) -> Any:
    return [
        [engine.session_show(one["name"]), engine.session_render(one["name"])]
        for one in engine.session_list()["sessions"]
    ]


def _answers(engine: Engine) -> Any:
    store = engine.frames.store
    return [(r.generation, r.meta, store.bodies([r.content])[r.content]) for _, r in store.paid()]


def _replayed(engine: Engine) -> Any:
    return [engine.replay(name)["messages"] for name, _ in engine.frames.store.manifests()]


KEPT: dict[str, Callable[[Engine], Any]] = {
    "agents": lambda engine: engine.list_agents(),
    "notes": _notes,
    "answers": _answers,
    "sessions": _sessions,
    "manifests": _replayed,
}
"""What cannot be computed again: a repair brings all of it back."""


def _walked(engine: Engine, seq: int) -> list[Any]:
    tree = engine.trees.tree_at(seq)
    return [(path, int(e.kind), e.content_id.hex(), e.size) for path, e in tree.walk()]


def _differences(engine: Engine) -> Any:
    roots = engine.log(1000)["roots"]
    return [engine.diff(a["root"], b["root"]) for a, b in zip(roots[1:], roots, strict=False)]


def _nodes(engine: Engine) -> Any:
    return [
        [engine.get_node(path, max_frames=100), heads, heads["heads"] and engine.explain(path)]
        for path, _ in engine.tree.walk()
        for heads in [engine.get_head(path)]
    ]


def _composed(engine: Engine) -> Any:
    return engine.compose(query="edition", max_frames=50)["messages"]


READ: dict[str, Callable[[Engine], Any]] = {
    **KEPT,
    "log": lambda engine: engine.log(1000),
    "trees": lambda engine: [_walked(engine, one.seq) for one in engine.trees.roots(1000)],
    "differences": _differences,
    "status": lambda engine: {k: engine.status()[k] for k in ("root", "state", "frames")},
    "nodes": _nodes,
    "composed": _composed,
    **{
        # The type of a default argument of a lambda is not found out.
        table: lambda engine, table=table: engine.sql(  # type: ignore[misc]
            f"SELECT * FROM {table} ORDER BY ALL", limit=100_000
        )["rows"]
        for table in TABLES
    },
}
"""Everything that somebody can be shown."""


def read(engine: Engine, wanted: dict[str, Callable[[Engine], Any]] = READ) -> dict[str, str]:
    """By name, the hash of what each reading gives, or the code of the error it ends with."""
    return dict(_read_each(engine, wanted))


def _read_each(
    engine: Engine, wanted: dict[str, Callable[[Engine], Any]]
) -> Iterator[tuple[str, str]]:
    for name, reading in wanted.items():
        try:
            told = json.dumps(reading(engine), sort_keys=True, default=str)
            yield name, hashlib.sha256(told.encode()).hexdigest()
        except MerkleError as error:
            yield name, f"error: {error.code} ({int(error.exit_code)})"
