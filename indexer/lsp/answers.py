"""What an editor asks, answered in the protocol's terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lsprotocol import types

from indexer.lsp import commands
from indexer.lsp.addresses import uri_of
from indexer.lsp.code import (
    Symbol,
    Texts,
    declared_at,
    in_buffer,
    symbol_at,
    symbols_like,
    symbols_of,
    uses_of,
)
from indexer.lsp.literal import first_line, shown
from indexer.lsp.notes import (
    Known,
    Note,
    diagnostic_text,
    hover_text,
    known_of,
    lens_title,
    notes_of,
)
from indexer.lsp.texts import LineMap, Place, column, text_lines, units, word_at
from indexer.service.workspace import Workspace

SOURCE: Final = "merkle"
STALE: Final = "stale-note"
COPY: Final = "source.merkle.context"
_FOUND: Final = 200
"""Symbols of the workspace that are shown for a text."""

_KINDS: Final = {
    "class": types.SymbolKind.Class,
    "interface": types.SymbolKind.Interface,
    "trait": types.SymbolKind.Interface,
    "protocol": types.SymbolKind.Interface,
    "struct": types.SymbolKind.Struct,
    "union": types.SymbolKind.Struct,
    "impl": types.SymbolKind.Class,
    "object": types.SymbolKind.Class,
    "enum": types.SymbolKind.Enum,
    "type": types.SymbolKind.Class,
    "module": types.SymbolKind.Module,
    "namespace": types.SymbolKind.Namespace,
    "package": types.SymbolKind.Package,
    "function": types.SymbolKind.Function,
    "method": types.SymbolKind.Method,
    "constructor": types.SymbolKind.Constructor,
    "constant": types.SymbolKind.Constant,
    "variable": types.SymbolKind.Variable,
    "field": types.SymbolKind.Field,
    "property": types.SymbolKind.Property,
    "macro": types.SymbolKind.Function,
    "heading": types.SymbolKind.String,
}


@dataclass(frozen=True, slots=True)
class Open:
    """A file that an editor has open."""

    uri: str
    path: str
    text: str
    version: int | None


@dataclass(frozen=True, slots=True)
class Editor:
    """The editor at the moment of a question: what it has open, and how it counts and shows."""

    root: Path
    files: Mapping[str, Open]
    """The files that are open, by their path."""
    encoding: str
    markdown: bool = True
    hierarchy: bool = True
    """Whether it shows symbols inside of symbols."""
    copies: bool = False
    """Whether it puts the context that it is given where a person can paste it."""

    def known(self, workspace: Workspace, path: str) -> Known:
        """What is known of a file, open or not."""
        here = self.files.get(path)
        return known_of(workspace, path, None if here is None else here.text)

    def range(self, lines: list[str], place: Place) -> types.Range:
        """A place in some lines as the editor counts it."""
        line = lines[place.line] if place.line < len(lines) else ""
        return types.Range(
            types.Position(place.line, units(line, place.start, self.encoding)),
            types.Position(place.line, units(line, place.end, self.encoding)),
        )

    def column(self, known: Known, position: types.Position) -> int:
        """The column of a position in its line, in characters."""
        line = known.buffer[position.line] if position.line < len(known.buffer) else ""
        return column(line, position.character, self.encoding)

    def location(self, texts: Texts, path: str, place: Place) -> types.Location:
        """A place on disk; in a file that is open, where it stands there."""
        here, lines = self.files.get(path), texts.of(path)
        if here is None:
            return types.Location(uri_of(self.root, path), self.range(lines, place))
        buffer = text_lines(here.text)
        moved = in_buffer(LineMap(lines, buffer), buffer, place)
        return types.Location(here.uri, self.range(buffer, moved))


def diagnostics(editor: Editor, known: Known) -> list[types.Diagnostic]:
    """The notes that do not hold any more, each with its reason."""
    return [_diagnostic(editor, known, note) for note in known.notes if note.needs_somebody]


def _diagnostic(editor: Editor, known: Known, note: Note) -> types.Diagnostic:
    return types.Diagnostic(
        range=editor.range(known.buffer, known.place(note)),
        message=diagnostic_text(note, is_saved=known.is_saved),
        severity=types.DiagnosticSeverity.Information,
        code=STALE,
        source=SOURCE,
        data={"frame_id": note.frame_id},
    )


def hover(
    editor: Editor, workspace: Workspace, path: str, position: types.Position
) -> types.Hover | None:
    """What was noted about the name at a position, and about the line it stands in."""
    known = editor.known(workspace, path)
    at = editor.column(known, position)
    found: dict[str, Note] = {}
    for symbol in symbol_at(workspace, known, position.line, at):
        own = known.notes if symbol.path == path else notes_of(workspace, symbol.path)[1]
        found |= {note.frame_id: note for note in own if note.symbol == symbol.symbol}
    here = (note for note in known.notes if known.place(note).line == position.line)
    found |= {note.frame_id: note for note in here}
    if not found:
        return None
    text = hover_text([*found.values()], is_saved=known.is_saved, markdown=editor.markdown)
    kind = types.MarkupKind.Markdown if editor.markdown else types.MarkupKind.PlainText
    return types.Hover(types.MarkupContent(kind, text), _word(editor, known, position.line, at))


def _word(editor: Editor, known: Known, line: int, at: int) -> types.Range | None:
    text = known.buffer[line] if line < len(known.buffer) else ""
    name = word_at(text, at)
    begin = text.rfind(name, 0, at + len(name)) if name else -1
    return editor.range(known.buffer, Place(line, begin, begin + len(name))) if name else None


def lenses(editor: Editor, workspace: Workspace, path: str) -> list[types.CodeLens]:
    """A line above everything that something was noted about."""
    known = editor.known(workspace, path)
    return [
        types.CodeLens(
            range=editor.range(known.buffer, place),
            command=types.Command(
                title=lens_title(notes, is_saved=known.is_saved),
                command=commands.SHOW,
                arguments=[{"path": path, "frame_ids": [note.frame_id for note in notes]}],
            ),
        )
        for place, notes in known.by_line()
    ]


def notes_text(editor: Editor, workspace: Workspace, path: str, wanted: Iterable[str]) -> str:
    """Some notes of a file as plain text."""
    known, chosen = editor.known(workspace, path), set(wanted)
    notes = [note for note in known.notes if note.frame_id in chosen]
    return hover_text(notes, is_saved=known.is_saved, markdown=False) or "it is not there any more"


_ACTIONS: Final = (
    ("still true", commands.STILL_TRUE),
    ("replace", commands.REPLACE),
    ("delete", commands.DELETE),
)


def actions(
    editor: Editor,
    workspace: Workspace,
    path: str,
    wanted: types.Range,
    only: Iterable[str] | None,
) -> list[types.CodeAction]:
    """What can be done about the stale notes of some lines, and with the code itself."""
    known = editor.known(workspace, path)
    kinds = None if only is None else [str(kind) for kind in only]
    found: list[types.CodeAction] = []
    lines = range(wanted.start.line, wanted.end.line + 1)
    if _is_wanted(types.CodeActionKind.QuickFix, kinds):
        for note in known.notes:
            if note.needs_somebody and known.place(note).line in lines:
                found += _about_note(editor, known, note)
    if editor.copies and path in editor.files and _is_wanted(COPY, kinds):
        given = {"uri": editor.files[path].uri, "range": _plain(wanted)}
        title = "merkle: copy context"
        command = types.Command(title, commands.COMPOSE, arguments=[given])
        found.append(types.CodeAction(title, kind=COPY, command=command))
    return found


def _is_wanted(kind: str, kinds: list[str] | None) -> bool:
    kind = str(getattr(kind, "value", kind))
    return kinds is None or any(f"{kind}.".startswith(f"{one}.") for one in kinds if one)


def _about_note(editor: Editor, known: Known, note: Note) -> list[types.CodeAction]:
    given = {
        "frame_id": note.frame_id,
        "path": note.path,
        "symbol": note.symbol,
        # So that a change between the question and the answer is noticed.
        "seen": known.node_id,
        "content": note.content,
    }
    told = first_line(note.content, 40)
    return [
        types.CodeAction(
            title=f"merkle: {words}: {told}",
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[_diagnostic(editor, known, note)],
            command=types.Command(words, command, arguments=[given]),
        )
        for words, command in _ACTIONS
    ]


def _plain(given: types.Range) -> dict[str, dict[str, int]]:
    """A range as the protocol writes it in JSON."""
    ends = {"start": given.start, "end": given.end}
    return {name: {"line": end.line, "character": end.character} for name, end in ends.items()}


def document_symbols(
    editor: Editor, workspace: Workspace, path: str
) -> list[types.DocumentSymbol] | list[types.SymbolInformation]:
    """The symbols of a file, those inside of others below them where the editor shows that."""
    known = editor.known(workspace, path)
    listed = symbols_of(workspace, path)
    if not editor.hierarchy:
        texts = Texts(editor.root)
        return [_information(editor, texts, one) for one in listed]
    top: list[types.DocumentSymbol] = []
    around: list[tuple[Symbol, list[types.DocumentSymbol]]] = []
    for one in listed:
        made = _document_symbol(editor, known, one)
        while around and around[-1][0].end_line < one.end_line:
            around.pop()
        (around[-1][1] if around else top).append(made)
        children: list[types.DocumentSymbol] = []
        made.children = children
        around.append((one, children))
    return top


def _document_symbol(editor: Editor, known: Known, one: Symbol) -> types.DocumentSymbol:
    name = in_buffer(known.lines, known.buffer, declared_at(known.saved, one))
    first = min(known.lines.to_new(one.line), name.line)
    last = max(known.lines.to_new(one.end_line), name.line)
    text = known.buffer[last] if last < len(known.buffer) else ""
    whole = types.Range(
        types.Position(first, 0),
        types.Position(last, units(text, len(text), editor.encoding)),
    )
    return types.DocumentSymbol(
        name=shown(one.name) or "?",
        kind=_KINDS.get(one.kind, types.SymbolKind.Variable),
        range=whole,
        selection_range=editor.range(known.buffer, name),
        detail=first_line(one.signature, 120),
    )


def _information(editor: Editor, texts: Texts, one: Symbol) -> types.SymbolInformation:
    return types.SymbolInformation(
        location=_where(editor, texts, one),
        name=shown(one.symbol) or "?",
        kind=_KINDS.get(one.kind, types.SymbolKind.Variable),
    )


def workspace_symbols(
    editor: Editor, workspace: Workspace, query: str
) -> list[types.SymbolInformation]:
    """The symbols of the workspace whose names have a text in them."""
    texts = Texts(editor.root)
    return [_information(editor, texts, one) for one in symbols_like(workspace, query, _FOUND)]


def _where(editor: Editor, texts: Texts, one: Symbol) -> types.Location:
    return editor.location(texts, one.path, declared_at(texts.of(one.path), one))


def definitions(
    editor: Editor, workspace: Workspace, path: str, position: types.Position
) -> list[types.Location]:
    """Where the name at a position is defined."""
    known, texts = editor.known(workspace, path), Texts(editor.root)
    found = symbol_at(workspace, known, position.line, editor.column(known, position))
    return [_where(editor, texts, one) for one in found]


def references(
    editor: Editor, workspace: Workspace, path: str, position: types.Position, declared: bool
) -> list[types.Location]:
    """Where what the name at a position means is used, and declared if that is asked for."""
    known, texts = editor.known(workspace, path), Texts(editor.root)
    found: list[types.Location] = []
    for one in symbol_at(workspace, known, position.line, editor.column(known, position)):
        found += [_where(editor, texts, one)] * declared
        uses = uses_of(workspace, one, texts)
        found += [editor.location(texts, use.path, use.place) for use in uses]
    return found
