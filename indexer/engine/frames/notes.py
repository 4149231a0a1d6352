"""Frames written by agents: checked, bound to what was read, journalled, carried on a rename."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypedDict

from indexer.core import paths
from indexer.core.arguments import FLAG, TABLE, TEXT, TEXTS, checked, objects
from indexer.core.frames import (
    ON_CONTENT,
    ON_LISTING,
    ON_SYMBOL,
    Action,
    FrameId,
    Freshness,
    Head,
    HeadKey,
    body_hash,
    is_generated,
)
from indexer.core.ids import NodeId, is_id_prefix
from indexer.core.kinds import Kind
from indexer.core.secrets import check_secrets
from indexer.core.tree import Entry, Tree
from indexer.engine.code.symbols import found_among, split_symbol
from indexer.engine.documents import JsonObject
from indexer.engine.frames.agents import check_writer
from indexer.engine.frames.find import find_frame
from indexer.engine.frames.freshness import (
    ON,
    SHA256,
    Judged,
    bound_document,
    judge,
    note_basis,
    place_of,
)
from indexer.engine.frames.note_records import CARRIED_FROM, NO_WORDS, REPLACES, note_record
from indexer.engine.frames.types import TYPE_NAME, FrameType
from indexer.engine.make.events import Event
from indexer.engine.tree.resolve import resolve_node
from indexer.engine.tree.scan import bring_up_to_date
from indexer.errors import MerkleError, UsageError
from indexer.store.frames import FrameStore
from indexer.store.trees import TreeStore

if TYPE_CHECKING:
    from indexer.engine.frames.opened import Frames
    from indexer.engine.workspace import Engine

MAX_BODY: Final = 1 << 20
MAX_META: Final = 16 << 10


class FrameRefusedError(UsageError):
    """The frame cannot be stored as it is; nothing was."""

    code = "frame_refused"


class WrittenDocument(TypedDict):
    """Result of `put-frame`."""

    frame_id: str
    created: bool
    path: str
    symbol: str | None
    """What of the file it is about, by its qualified name; None for all of it."""
    line: int | None
    """Where that symbol begins now."""
    freshness: str
    because: str
    replaced: list[str]
    """The notes whose place it took."""


def put_frame(
    engine: Engine,
    node: str,
    content: str,
    *,
    frame_type: str,
    agent: str,
    seen: str | None = None,
    on: str | None = None,
    replaces: Sequence[str] = (),
    replace_mine: bool = False,
    meta: Mapping[str, str] | None = None,
    allow_secrets: bool = False,
) -> WrittenDocument:
    """Append a note, bound to what its author read.

    `seen` is the NodeID that was read; without it the node as it is now. About PATH::SYMBOL it
    is bound to that symbol's text alone: of several symbols of one name, to the first in the
    file, and it holds while one of them has that text. Other notes stay what they are, but for
    those that it says it replaces: some by their ids, or with `replace_mine` all of the same
    type that its author wrote about the node.
    """
    given = NewNote(node, content, frame_type, agent, seen, on, replaces, replace_mine, meta or {})
    return written_documents(engine, [given], allow_secrets)[0]


class NewNote(NamedTuple):
    """A note that somebody wants to write."""

    node: str
    content: str
    type: str
    agent: str
    seen: str | None = None
    on: str | None = None
    replaces: Sequence[str] = ()
    replace_mine: bool = False
    meta: Mapping[str, str] = {}


class WrittenFramesDocument(TypedDict):
    """Result of `put-frame` with several."""

    frames: list[WrittenDocument]


MOST_TOGETHER: Final = 1000
_SHAPES: Final = {
    **dict.fromkeys(("node", "content", "type", "agent", "seen", "on"), TEXT),
    "replaces": TEXTS,
    "replace_mine": FLAG,
    "meta": TABLE,
}
_REQUIRED: Final = {name: _SHAPES[name] for name in ("node", "content", "type", "agent")}
_OPTIONAL: Final = {name: shape for name, shape in _SHAPES.items() if name not in _REQUIRED}
NewNotes = Annotated[Sequence[object], objects(_REQUIRED, _OPTIONAL)]


def put_frames(
    engine: Engine, frames: NewNotes, *, allow_secrets: bool = False
) -> WrittenFramesDocument:
    """Append several notes in one transaction: all of them, or none.

    Each is an object with `node`, `content`, `type` and `agent`, and what else `put_frame`
    takes. What they replace is what was there before them.
    """
    if len(frames) > MOST_TOGETHER:
        raise FrameRefusedError(
            f"{len(frames)} frames are more than are stored together",
            hint=f"give {MOST_TOGETHER} at a time",
        )
    notes = []
    for number, one in enumerate(frames, 1):
        with _numbered(number):
            if not isinstance(one, Mapping):
                raise FrameRefusedError("it is no object", hint=f"it has: {', '.join(_SHAPES)}")
            notes.append(NewNote(**checked(_REQUIRED, _OPTIONAL, one)))
    return {"frames": written_documents(engine, notes, allow_secrets, numbered=True)}


@contextmanager
def _numbered(number: int | None) -> Iterator[None]:
    """Say of several frames which one is refused."""
    try:
        yield
    except MerkleError as error:
        if number is None:
            raise
        raise type(error)(f"frame {number}: {error.message}", hint=error.hint) from error


def written_documents(
    engine: Engine,
    notes: Sequence[NewNote],
    allow_secrets: bool,
    *,
    numbered: bool = False,
    joining: Sequence[JsonObject] = (),
) -> list[WrittenDocument]:
    """Check everything, then store it in one transaction, then tell of it.

    `joining` are records of agents that are registered with it.
    """
    frames = engine.frames
    places, newcomers = [], {one["id"] for one in joining}
    for number, note in enumerate(notes, 1):
        with _numbered(number if numbered else None):
            if note.agent not in newcomers:
                check_writer(frames.store, note.agent)
            _check(frames.types, note.content, note.type, note.meta, allow_secrets)
            node, symbol = split_symbol(engine.tree, note.node)
            path = resolve_node(engine.tree, engine.trees, node)["path"]
            bring_up_to_date(engine, path)
            places.append((path, symbol))
    planned = []
    for number, (note, place) in enumerate(zip(notes, places, strict=True), 1):
        with _numbered(number if numbered else None):
            planned.append(_planned(frames, engine.tree, engine.trees, note, *place))
    fresh = [one for one in planned if one.is_new]
    engine.records.write([*joining, *(one.record for one in fresh)])
    documents = []
    for one in planned:
        documents.append(_written(frames, engine.tree, one))
        if one.is_new:
            engine.publish_frames(_told(frames, one.record, documents[-1]["because"]))
    return documents


class _Planned(NamedTuple):
    """A note as it will be stored."""

    record: JsonObject
    key: HeadKey
    identity: FrameId
    created: bool
    is_new: bool
    """Whether there is anything to store."""


def _planned(
    frames: Frames, tree: Tree, trees: TreeStore, note: NewNote, path: str, symbol: str | None
) -> _Planned:
    frame_type, agent, content = note.type, note.agent, note.content
    entry = tree.get(path)
    if entry is None:
        raise FrameRefusedError(f"{paths.on_screen(path)} is gone", hint="scan, then look again")
    if entry.kind is Kind.DIRECTORY and frame_type in frames.types:
        raise FrameRefusedError(
            f"folders' frames of type {frame_type} are made from their children's",
            hint="write about a file in it, or under a type of your own",
        )
    node_id, document = _bound_to(frames, tree, trees, path, entry, note, symbol)
    record = note_record(frames, path, frame_type, agent, content, node_id, document, note.meta)
    key: HeadKey = (path, frame_type, agent)
    identity = FrameId(bytes.fromhex(record["frame_id"]))
    replaced = _replaced(frames, key, identity, note.replaces, note.replace_mine)
    if replaced:
        record[REPLACES] = [one.hex() for one in replaced]
    created = not frames.heads.has_note(identity, body_hash(content))
    # A note that is not stored yet is new, whatever else its author said there.
    known = None if created else frames.heads.head(*key)
    is_new = bool(replaced) or known is None or known.frame_id != identity
    return _Planned(record, key, identity, created, is_new)


def _written(frames: Frames, tree: Tree, planned: _Planned) -> WrittenDocument:
    identity = planned.identity
    frames.remember_inputs(identity, planned.record["inputs"])
    if planned.created:
        # What has just been stored is as it was planned, and is not looked for among all others.
        basis = note_basis(frames.algorithm, planned.key[0], planned.record["inputs"])
        content = body_hash(planned.record["body"])
        head: Head | None = Head(identity, basis, content, None, None, Action.WRITTEN)
    else:
        head = frames.heads.live_frame(planned.key, identity)
    # Another of the same batch may have taken its place.
    judged = Judged(Freshness.STALE, "superseded at once")
    if head is not None:
        judged = judge(frames, tree, *planned.key, head)
    path = planned.key[0]
    place = place_of(frames, path, tree.get(path), identity)
    return {
        "frame_id": identity.hex(),
        "created": planned.created,
        "path": path,
        "symbol": place.symbol,
        "line": place.line,
        "freshness": judged.freshness.value,
        "because": judged.because,
        "replaced": planned.record.get(REPLACES, []),
    }


def _told(frames: Frames, record: JsonObject, because: str) -> list[Event]:
    """What to tell of a note that was written, and of those whose place it took."""
    identity = FrameId(bytes.fromhex(record["frame_id"]))
    told = [Event("written", record["path"], record["type"], identity, because)]
    by = f"superseded by {record['frame_id'][:12]}"
    for one in frames.store.superseded_by([identity]) if REPLACES in record else ():
        if one.head.frame_id.hex() in record[REPLACES]:
            told.append(Event("superseded", one.key[0], one.key[1], one.head.frame_id, by))
    return told


def _replaced(
    frames: Frames, key: HeadKey, identity: FrameId, named: Sequence[str], mine: bool
) -> list[FrameId]:
    """The notes that a new one takes the place of, without those whose place it has already."""
    path, frame_type, agent = key
    found: dict[FrameId, None] = {}
    for text in named:
        frame = find_frame(frames.store, text).frame
        if frame.path != path or is_generated(frame.agent):
            what = "a generator keeps it" if is_generated(frame.agent) else "it is about another"
            raise FrameRefusedError(
                f"{frame.frame_id.hex()[:12]} cannot be replaced by a note about"
                f" {paths.on_screen(path) or 'the root'}: {what}",
                hint="`merkle list-frames NODE` lists the notes that can be",
            )
        by = None
        if frames.heads.live_frame((path, frame.type, frame.agent), frame.frame_id) is None:
            by = frames.store.note_states([frame.frame_id])[frame.frame_id].superseded_by
        if by is not None and _is_withdrawal(frames, by):
            raise FrameRefusedError(
                f"{frame.frame_id.hex()[:12]} was withdrawn", hint="write without replacing it"
            )
        if by not in (None, identity):
            raise FrameRefusedError(
                f"{frame.frame_id.hex()[:12]} was superseded by {by.hex()[:12]}",
                hint=f"replace that one: --replaces {by.hex()[:12]}",
            )
        if by is None:
            found[frame.frame_id] = None
    if mine:
        slot = (frame_type, agent)
        notes = frames.heads.notes_at(path)
        found.update((head.frame_id, None) for where, head in notes if where == slot)
    found.pop(identity, None)
    return list(found)


def _is_withdrawal(frames: Frames, identity: FrameId) -> bool:
    stored = frames.store.frame(identity)
    return stored is not None and stored.frame.content == NO_WORDS


def _check(
    types: Mapping[str, FrameType],
    content: str,
    frame_type: str,
    meta: Mapping[str, str],
    allow_secrets: bool,
) -> None:
    if not TYPE_NAME.fullmatch(frame_type):
        raise FrameRefusedError(
            f"{frame_type!r} is no frame type",
            hint="use lower-case letters, digits, dot, dash and underscore",
        )
    declared = types.get(frame_type)
    if declared is not None and not declared.rules.gathers:
        raise FrameRefusedError(
            f"frames of type {frame_type} are kept by a generator",
            hint="write under a type of your own, such as note",
        )
    try:
        size = len(content.encode())
    except UnicodeEncodeError as error:
        raise FrameRefusedError("the content is not valid Unicode text") from error
    if not content.strip():
        raise FrameRefusedError("the content is empty", hint="write what there is to say")
    if size > MAX_BODY:
        raise FrameRefusedError(
            f"the content has {size} bytes; a frame holds at most {MAX_BODY}",
            hint="say less, or split it over several types",
        )
    check_meta(meta)
    if not allow_secrets:
        check_secrets(FrameRefusedError, "content", content)
        check_secrets(FrameRefusedError, "metadata", meta)


def check_meta(meta: Mapping[str, str]) -> None:
    """Refuse metadata that no frame may have."""
    if not all(isinstance(k, str) and isinstance(v, str) for k, v in meta.items()):
        raise FrameRefusedError("metadata must be text by name")
    if CARRIED_FROM in meta:
        raise FrameRefusedError(f"{CARRIED_FROM} is set when a note follows a rename, by nobody")
    try:
        size = sum(len(k.encode()) + len(v.encode()) for k, v in meta.items())
    except UnicodeEncodeError as error:
        raise FrameRefusedError("the metadata is not valid Unicode text") from error
    if size > MAX_META:
        raise FrameRefusedError(
            f"the metadata has {size} bytes; it may have {MAX_META}", hint="say it in the content"
        )


def _bound_to(
    frames: Frames,
    tree: Tree,
    trees: TreeStore,
    path: str,
    entry: Entry,
    note: NewNote,
    symbol: str | None,
) -> tuple[NodeId, dict[str, Any]]:
    """The node an author read, and what of it the note is bound to."""
    node_id, is_past = tree.node_id(path, entry), False
    if note.seen is not None and not node_id.hex().startswith(note.seen):
        node_id, entry = _as_seen(trees, path, note.seen)
        is_past = True
    elif note.seen is not None and note.seen != node_id.hex():
        # A whole id says clearly which one it is.
        _check_seen(trees, path, note.seen)
    on = note.on or (ON_LISTING if entry.kind is Kind.DIRECTORY else ON_CONTENT)
    if on.startswith(ON_SYMBOL) or (symbol is not None and note.on is not None):
        raise FrameRefusedError(
            "a note about a symbol is bound to that symbol's text and to nothing else",
            hint="name it as PATH::SYMBOL, without --on",
        )
    if symbol is not None:
        on = ON_SYMBOL + _symbol_meant(frames, path, entry, symbol)
    document = bound_document(frames, path, entry, on)
    if document is None and is_past:
        document = _frame_of_then(frames.store, path, node_id, on)
    if document is None:
        raise FrameRefusedError(
            f"there is no fresh {on} of {paths.on_screen(path)} to bind to",
            hint="bind with --on content, or run `merkle regenerate` first",
        )
    return node_id, document


def _check_seen(trees: TreeStore, path: str, seen: str) -> None:
    """Refuse what does not say clearly which version of a node was read."""
    if not is_id_prefix(seen):
        raise FrameRefusedError(f"{seen!r} is no NodeID", hint="give the id that was read")
    if len(trees.node_ids(path, seen)) > 1:
        raise FrameRefusedError(
            f"{paths.on_screen(path)} has had several NodeIDs that begin with {seen}",
            hint="give more digits of the one that was read",
        )


def _as_seen(trees: TreeStore, path: str, seen: str) -> tuple[NodeId, Entry]:
    """A node as it was when it had an id."""
    _check_seen(trees, path, seen)
    found = trees.tree_with_node(path, seen)
    if found is None:
        raise FrameRefusedError(
            f"{paths.on_screen(path)} never had a NodeID that begins with {seen}",
            hint="pass the node_id that get-node gave you",
        )
    node_id, then = found
    old = then.get(path)
    assert old is not None
    return node_id, old


def _symbol_meant(frames: Frames, path: str, entry: Entry, wanted: str) -> str:
    """The qualified name of the one symbol that an author names."""
    listed = frames.symbols.of(path, entry)
    if listed is None:
        raise FrameRefusedError(
            f"the symbols of {paths.on_screen(path)} are not known as they were read",
            hint="read it again, or write the note about the whole file",
        )
    names = list(dict.fromkeys(one.symbol for one in found_among(listed, path, wanted)))
    if len(names) > 1:
        raise FrameRefusedError(
            f"{paths.on_screen(wanted)!r} may be: {', '.join(map(paths.on_screen, names[:10]))}",
            hint="give the whole name of the one that is meant",
        )
    return names[0]


def _frame_of_then(store: FrameStore, path: str, node_id: NodeId, on: str) -> dict[str, Any] | None:
    """What the generated frame of an older version said, from the history."""
    for stored in store.history(path, on):
        frame = stored.frame
        if frame.node_id == node_id and is_generated(frame.agent):
            return {ON: on, SHA256: frame.content.hex()}
    return None
