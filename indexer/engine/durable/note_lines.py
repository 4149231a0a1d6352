"""Notes as lines of text: in a file that is kept in the repository, or on their way to a team.

A line is the canonical JSON of a note as the journal keeps it, without the moment at which it was
written. So the same notes are the same lines everywhere, and merge as lines do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypedDict

from indexer.core import paths
from indexer.core.arguments import File
from indexer.core.canonical import canonical_json
from indexer.core.frames import FrameId
from indexer.core.secrets import check_secrets
from indexer.engine.documents import JsonObject
from indexer.engine.durable.packs import check_replaced, check_rights
from indexer.engine.durable.records import KINDS, PackContentError, checked, note_records
from indexer.engine.frames.agents import new_writer
from indexer.engine.frames.note_records import CARRIED_FROM, REPLACES, SUPERSEDED_BY
from indexer.engine.frames.read import path_of
from indexer.engine.make.events import Event, Tell
from indexer.store.atomic import write_atomically
from indexer.store.pack import PackFileError

if TYPE_CHECKING:
    from indexer.engine.durable.journal import Records
    from indexer.engine.frames.opened import Frames
    from indexer.engine.workspace import Engine
    from indexer.store.frames import FrameStore

LARGEST: Final = 64 << 20
"""Bytes of the largest file of notes."""

_NEEDED: Final = frozenset(
    ("agent", "body", "frame_id", "inputs", "meta", "node_id", "path", "type")
)
_KNOWN: Final = _NEEDED | {REPLACES, CARRIED_FROM}


class NotesExportedDocument(TypedDict):
    """Result of `notes export`."""

    file: str
    notes: int


class NotesImportedDocument(TypedDict):
    """Result of `notes import`."""

    file: str
    notes: int
    added: int
    registered: list[str]
    """Authors whom nobody knew here."""


def note_lines(
    store: FrameStore, scope: str = paths.ROOT, only: Iterable[FrameId] | None = None
) -> list[JsonObject]:
    """Every note that counts, and every one that takes another back, in order of their places.

    What they replace is named with what that replaced before: whoever has only the first of
    several learns that it counts no longer.
    """
    wanted = None if only is None else set(only)
    records = list(note_records(store, [scope], wanted and _with_all_before(store, wanted)))
    before = {one["frame_id"]: one.get(REPLACES, []) for one in records}
    lines = []
    for record in records:
        if "head" in record:
            continue
        if wanted is not None and FrameId(bytes.fromhex(record["frame_id"])) not in wanted:
            continue
        line = {name: value for name, value in record.items() if name in _KNOWN}
        if replaced := sorted(_all_before(before, record["frame_id"])):
            line[REPLACES] = replaced
        lines.append(line)
    return sorted(lines, key=lambda one: (one["path"], one["frame_id"]))


def _with_all_before(store: FrameStore, wanted: set[FrameId]) -> set[FrameId]:
    found, ahead = set(wanted), set(wanted)
    while ahead:
        ahead = {one.head.frame_id for one in store.superseded_by(ahead)} - found
        found |= ahead
    return found


def _all_before(before: dict[str, list[str]], frame_id: str) -> set[str]:
    found: set[str] = set()
    ahead = [frame_id]
    while ahead:
        for one in before.get(ahead.pop(), ()):
            if one not in found and one != frame_id:
                found.add(one)
                ahead.append(one)
    return found


def export_notes(engine: Engine, file: File, node: str = "") -> NotesExportedDocument:
    """Write the notes at and below a node to a file, one line each, sorted.

    Those that take another back have a line too, so that a merge does not bring it again.
    """
    path = path_of(engine.frames, engine.tree, engine.trees, node)
    lines = note_lines(engine.frames.store, path)
    try:
        write_atomically(file, b"".join(canonical_json(one) + b"\n" for one in lines))
    except OSError as error:
        raise PackFileError(f"{file} cannot be written: {error.strerror or error}") from error
    return {"file": str(file), "notes": sum(bool(one["body"]) for one in lines)}


def import_notes(
    engine: Engine, file: File, *, allow_secrets: bool = False
) -> NotesImportedDocument:
    """Take in a file of notes: all of it is checked first, and what is known is left as it is.

    Authors whom nobody knows here are registered as writers.
    """
    lines = list(_lines_of(file))
    tell = engine.publish_frames
    added, registered = take_in(engine.records, tell, lines, allow_secrets=allow_secrets)
    notes = sum(bool(one["body"]) for one in lines)
    return {"file": str(file), "notes": notes, "added": added, "registered": registered}


def _lines_of(file: File) -> Iterator[JsonObject]:
    try:
        with open(file, "rb") as opened:
            content = opened.read(LARGEST + 1)
    except OSError as error:
        raise PackFileError(f"{file} cannot be read: {error.strerror or error}") from error
    if len(content) > LARGEST:
        raise PackContentError(f"{file} has more than {LARGEST} bytes")
    for number, raw in enumerate(content.split(b"\n"), 1):
        if not raw.strip():
            continue
        try:
            line = json.loads(raw)
        except (ValueError, RecursionError):
            raise PackContentError(
                f"line {number} of {file} is no JSON",
                hint="a merge may have left its marks there: keep the lines of both sides",
            ) from None
        check_line(line, f"line {number} of {file}")
        yield line


def check_line(line: object, where: str) -> None:
    """Refuse what is no note by its fields; its ids are checked when it is taken in."""
    if not isinstance(line, dict) or not _NEEDED <= line.keys() <= _KNOWN:
        raise PackContentError(
            f"{where} is no note", hint=f"a note has: {', '.join(sorted(_NEEDED))}"
        )
    if not isinstance(line["body"], str):
        raise PackContentError(f"{where} says nothing that is text")
    if not line["body"].strip() and (line["body"] or not line.get(REPLACES)):
        raise PackContentError(f"{where} is an empty note")


def take_in(
    journal: Records, tell: Tell, lines: Iterable[JsonObject], *, allow_secrets: bool = False
) -> tuple[int, list[str]]:
    """Store notes that came from elsewhere, each as its author's; how many are new, and by whom.

    All are checked as those of a pack are, and nothing is stored where one does not hold.
    """
    frames, records = journal.frames, []
    now = frames.clock.now_ns()
    for line in lines:
        record = checked(frames.algorithm, {**line, "kind": "frame", "created_ns": now})
        if not allow_secrets:
            check_secrets(PackContentError, "note", record)
        records.append(record)
    check_replaced(frames, records)
    unique = {one["frame_id"]: one for one in records}.values()
    fresh = [one for one in unique if not _is_known(frames, one)]
    joining = _newcomers(frames.store, fresh)
    check_rights(frames, [*joining, *fresh])
    # In whatever order they stand: what another of them replaces does not count.
    taken = {old: one for one in fresh if one.get("head", True) for old in one.get(REPLACES, ())}
    for record in fresh:
        if (by := taken.get(record["frame_id"])) is not None and by is not record:
            record[SUPERSEDED_BY] = by["frame_id"]
    if fresh:
        journal.write([*joining, *fresh])
        tell([event for one in fresh for event in _events(one)])
    return sum(bool(one["body"]) for one in fresh), [one["id"] for one in joining]


def _events(record: JsonObject) -> Iterator[Event]:
    """What to tell of a note that came: it counts, or others count no longer."""
    path, frame_type, is_head = record["path"], record["type"], record.get("head", True)
    identity, because = FrameId(bytes.fromhex(record["frame_id"])), f"noted by {record['agent']}"
    if is_head and record["body"] and SUPERSEDED_BY not in record:
        yield Event("written", path, frame_type, identity, because)
    for old in record.get(REPLACES, ()) if is_head else ():
        yield Event("superseded", path, frame_type, FrameId(bytes.fromhex(old)), because)


def _is_known(frames: Frames, record: JsonObject) -> bool:
    """Whether a note is stored; of one that takes others back, whether none of them counts."""
    if not KINDS["frame"].is_known(frames, record):
        return False
    named = () if record["body"] else map(bytes.fromhex, record.get(REPLACES, ()))
    return not any(one.live for one in frames.store.note_states(map(FrameId, named)).values())


def _newcomers(store: FrameStore, records: Sequence[JsonObject]) -> list[JsonObject]:
    authors = {record["agent"] for record in records}
    return [new_writer(one) for one in sorted(authors - store.agents().keys())]
