"""Reading frames: a node with its context, histories and heads, each labelled with freshness."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypedDict

from indexer.compose.relevance import make_question
from indexer.compose.rendering import numbered
from indexer.core import paths
from indexer.core.arguments import Count, one_of
from indexer.core.clock import iso_utc
from indexer.core.frames import OUTLINER, Frame, FrameId, Freshness, Head, is_generated
from indexer.core.tokens import TokenCounter
from indexer.core.tree import Tree
from indexer.engine.code.outlines import Outline, symbol_lines
from indexer.engine.documents import JsonObject
from indexer.engine.frames.few import Slot
from indexer.engine.frames.find import find_frame
from indexer.engine.frames.freshness import (
    CONTENT_ID,
    ON,
    SHA256,
    Judged,
    Place,
    judge,
    place_of,
)
from indexer.engine.frames.heads import Live
from indexer.engine.frames.inputs import FINGERPRINT
from indexer.engine.frames.note_records import NO_WORDS
from indexer.engine.search.corpus import Corpora
from indexer.engine.search.source import SourceText
from indexer.engine.tree.resolve import NodeDocument, UnknownNodeError, resolve_node
from indexer.engine.tree.scan import tree_as_on_disk
from indexer.errors import ArgumentsError, CorruptError, UsageError
from indexer.store.frames import FrameStore, NoteState, StoredFrame

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames
    from indexer.engine.workspace import Engine
    from indexer.store.trees import TreeStore


VIEWS: Final = ("recency", "type", "agent", "relevance")
View = Annotated[str, one_of(*VIEWS)]


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
    view: View = "recency",
    max_frames: Count = 20,
    frame_type: str | None = None,
    agent: str | None = None,
    query: str | None = None,
) -> NodeContextDocument:
    """A node with the frames a view selects.

    It selects among what generators keep and every note that nothing superseded.
    """
    selection = _Selection(view, max_frames, frame_type, agent, query)
    found = resolve_node(engine.tree, engine.trees, node)
    tree = tree_as_on_disk(engine, found["path"])
    (document,) = _contexts(engine.corpora, tree, [found], selection)
    if isinstance(document, UsageError):
        raise document
    return document


class NodesDocument(TypedDict):
    """Result of `get-nodes`."""

    results: list[JsonObject]
    """One for each name, in order: `node`, with what `get-node` gives or with `error`."""


def get_nodes(
    engine: Engine,
    nodes: Sequence[str],
    *,
    view: View = "recency",
    max_frames: Count = 20,
    frame_type: str | None = None,
    agent: str | None = None,
    query: str | None = None,
) -> NodesDocument:
    """Many nodes at once, each as `get-node` gives it, or an error in its place."""
    selection = _Selection(view, max_frames, frame_type, agent, query)
    found: dict[str, NodeDocument | UsageError] = {}
    for name in dict.fromkeys(nodes):
        try:
            found[name] = resolve_node(engine.tree, engine.trees, name)
        except UsageError as error:
            found[name] = error
    known = {name: one for name, one in found.items() if not isinstance(one, UsageError)}
    tree = tree_as_on_disk(engine, *(one["path"] for one in known.values()))
    given: dict[str, NodeContextDocument | UsageError] = dict(
        zip(known, _contexts(engine.corpora, tree, list(known.values()), selection), strict=True)
    )
    given |= {name: one for name, one in found.items() if isinstance(one, UsageError)}
    return {"results": [_result(name, given[name]) for name in nodes]}


def _result(name: str, given: NodeContextDocument | UsageError) -> JsonObject:
    if isinstance(given, UsageError):
        problem = {"code": given.code, "message": given.message, "hint": given.hint}
        return {"node": name, "error": problem}
    return {"node": name, **given}


@dataclass(frozen=True, slots=True)
class _Selection:
    """Which frames of a node are shown, and which of them first."""

    view: str
    max_frames: int
    frame_type: str | None
    agent: str | None
    query: str | None

    def __post_init__(self) -> None:
        if (self.view == "relevance") != (self.query is not None):
            raise ArgumentsError(
                "the view relevance and a query belong together", hint="give both, or neither"
            )

    def takes(self, slot: Slot) -> bool:
        return self.frame_type in (None, slot[0]) and self.agent in (None, slot[1])


def _contexts(
    corpora: Corpora, tree: Tree, nodes: Sequence[NodeDocument], selection: _Selection
) -> list[NodeContextDocument | UsageError]:
    """Nodes with their frames; the store is asked once for all of them."""
    frames = corpora.frames
    live = {
        path: [one for one in frames.heads.live_at(path) if selection.takes(one[0])]
        for path in dict.fromkeys(node["path"] for node in nodes)
        if tree.get(path) is not None
    }
    stored = frames.store.frames(head.frame_id for found in live.values() for _, head in found)
    for path, found in live.items():
        lost = [head for _, head in found if head.frame_id not in stored]
        if lost:
            raise CorruptError(
                f"the frame {lost[0].frame_id.hex()[:12]} of {paths.on_screen(path)} is not stored",
                hint="run `merkle repair`",
            )
    scores = {} if selection.query is None else _scores(corpora, tree, live, selection.query)
    chosen = {
        path: _selected(frames, path, found, stored, scores, selection)
        for path, found in live.items()
    }
    shown = [one for found in chosen.values() for one in found]
    bodies = frames.heads.bodies(head.content for _, head in shown)
    frames.load_note_inputs(head.frame_id for slot, head in shown if not is_generated(slot[1]))
    documents = {
        path: [
            _frame_document(
                stored[head.frame_id],
                head,
                judge(frames, tree, path, *slot, head),
                bodies.get(head.content),
                frames.counter,
                _place(frames, tree, stored[head.frame_id].frame),
            )
            for slot, head in found
        ]
        for path, found in chosen.items()
    }
    _add_lines(frames, tree, documents)
    return [
        _context(tree, node, documents.get(node["path"], []), len(live.get(node["path"], ())))
        for node in nodes
    ]


def _selected(
    frames: Frames,
    path: str,
    live: list[Live],
    stored: Mapping[FrameId, StoredFrame],
    scores: Mapping[FrameId, int],
    selection: _Selection,
) -> list[Live]:
    """The first frames in a view's order; ties end in the FrameID, never in a clock."""
    said = {one.frame_id: place for place, (_, one) in enumerate(frames.heads.notes_at(path))}

    def since(head: Head) -> tuple[int, int, FrameId]:
        return -stored[head.frame_id].seq, -said.get(head.frame_id, -1), head.frame_id

    keys: dict[str, Callable[[Live], Any]] = {
        "recency": lambda item: since(item[1]),
        "type": lambda item: (item[0], item[1].frame_id),
        "agent": lambda item: (item[0][1], item[0][0], item[1].frame_id),
        "relevance": lambda item: (-scores.get(item[1].frame_id, 0), since(item[1])),
    }
    return sorted(live, key=keys[selection.view])[: selection.max_frames]


def _add_lines(frames: Frames, tree: Tree, documents: Mapping[str, list[JsonObject]]) -> None:
    """Give fresh outlines of files the lines of their symbols too."""
    shown = [
        (made, Outline(path, entry.content_id, str(made["content"])))
        for path, listed in documents.items()
        if (entry := tree.get(path)) is not None
        for made in listed
        if made["agent"] == OUTLINER and made["content"] and made["freshness"] == "fresh"
    ]
    lines = symbol_lines(frames, [outline for _, outline in shown])
    for (made, outline), found in zip(shown, lines, strict=True):
        made["lined"] = numbered(outline.body, found)


def _context(
    tree: Tree, node: NodeDocument, frames: list[JsonObject], count: int
) -> NodeContextDocument | UsageError:
    path = node["path"]
    entry = tree.get(path)
    if entry is None:
        return UnknownNodeError(f"{paths.on_screen(path)} is gone", hint="run `merkle scan`")
    return {
        "node_id": tree.node_id(path, entry).hex(),
        "path": path,
        "kind": entry.kind.label,
        "content_id": entry.content_id.hex(),
        "size": entry.size,
        "superseded": node["superseded"],
        "children": list(entry.folder.entries) if entry.folder else [],
        "frames": frames,
        "frame_count": count,
    }


def _scores(corpora: Corpora, tree: Tree, at: Iterable[str], query: str) -> Mapping[FrameId, int]:
    """What the frames of some nodes are worth for a query."""
    text_of = SourceText(corpora.frames.root, tree.algorithm, tree).of
    with corpora.of(tree, searched=True) as corpus:
        return corpus.rank(make_question(query), corpus.at(at), text_of).scores


def _place(frames: Frames, tree: Tree, frame: Frame) -> Place:
    """Where in its file a frame stands, if it is a note about a symbol."""
    if is_generated(frame.agent):
        return Place()
    return place_of(frames, frame.path, tree.get(frame.path), frame.frame_id)


def _frame_document(
    stored: StoredFrame,
    head: Head,
    judged: Judged,
    content: str | None,
    counter: TokenCounter,
    place: Place,
) -> JsonObject:
    return {
        "frame_id": head.frame_id.hex(),
        "type": stored.frame.type,
        "agent": stored.frame.agent,
        **place._asdict(),
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
    path = path_of(engine.frames, engine.tree, engine.trees, node)
    tree, opened = tree_as_on_disk(engine, path), engine.frames
    heads = opened.heads.heads_at(path)
    stored = opened.store.history(path, frame_type, limit)
    known = opened.heads.bodies(one.frame.content for one in stored)
    written = [one.frame.frame_id for one in stored if not is_generated(one.frame.agent)]
    opened.load_note_inputs(written)
    states = opened.store.note_states(written)
    frames: list[JsonObject] = []
    for one in stored:
        frame = one.frame
        head = heads.get((frame.type, frame.agent))
        judged, is_live, by = _state_of(opened, tree, frame, states.get(frame.frame_id))
        frames.append(
            {
                "frame_id": frame.frame_id.hex(),
                "type": frame.type,
                "agent": frame.agent,
                **_place(opened, tree, frame)._asdict(),
                "freshness": judged.freshness.value,
                "because": judged.because,
                "head": head is not None and head.frame_id == frame.frame_id,
                "live": is_live,
                "superseded_by": by,
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


class _State(NamedTuple):
    """How a stored frame stands: whether it holds, counts, and what took its place."""

    judged: Judged
    live: bool
    """Whether views select it."""
    superseded_by: str | None


def _state_of(frames: Frames, tree: Tree, frame: Frame, state: NoteState | None) -> _State:
    """A note is judged by what it is bound to; what a generator made counts while it is a head."""
    head = frames.heads.live_frame((frame.path, frame.type, frame.agent), frame.frame_id)
    if head is not None:
        judged = judge(frames, tree, frame.path, frame.type, frame.agent, head)
        return _State(judged, True, None)
    because, by = "a later frame took its place", None
    if state is not None:
        by = None if state.superseded_by is None else state.superseded_by.hex()
        because = "it came as history only" if by is None else f"superseded by {by[:12]}"
        if frame.content == NO_WORDS:
            because = "it only takes back another"
        elif state.superseded_by is not None:
            taker = frames.store.frame(state.superseded_by)
            if taker is not None and taker.frame.content == NO_WORDS:
                because = f"withdrawn by {taker.frame.agent}"
    elif (now := frames.heads.head(frame.path, frame.type, frame.agent)) is not None:
        by = now.frame_id.hex()
    return _State(Judged(Freshness.STALE, because), False, by)


class FrameDocument(TypedDict):
    """Result of `get-frame`."""

    frame_id: str
    path: str
    symbol: str | None
    """What of the file a note is about; None for all of it."""
    line: int | None
    """Where that symbol begins now."""
    type: str
    agent: str
    freshness: str
    because: str
    tokens: int
    content: str | None
    """None when `compact` has dropped it."""
    inputs: list[JsonObject]
    """What it was made from or bound to: each `input` with its `id`, None where it was absent."""
    supersedes: list[str]
    """The notes whose place it took."""
    superseded_by: str | None
    """The frame that took its place: a note that said so, or what a generator made since."""
    created_at: str
    node_id: str
    meta: JsonObject


def get_frame(engine: Engine, frame: str) -> FrameDocument:
    """One frame, whole: what it says, what it was made from, and whether it still holds.

    It is named by its id or by 6 or more digits of it.
    """
    frames = engine.frames
    stored = find_frame(frames.store, frame).frame
    tree = tree_as_on_disk(engine, stored.path)
    state = frames.store.note_states([stored.frame_id]).get(stored.frame_id)
    judged, _, superseded_by = _state_of(frames, tree, stored, state)
    replaced = frames.store.superseded_by([stored.frame_id])
    content = frames.heads.bodies([stored.content]).get(stored.content)
    place = _place(frames, tree, stored)
    return {
        "frame_id": stored.frame_id.hex(),
        "path": stored.path,
        "symbol": place.symbol,
        "line": place.line,
        "type": stored.type,
        "agent": stored.agent,
        "freshness": judged.freshness.value,
        "because": judged.because,
        "tokens": frames.counter.count_text(content) if content is not None else 0,
        "content": content,
        "inputs": _inputs(frames.store, stored),
        "supersedes": [one.head.frame_id.hex() for one in replaced],
        "superseded_by": superseded_by,
        "created_at": iso_utc(stored.created_ns),
        "node_id": stored.node_id.hex(),
        "meta": json.loads(stored.meta),
    }


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


class HeadListDocument(TypedDict):
    """Result of `get-head`."""

    path: str
    heads: list[JsonObject]


def get_head(
    engine: Engine, node: str, *, frame_type: str | None = None, agent: str | None = None
) -> HeadListDocument:
    """The heads of a node."""
    path = path_of(engine.frames, engine.tree, engine.trees, node)
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


def path_of(frames: Frames, tree: Tree, trees: TreeStore, node: str) -> str:
    """The path of a node, also of one that is gone but has frames."""
    try:
        return resolve_node(tree, trees, node)["path"]
    except UnknownNodeError:
        if node.startswith("id:"):
            raise
        path = paths.parse(node.removeprefix("path:"))
        if not frames.store.history(path):
            raise
        return path
