"""Reading frames: a node with its context, histories and heads, each labelled with freshness."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypedDict

from indexer.core import paths
from indexer.core.arguments import Count
from indexer.core.clock import iso_utc
from indexer.core.frames import Frame, FrameId, Freshness, Head
from indexer.core.ids import is_id_prefix
from indexer.core.tokens import TokenCounter
from indexer.core.tree import Tree
from indexer.engine.documents import JsonObject
from indexer.engine.frames.freshness import CONTENT_ID, ON, SHA256, Judged, judge
from indexer.engine.frames.heads import Slot
from indexer.engine.frames.inputs import FINGERPRINT
from indexer.engine.search.corpus import live_corpus
from indexer.engine.tree.resolve import UnknownNodeError, resolve_node
from indexer.engine.tree.scan import tree_as_on_disk
from indexer.errors import CorruptError, UsageError
from indexer.store.frames import FrameStore, StoredFrame

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames
    from indexer.engine.workspace import Engine


class UnknownFrameError(UsageError):
    """No stored frame has that id."""

    code = "unknown_frame"


VIEWS: Final = ("recency", "type", "agent", "relevance")


class NodeContextDocument(TypedDict):
    """Result of `get-node`."""

    node_id: str
    path: str
    kind: str
    content_id: str
    size: int
    superseded: bool
    children: list[str]
    frames: list[JsonObject]
    frame_count: int


def get_node(
    engine: Engine,
    node: str,
    *,
    view: str = "recency",
    max_frames: Count = 20,
    frame_type: str | None = None,
    agent: str | None = None,
    query: str | None = None,
) -> NodeContextDocument:
    """A node with the frames a view selects."""
    if view not in VIEWS:
        raise UsageError(f"there is no view {view!r}", hint=f"use one of: {', '.join(VIEWS)}")
    if (view == "relevance") != (query is not None):
        raise UsageError(
            "the view relevance and a query belong together", hint="give both, or neither"
        )
    if max_frames < 0:
        raise UsageError("max_frames cannot be negative")
    found = resolve_node(engine.tree, engine.trees, node)
    path = found["path"]
    tree = tree_as_on_disk(engine, path)
    entry = tree.get(path)
    if entry is None:
        raise UnknownNodeError(f"{paths.on_screen(path)} is gone", hint="run `merkle scan`")
    frames = engine.frames
    heads = {
        slot: head
        for slot, head in frames.heads.heads_at(path).items()
        if (frame_type is None or slot[0] == frame_type) and (agent is None or slot[1] == agent)
    }
    stored = frames.store.frames(head.frame_id for head in heads.values())
    lost = [head for head in heads.values() if head.frame_id not in stored]
    if lost:
        raise CorruptError(
            f"the frame {lost[0].frame_id.hex()[:12]} of {paths.on_screen(path)} is not stored",
            hint="run `merkle repair`",
        )
    scores = {} if query is None else _scores(engine, tree, path, query)
    chosen = _ordered(view, heads, stored, scores)[:max_frames]
    bodies = frames.heads.bodies(head.content for _, head in chosen)
    return {
        "node_id": tree.node_id(path, entry).hex(),
        "path": path,
        "kind": entry.kind.label,
        "content_id": entry.content_id.hex(),
        "size": entry.size,
        "superseded": found["superseded"],
        "children": list(entry.folder.entries) if entry.folder else [],
        "frames": [
            _frame_document(
                stored[head.frame_id],
                head,
                judge(frames, tree, path, *slot, head),
                bodies.get(head.content),
                frames.counter,
            )
            for slot, head in chosen
        ],
        "frame_count": len(heads),
    }


def _scores(engine: Engine, tree: Tree, path: str, query: str) -> Mapping[FrameId, float]:
    """What the heads of a node are worth for a query."""
    with live_corpus(engine, tree, searched=True) as corpus:
        return corpus.rank(query, corpus.at([path])).scores


def _ordered(
    view: str,
    heads: dict[Slot, Head],
    stored: dict[Any, StoredFrame],
    scores: Mapping[FrameId, float],
) -> list[tuple[Slot, Head]]:
    """Heads in a view's order; ties end in the FrameID, never in a clock."""
    keys: dict[str, Callable[[tuple[Slot, Head]], Any]] = {
        "recency": lambda item: (-stored[item[1].frame_id].seq, item[1].frame_id),
        "type": lambda item: (item[0], item[1].frame_id),
        "agent": lambda item: (item[0][1], item[0][0], item[1].frame_id),
        "relevance": lambda item: (
            -scores.get(item[1].frame_id, 0.0),
            -stored[item[1].frame_id].seq,
            item[1].frame_id,
        ),
    }
    return sorted(heads.items(), key=keys[view])


def _frame_document(
    stored: StoredFrame, head: Head, judged: Judged, content: str | None, counter: TokenCounter
) -> JsonObject:
    return {
        "frame_id": head.frame_id.hex(),
        "type": stored.frame.type,
        "agent": stored.frame.agent,
        "freshness": judged.freshness.value,
        "because": judged.because,
        "tokens": counter.count_text(content) if content is not None else 0,
        "content": content,
        "created_at": iso_utc(stored.frame.created_ns),
        "node_id": stored.frame.node_id.hex(),
        "action": head.action.value,
        "meta": json.loads(stored.frame.meta),
    }


class FrameListDocument(TypedDict):
    """Result of `list-frames`."""

    path: str
    frames: list[JsonObject]


def list_frames(
    engine: Engine,
    node: str,
    *,
    frame_type: str | None = None,
    content: bool = False,
    limit: Count | None = None,
) -> FrameListDocument:
    """The history of a node, newest first; with what the frames say on request.

    A path that is gone has its history still.
    """
    path = path_of(engine, node)
    tree, opened = tree_as_on_disk(engine, path), engine.frames
    heads = opened.heads.heads_at(path)
    stored = opened.store.history(path, frame_type, limit)
    known = opened.heads.bodies(one.frame.content for one in stored)
    frames: list[JsonObject] = []
    for one in stored:
        frame = one.frame
        head = heads.get((frame.type, frame.agent))
        judged, is_head = _judged(opened, tree, frame, head)
        frames.append(
            {
                "frame_id": frame.frame_id.hex(),
                "type": frame.type,
                "agent": frame.agent,
                "freshness": judged.freshness.value,
                "because": judged.because,
                "head": is_head,
                "seq": one.seq,
                "created_at": iso_utc(frame.created_ns),
                "node_id": frame.node_id.hex(),
                "content_sha256": frame.content.hex(),
                "has_body": frame.content in known,
                "meta": json.loads(frame.meta),
            }
        )
        if content:
            frames[-1]["content"] = known.get(frame.content)
    return {"path": path, "frames": frames}


def _judged(frames: Frames, tree: Tree, frame: Frame, head: Head | None) -> tuple[Judged, bool]:
    """What can be said of a stored frame, and whether it is what its slot points to."""
    if head is None or head.frame_id != frame.frame_id:
        return Judged(Freshness.STALE, "a later frame took its place"), False
    return judge(frames, tree, frame.path, frame.type, frame.agent, head), True


class FrameDocument(TypedDict):
    """Result of `get-frame`."""

    frame_id: str
    path: str
    type: str
    agent: str
    freshness: str
    because: str
    tokens: int
    content: str | None
    """None when `compact` has dropped it."""
    inputs: list[JsonObject]
    """What it was made from or bound to: each `input` with its `id`, None where it was absent."""
    supersedes: str | None
    """The frame of the same type and agent before it."""
    superseded_by: str | None
    """The frame that took its place."""
    created_at: str
    node_id: str
    meta: JsonObject


def get_frame(engine: Engine, frame: str) -> FrameDocument:
    """One frame, whole: what it says, what it was made from, and whether it still holds.

    It is named by its id or by 6 or more digits of it.
    """
    frames = engine.frames
    stored = _stored_frame(frames.store, frame).frame
    tree = tree_as_on_disk(engine, stored.path)
    head = frames.heads.head(stored.path, stored.type, stored.agent)
    judged, is_head = _judged(frames, tree, stored, head)
    content = frames.heads.bodies([stored.content]).get(stored.content)
    return {
        "frame_id": stored.frame_id.hex(),
        "path": stored.path,
        "type": stored.type,
        "agent": stored.agent,
        "freshness": judged.freshness.value,
        "because": judged.because,
        "tokens": frames.counter.count_text(content) if content is not None else 0,
        "content": content,
        "inputs": _inputs(frames.store, stored),
        "supersedes": _before(frames.store, stored),
        "superseded_by": head.frame_id.hex() if head is not None and not is_head else None,
        "created_at": iso_utc(stored.created_ns),
        "node_id": stored.node_id.hex(),
        "meta": json.loads(stored.meta),
    }


def _stored_frame(store: FrameStore, text: str) -> StoredFrame:
    if not is_id_prefix(text):
        raise UnknownFrameError(
            f"{paths.on_screen(text)!r} is no FrameID",
            hint="give 6 or more lower-case hexadecimal digits, as `merkle list-frames` shows them",
        )
    found = store.frame_ids(text)
    if len(found) > 1:
        listed = ", ".join(one.hex()[:16] for one in found)
        raise UnknownFrameError(f"{text} is ambiguous: {listed}", hint="give more digits")
    stored = store.frame(found[0]) if found else None
    if stored is None:
        raise UnknownFrameError(
            f"no frame has an id that begins with {text}",
            hint="`merkle list-frames NODE` lists the frames of a file or folder",
        )
    return stored


def _inputs(store: FrameStore, frame: Frame) -> list[JsonObject]:
    """The list of inputs with names as `explain` has them; of a file's frame, its node."""
    listed = store.inputs(frame.inputs) if frame.inputs is not None else None
    if listed is None:
        return [{"input": "content", "id": frame.node_id.hex()}]
    if ON in listed:
        bound = listed.get(CONTENT_ID) or listed.get(SHA256)
        return [{"input": listed[ON], "id": bound}]
    made_by = [{"input": "configuration", "id": listed.pop(FINGERPRINT, None)}]
    return made_by + [
        {"input": paths.join(frame.path, name), "id": value[1] or None}
        for name, value in sorted(listed.items())
    ]


def _before(store: FrameStore, frame: Frame) -> str | None:
    slot = (frame.type, frame.agent)
    listed = [one.frame for one in store.history(frame.path, frame.type)]
    mine = [one.frame_id for one in listed if (one.type, one.agent) == slot]
    older = mine[mine.index(frame.frame_id) + 1 :]
    return older[0].hex() if older else None


class HeadListDocument(TypedDict):
    """Result of `get-head`."""

    path: str
    heads: list[JsonObject]


def get_head(
    engine: Engine, node: str, *, frame_type: str | None = None, agent: str | None = None
) -> HeadListDocument:
    """The heads of a node."""
    path = path_of(engine, node)
    tree = tree_as_on_disk(engine, path)
    heads = []
    for slot, head in engine.frames.heads.heads_at(path).items():
        if frame_type not in (None, slot[0]) or agent not in (None, slot[1]):
            continue
        judged = judge(engine.frames, tree, path, *slot, head)
        heads.append(
            {
                "path": path,
                "type": slot[0],
                "agent": slot[1],
                "frame_id": head.frame_id.hex(),
                "basis": head.basis.hex(),
                "freshness": judged.freshness.value,
                "because": judged.because,
            }
        )
    return {"path": path, "heads": heads}


def path_of(engine: Engine, node: str) -> str:
    """The path of a node, also of one that is gone but has frames."""
    try:
        return resolve_node(engine.tree, engine.trees, node)["path"]
    except UnknownNodeError:
        if node.startswith("id:"):
            raise
        path = paths.parse(node.removeprefix("path:"))
        if not engine.frames.store.history(path):
            raise
        return path
