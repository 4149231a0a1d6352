"""What an editor is shown and can do, by the protocol library's own client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from indexer.lsp import commands
from tests.lsp.conftest import QUALITY
from tests.support.editor import EditorClient
from tests.support.waiting import wait_until
from tests.support.wire import end_service

JUDGE = 29
"""The line of `def judge`, from 0."""

SLOWER = "    rate = abs(reading.value - before.value) / minutes\n"
FASTER = "    rate = abs(reading.value - before.value) / (minutes * 2)\n"


def lenses(editor: EditorClient, path: str) -> list[tuple[int, str]]:
    found = editor.ask("text_document_code_lens", types.CodeLensParams(editor.document(path)))
    return [(lens.range.start.line, lens.command.title) for lens in found]


def places(locations: Any, root: Path) -> list[tuple[str, int, int]]:
    return [
        (one.uri.removeprefix(root.as_uri() + "/"), one.range.start.line, one.range.start.character)
        for one in locations
    ]


def test_notes_stand_where_they_belong_and_symbols_lead_to_each_other(
    shared: EditorClient,
) -> None:
    editor, sample = shared, shared.root
    can = editor.server.capabilities
    assert can.position_encoding == types.PositionEncodingKind.Utf16
    assert set(can.execute_command_provider.commands) >= {commands.COMPOSE, commands.STILL_TRUE}
    assert editor.stale(QUALITY) == []
    assert lenses(editor, QUALITY) == [
        (0, "note: Marks, and never drops."),
        (JUDGE, "note: Rates are in metres per minute."),
    ]
    # On the declaration, on a use of it, and at the top of the file.
    told = editor.hover(QUALITY, JUDGE, 6)
    assert told == (
        "**fresh** `note` about `judge` by `ann`\n\n```text\nRates are in metres per minute.\n```"
    )
    assert editor.hover(QUALITY, 23, 32) == told
    assert "Ask the harbour." in (editor.hover(QUALITY, 0, 3) or "")
    assert editor.hover(QUALITY, 25, 10) is None

    found = editor.ask(
        "text_document_document_symbol", types.DocumentSymbolParams(editor.document(QUALITY))
    )
    assert [(one.name, one.kind.name) for one in found] == [
        ("Limits", "Class"), ("check", "Function"), ("judge", "Function"),
    ]  # fmt: skip
    assert [one.name for one in found[0].children] == ["max_rate_m_per_minute", "max_gap"]
    assert found[2].selection_range == types.Range(
        types.Position(JUDGE, 4), types.Position(JUDGE, 9)
    )
    listed = editor.ask("workspace_symbol", types.WorkspaceSymbolParams("judge"))
    assert (listed[0].name, listed[0].location.range.start.line) == ("judge", JUDGE)

    here = editor.document(QUALITY)
    used = types.Position(23, 32)
    assert places(
        editor.ask("text_document_definition", types.DefinitionParams(here, used)), sample
    ) == [(QUALITY, JUDGE, 4)]
    elsewhere = types.DefinitionParams(here, types.Position(32, 18))
    assert places(editor.ask("text_document_definition", elsewhere), sample) == [
        ("ingest/saltgauge/readings.py", 15, 6)
    ]
    asked = types.ReferenceParams(types.ReferenceContext(True), here, used)
    uses = places(editor.ask("text_document_references", asked), sample)
    assert uses[:2] == [(QUALITY, JUDGE, 4), (QUALITY, 23, 32)]
    # What is not in the workspace is nobody's.
    outside = types.TextDocumentIdentifier("file:///etc/passwd")
    assert not editor.ask("text_document_code_lens", types.CodeLensParams(outside))


def both(editor: EditorClient) -> list[types.Diagnostic]:
    found = editor.stale(QUALITY)
    return found if len(found) == 2 else []


@pytest.mark.timeout(240)
def test_a_stale_note_is_told_of_until_somebody_says_what_holds(sample: Path) -> None:
    file = sample / QUALITY
    before = file.read_text()
    with EditorClient(sample, "lsp", "--agent", "ann") as editor:
        editor.open(QUALITY)
        assert editor.actions(QUALITY, JUDGE) == []
        # Something else saves the file: the service tells, and nobody asks the editor.
        file.write_text(before.replace(SLOWER, FASTER))
        told = wait_until(lambda: both(editor), "both are stale")
        at_top, at_symbol = sorted(told, key=lambda one: one.range.start.line)
        assert at_symbol.range == types.Range(types.Position(JUDGE, 4), types.Position(JUDGE, 9))
        assert at_symbol.severity == types.DiagnosticSeverity.Information
        assert (at_symbol.source, at_symbol.code) == ("merkle", "stale-note")
        assert at_symbol.message.startswith("stale note about judge by ann: ")
        remark = "\n(about the file on disk, from which the buffer differs)"
        assert at_symbol.message.endswith(f"\nRates are in metres per minute.{remark}")
        assert at_top.range.start.line == 0
        wait_until(lambda: editor.refreshed, "the lenses are asked for again")
        editor.type(QUALITY, file.read_text())
        wait_until(
            lambda: all(not one.message.endswith(remark) for one in editor.stale(QUALITY)),
            "the buffer is the file again",
        )
        at_top, at_symbol = sorted(editor.stale(QUALITY), key=lambda one: one.range.start.line)

        offered = editor.actions(QUALITY, JUDGE)
        assert [one.command.title for one in offered] == ["still true", "replace", "delete"]
        assert all(list(one.diagnostics) == [at_symbol] for one in offered)
        assert editor.actions(QUALITY, JUDGE, only=[types.CodeActionKind.Refactor]) == []
        still, _, _ = offered
        assert editor.execute(still.command.command, *still.command.arguments) == "confirmed"
        wait_until(lambda: len(editor.stale(QUALITY)) == 1, "the confirmed one is gone")

        _, replace, _ = editor.actions(QUALITY, 0)
        # An editor that cannot ask for the text is told what to type.
        assert editor.execute(replace.command.command, *replace.command.arguments) is None
        typed = wait_until(lambda: editor.messages, "it is told")[-1]
        assert typed.startswith(f"write the new text with: merkle note {QUALITY} --replaces ")
        given = {**replace.command.arguments[0], "text": "Marks; drops nothing."}
        assert editor.execute(replace.command.command, given) == "replaced"
        wait_until(lambda: not editor.stale(QUALITY), "nothing is stale")
        assert lenses(editor, QUALITY)[0] == (0, "note: Marks; drops nothing.")

        file.write_text(before)
        wait_until(lambda: len(editor.stale(QUALITY)) == 2, "both")
        for line in (0, JUDGE):
            delete = editor.actions(QUALITY, line)[-1].command
            assert editor.execute(delete.command, *delete.arguments) == "withdrawn by ann"
        wait_until(lambda: not editor.stale(QUALITY), "nothing is stale")
        assert lenses(editor, QUALITY) == []


def test_a_buffer_that_differs_is_the_editors(shared: EditorClient) -> None:
    editor, before = shared, (shared.root / QUALITY).read_text()
    editor.type(QUALITY, before.replace("\n", "\n# first\n# 😋\n", 1))
    assert lenses(editor, QUALITY) == [
        (0, "note: Marks, and never drops. (saved file)"),
        (JUDGE + 2, "note: Rates are in metres per minute. (saved file)"),
    ]
    told = editor.hover(QUALITY, JUDGE + 2, 6)
    assert told is not None
    assert told.endswith("*about the file on disk, from which the buffer differs*")
    editor.type(QUALITY, before.replace("def judge", "x = '😋' ; judge = 1  #"))
    wait_until(
        lambda: (
            (JUDGE, "note: Rates are in metres per minute. (saved file)") in lenses(editor, QUALITY)
        ),
        "it is where it was",
    )
    # Counted in UTF-16, where the character before it has two units.
    found = editor.ask("text_document_code_lens", types.CodeLensParams(editor.document(QUALITY)))
    assert found[1].range.start.character == len("x = '😋' ; ") + 1

    (copy,) = editor.actions(QUALITY, JUDGE)
    assert copy.kind == "source.merkle.context"
    context = editor.execute(copy.command.command, *copy.command.arguments)
    assert context["about"] == f"{QUALITY}::judge"
    assert "def judge(reading: Reading" in context["text"]
    assert "Rates are in metres per minute." in context["text"]
    assert context["remark"] == "about the file on disk, from which the buffer differs"
    assert 0 < context["tokens"] <= context["budget"]
    lines = {"start": {"line": 17, "character": 0}, "end": {"line": 19, "character": 0}}
    selected = editor.execute(
        commands.COMPOSE, {"uri": editor.uri(QUALITY), "range": lines, "budget": 300}
    )
    assert selected["about"] == f"{QUALITY}:18-19"
    assert selected["tokens"] <= 300


def test_what_a_person_asks_for_is_done_or_refused_in_words(shared: EditorClient) -> None:
    editor = shared
    for given in ([], [{"frame_id": 3}], [1, 2]):
        with pytest.raises(Exception, match="takes one object"):
            editor.execute(commands.STILL_TRUE, *given)
    with pytest.raises(Exception, match="no frame"):
        editor.execute(commands.STILL_TRUE, {"frame_id": "f" * 64})
    with pytest.raises(Exception, match="not in the workspace"):
        editor.execute(commands.COMPOSE, {"uri": "file:///etc/passwd"})
    with pytest.raises(Exception, match="not understood"):
        editor.execute(commands.COMPOSE, {"uri": editor.uri(QUALITY), "budget": -1})


@pytest.mark.soak
def test_it_follows_the_services_successor(sample: Path) -> None:
    file = sample / QUALITY
    before = file.read_text()
    with EditorClient(sample, "lsp") as editor:
        editor.open(QUALITY)
        for text in (before.replace(SLOWER, FASTER), before):
            end_service(sample)
            # Whoever asks starts another one, and what is saved from then on is told again.
            assert len(lenses(editor, QUALITY)) == 2
            file.write_text(text)
            # Over before the next round.
            wait_until(lambda: bool(both(editor)) == (text != before), "it is told")  # noqa: B023
