"""What is made of what is known of a file, without a process."""

from __future__ import annotations

from pathlib import Path

from lsprotocol import types

from indexer.lsp.answers import Editor, diagnostics
from indexer.lsp.notes import Known, Note, hover_text, lens_title
from indexer.lsp.texts import UTF8, UTF16, LineMap, Place

LINES = ["# 😋 first", "@cached", "def read():", "    pass"]


def note(**differs: object) -> Note:
    made = Note("f" * 64, "a.py", "note", "ann", "fresh", "", "It reads.", "Gauge.read", 2)
    # Values from a table.
    return made._replace(**differs)  # type: ignore[arg-type]


def known(*notes: Note, buffer: list[str] = LINES) -> Known:
    return Known("a.py", "0" * 32, LINES, buffer, LineMap(LINES, buffer), [*notes])


def test_a_note_stands_at_the_name_below_what_decorates_it() -> None:
    assert known().place(note()) == Place(2, 4, 8)
    assert known().place(note(symbol=None, line=None)) == Place(0, 0, 9)
    moved = known(buffer=["new", *LINES])
    assert moved.place(note()) == Place(3, 4, 8)
    assert not moved.is_saved


def test_what_a_model_wrote_is_shown_and_asks_nobody() -> None:
    summary = note(agent="merkle:llm", type="summary", freshness="stale", because="it changed")
    editor = Editor(Path("/"), {}, UTF16)
    assert diagnostics(editor, known(summary)) == []
    assert lens_title([summary], is_saved=True) == "summary (stale): It reads."
    assert lens_title([summary, note()], is_saved=True) == "2 notes and summaries, 1 not fresh"
    plain = hover_text([summary], is_saved=False, markdown=False)
    assert plain == (
        "stale summary about Gauge.read by merkle:llm (it changed)\nIt reads.\n\n"
        "(about the file on disk, from which the buffer differs)"
    )


def test_places_are_counted_as_the_editor_counts() -> None:
    lost = note(symbol=None, line=None, freshness="orphaned", because="it is gone")
    for encoding, end in ((UTF16, 10), (UTF8, 12)):
        (found,) = diagnostics(Editor(Path("/"), {}, encoding), known(lost))
        assert found.range == types.Range(types.Position(0, 0), types.Position(0, end))
        assert found.message == "orphaned note by ann: it is gone\nIt reads."
