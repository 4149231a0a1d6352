"""A session as a C-Tree: the stages, the tree, and a row for every block, without its text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypedDict

from indexer.compiler.preview import preview
from indexer.core.fence import unfenced
from indexer.engine.documents import JsonObject
from indexer.engine.sessions.labels import labels_of
from indexer.engine.sessions.policies import agreed_plugins
from indexer.sessions import CompileOptions, Session
from indexer.sessions.compile import Compiled, compile_blocks
from indexer.sessions.content import RESULT, text_of
from indexer.sessions.context import is_context
from indexer.sessions.effective import Effective
from indexer.sessions.view import View

if TYPE_CHECKING:
    from indexer.engine.workspace import Engine

PREVIEW: Final = 80
"""Characters of a block that its row shows, secrets masked."""


class TreeDocument(TypedDict):
    """Result of `session tree`."""

    name: str
    cycle: int
    snapshot: JsonObject
    """`node_count`, `turn_count` and `node_hash`, of all that is there."""
    hashes: JsonObject
    selection: JsonObject
    """`selection_sha256`, and how many were selected, dropped and collapsed."""
    last_node: str | None
    nodes: list[JsonObject]
    """A row for every block, in reading order."""
    tree: JsonObject
    """Regions, turns and blocks by id; what a block is stands in its row."""
    compiler: JsonObject | None
    """All four stages, where they are asked for."""


def tree(
    engine: Engine,
    name: str,
    *,
    stages: bool = False,
    policy: Mapping[str, Any] | None = None,
) -> TreeDocument:
    """A session as a tree with a row for each block, and what the compiler makes of them.

    It shows the work in progress. Rows tell sizes, hashes and the beginning of a text;
    `stages` adds the documents of RAW, SPEC, HEADER and FROZEN.
    """
    plugins = agreed_plugins(engine.root, policy)

    def look(session: Session) -> tuple[int, list[Effective], JsonObject]:
        view = session.state.work()
        return view.cycle, session.effective(), _tree(view, view.root_id)

    cycle, found, shape = engine.sessions.read(name, look)
    options = CompileOptions(policy=policy, labels=labels_of(engine, found), plugins=plugins)
    compiled = compile_blocks(found, options, engine.counter)
    return document_of(name, cycle, found, shape, compiled, stages=stages)


def document_of(
    name: str,
    cycle: int,
    found: list[Effective],
    shape: JsonObject,
    compiled: Compiled,
    *,
    stages: bool,
) -> TreeDocument:
    """The document of a compiled session."""
    made = compiled.stages
    raw, spec = made.raw, made.spec
    return {
        "name": name,
        "cycle": cycle,
        "snapshot": {
            "node_count": raw.node_count,
            "turn_count": raw.turn_count,
            "node_hash": raw.node_hash,
        },
        "hashes": made.hashes,
        "selection": {
            "selection_sha256": spec.selection_sha256,
            "selected": len(spec.nodes),
            "dropped": len(spec.dropped),
            "collapsed": len(made.header.collapsed_ids),
        },
        "last_node": found[-1].node.id if found else None,
        "nodes": _rows(found, compiled),
        "tree": shape,
        "compiler": made.to_json() if stages else None,
    }


def _rows(found: list[Effective], compiled: Compiled) -> list[JsonObject]:
    stages = compiled.stages
    ids = {block: node_id for node_id, block in compiled.ids.items()}
    refs = {node.id: node for node in stages.spec.nodes}
    dropped = {one.id: one.reason for one in stages.spec.dropped}
    collapsed = set(stages.header.collapsed_ids)
    notes = {note.id: note for note in compiled.context}
    rows = []
    for item in found:
        row = node_row(item)
        node_id = ids.get(item.node.id)
        ref = refs.get(node_id or "")
        note = notes.get(item.node.id)
        row["stage_id"] = node_id
        row["payload_sha256"] = None if ref is None else ref.payload_sha256
        row["selected"] = ref is not None
        # What a later block replaced does not reach the compiler.
        row["dropped"] = "replaced" if node_id is None else dropped.get(node_id)
        row["collapsed"] = node_id in collapsed
        row["freshness"] = None if note is None else note.freshness
        rows.append(row)
    return rows


def node_row(item: Effective) -> JsonObject:
    """What can be told of a block by itself: no text but its beginning, secrets masked."""
    node, said = item.node, _said(item)
    shown, cut = preview(said, PREVIEW)
    return {
        "id": node.id,
        "type": "context" if is_context(node) else item.content["content_type"],
        "node_type": node.node_type,
        "role": node.role,
        "kind": node.kind,
        "turn": node.cycle,
        "content_sha256": item.commit.content_hash,
        "tokens": item.commit.token_count,
        "chars": len(said),
        "pinned": item.pinned,
        "edited": item.edited,
        "tool": item.content.get("tool_name"),
        "preview": shown,
        "preview_truncated": cut,
    }


def _said(item: Effective) -> str:
    """The text of a block: without its fence, and of a result that is one text, that."""
    if is_context(item.node):
        return unfenced(text_of(item.content))
    payload = item.content.get("payload")
    if item.direction == RESULT and isinstance(payload, dict) and len(payload) == 1:
        (only,) = payload.values()
        if isinstance(only, str):
            return only
    return text_of(item.content)


def _tree(view: View, node_id: str) -> JsonObject:
    node = view.node(node_id)
    assert node is not None
    shape: JsonObject = {"id": node.id, "node_type": node.node_type}
    children = [_tree(view, child.id) for child in view.children(node_id)]
    return {**shape, "children": children} if children or node.content is None else shape
