"""What is known of an open file: notes and summaries, each at the line that it is about."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from indexer.core import paths
from indexer.core.frames import GENERATED_AGENT_PREFIX, OUTLINER
from indexer.lsp.literal import fenced, first_line, shown, span
from indexer.lsp.texts import LineMap, Place, find_name, text_lines, whole_line
from indexer.scan.reading import OPEN_FILE
from indexer.service.client import RemoteError
from indexer.service.workspace import Workspace

MOST: Final = 500
"""Notes and summaries of one file that are shown."""

LARGEST: Final = 16 << 20
"""Bytes of a file in which places are looked for."""

UNKNOWN_NODE: Final = "unknown_node"
"""An error's code as in the engine, which a client does not load."""

_TRIES: Final = 3
"""How often it is asked what is known of a file that changes meanwhile; an event asks again."""

_NOT_HELD: Final = frozenset(("stale", "orphaned"))
OF_THE_SAVED_FILE: Final = "about the file on disk, from which the buffer differs"


class Note(NamedTuple):
    """A note, or what a model wrote, about a file or a symbol in it."""

    frame_id: str
    path: str
    type: str
    agent: str
    freshness: str
    because: str
    content: str
    symbol: str | None
    line: int | None
    """Where the symbol begins in the saved file, from 1."""

    @property
    def is_generated(self) -> bool:
        """Whether a generator keeps it, so that nobody confirms or replaces it."""
        return self.agent.startswith(GENERATED_AGENT_PREFIX)

    @property
    def needs_somebody(self) -> bool:
        """Whether it does not hold any more, and only a person or agent can say what does."""
        return not self.is_generated and self.freshness in _NOT_HELD


class Known(NamedTuple):
    """What is known of a file at one moment, and how its lines stand to the editor's."""

    path: str
    node_id: str | None
    """None where the index does not have the file."""
    saved: list[str]
    buffer: list[str]
    lines: LineMap
    notes: list[Note]

    @property
    def is_saved(self) -> bool:
        """Whether the editor shows what is on disk."""
        return self.lines.is_same

    def place(self, note: Note) -> Place:
        """Where in the buffer the name stands that a note is about; else the file's first line."""
        if note.line is None:
            return whole_line(self.buffer, 0)
        name = (note.symbol or "").rpartition(".")[2].rpartition(" > ")[2]
        saved = find_name(self.saved, note.line - 1, note.line + len(self.saved), name)
        line = self.lines.to_new(saved.line)
        return find_name(self.buffer, line, line, name)

    def by_line(self) -> list[tuple[Place, list[Note]]]:
        """The notes of each place, in order of the buffer."""
        found: dict[Place, list[Note]] = {}
        for note in self.notes:
            found.setdefault(self.place(note), []).append(note)
        return sorted(found.items(), key=lambda one: one[0])


def known_of(workspace: Workspace, path: str, buffer: str | None) -> Known:
    """Ask what is known of a file; without a buffer it is taken to be as it is on disk."""
    text = read_text(workspace.root, path)
    for _ in range(_TRIES):
        before, (node_id, notes) = text, notes_of(workspace, path)
        text = read_text(workspace.root, path)
        if text == before:
            break
    saved = text_lines(text)
    shown_lines = saved if buffer is None else text_lines(buffer)
    return Known(path, node_id, saved, shown_lines, LineMap(saved, shown_lines), notes)


def notes_of(workspace: Workspace, path: str) -> tuple[str | None, list[Note]]:
    """The NodeID of a file, and what is known of it, the oldest first; nothing if it is ignored."""
    try:
        found: Any = workspace.get_node(f"path:{path}", max_frames=MOST)
    except RemoteError as error:
        if error.code == UNKNOWN_NODE:
            return None, []
        raise
    # An outline only repeats what the file says.
    frames = [frame for frame in found["frames"] if frame["agent"] != OUTLINER]
    return found["node_id"], [_note(found["path"], frame) for frame in reversed(frames)]


def _note(path: str, frame: dict[str, Any]) -> Note:
    return Note(
        frame_id=frame["frame_id"],
        path=path,
        type=frame["type"],
        agent=frame["agent"],
        freshness=frame["freshness"],
        because=frame["because"],
        content=frame["content"] or "(`merkle compact` dropped what it says)",
        symbol=frame.get("symbol"),
        line=frame.get("line"),
    )


def read_text(root: Path, path: str) -> str:
    """A file as it is on disk; empty if it is gone, too large or no regular file."""
    try:
        descriptor = os.open(root / paths.text_to_os(path), OPEN_FILE)
    except OSError:
        return ""
    with open(descriptor, "rb") as file:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or state.st_size > LARGEST:
            return ""
        return file.read(LARGEST).decode("utf-8", "replace")


def hover_text(notes: Sequence[Note], *, is_saved: bool, markdown: bool) -> str:
    """Some notes, whole."""
    parts = [_marked(note) if markdown else _plain(note) for note in notes]
    if not is_saved:
        parts.append(f"*{OF_THE_SAVED_FILE}*" if markdown else f"({OF_THE_SAVED_FILE})")
    return "\n\n".join(parts)


def _marked(note: Note) -> str:
    about = f" about {span(note.symbol)}" if note.symbol else ""
    head = f"**{_held(note)}** {span(note.type)}{about} by {span(note.agent)}"
    reason = f"\n\n{fenced(note.because)}" if note.because else ""
    return f"{head}{reason}\n\n{fenced(note.content)}"


def _plain(note: Note) -> str:
    about = f" about {shown(note.symbol)}" if note.symbol else ""
    reason = f" ({shown(note.because)})" if note.because else ""
    head = f"{_held(note)} {_names(note.type)}{about} by {_names(note.agent)}{reason}"
    return f"{head}\n{shown(note.content)}"


def _held(note: Note) -> str:
    return note.freshness if note.freshness.isalpha() else "unknown"


def _names(text: str) -> str:
    """The name of a type or an agent, cut: it is short, unless somebody meant harm."""
    return first_line(text, 128)


def lens_title(notes: Sequence[Note], *, is_saved: bool) -> str:
    """Some notes in a line above what they are about."""
    stale = sum(note.freshness != "fresh" for note in notes)
    if len(notes) == 1:
        (note,) = notes
        label = f" ({_held(note)})" if stale else ""
        title = f"{_names(note.type)}{label}: {first_line(note.content)}"
    else:
        title = f"{len(notes)} {_kinds(notes)}" + (f", {stale} not fresh" if stale else "")
    return title if is_saved else f"{title} (saved file)"


def _kinds(notes: Iterable[Note]) -> str:
    kinds = {_names(note.type) for note in notes}
    return f"{kinds.pop()}s" if len(kinds) == 1 else "notes and summaries"


def diagnostic_text(note: Note, *, is_saved: bool) -> str:
    """Why a note does not hold, and how it begins."""
    about = f" about {first_line(note.symbol)}" if note.symbol else ""
    reason = first_line(note.because, 300) or "what it is about changed"
    who = f"{_held(note)} {_names(note.type)}{about} by {_names(note.agent)}"
    said = f"{who}: {reason}\n{first_line(note.content)}"
    return said if is_saved else f"{said}\n({OF_THE_SAVED_FILE})"
