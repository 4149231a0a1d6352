"""Lines, columns and texts of strangers, without a process."""

from __future__ import annotations

import os
import subprocess
import sys
from difflib import SequenceMatcher
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from indexer.core.frames import GENERATED_AGENT_PREFIX, OUTLINER
from indexer.engine.tree.resolve import UnknownNodeError
from indexer.generators.outline import OutlineGenerator
from indexer.lsp import notes
from indexer.lsp.addresses import local_name, path_in, uri_of
from indexer.lsp.literal import fenced, first_line, span
from indexer.lsp.notes import Note, hover_text, lens_title
from indexer.lsp.texts import (
    UTF8,
    UTF16,
    UTF32,
    LineMap,
    Place,
    column,
    find_name,
    text_lines,
    units,
    word_at,
)

SIZES = {UTF8: ("utf-8", 1), UTF16: ("utf-16-le", 2), UTF32: ("utf-32-le", 4)}


@given(st.text(max_size=12), st.sampled_from([*SIZES]))
def test_columns_are_counted_in_the_editors_units(line: str, encoding: str) -> None:
    codec, size = SIZES[encoding]
    for place in range(len(line) + 1):
        count = len(line[:place].encode(codec, "surrogatepass")) // size
        assert units(line, place, encoding) == count
        assert column(line, count, encoding) == place
    assert column(line, 1 << 30, encoding) == len(line)


def test_inside_of_a_character_is_its_beginning() -> None:
    assert [column("a😋b", n, UTF16) for n in range(5)] == [0, 1, 1, 2, 3]


def test_only_a_newline_ends_a_line() -> None:
    assert text_lines("\ufeffa\x0cb\u2028c\r\nd\n") == ["a\x0cb\u2028c", "d"]
    assert text_lines("") == [""]


@given(
    st.lists(st.sampled_from("abcd"), max_size=12), st.lists(st.sampled_from("abcd"), max_size=12)
)
def test_equal_lines_find_each_other(old: list[str], new: list[str]) -> None:
    lines = LineMap(old, new)
    moved = [lines.to_new(n) for n in range(len(old))]
    assert moved == sorted(moved)
    assert all(0 <= line < max(1, len(new)) for line in moved)
    kept = sum(block.size for block in SequenceMatcher(None, old, new, False).get_matching_blocks())
    found = [n for n, line in enumerate(moved) if new and new[line] == old[n]]
    assert len(found) >= (len(old) if old == new else min(kept, 1))
    assert all(lines.to_old(lines.to_new(n)) == n for n in range(len(old)) if old == new)


def test_a_line_that_was_changed_is_where_it_was() -> None:
    lines = LineMap(["a", "b", "c"], ["new", "a", "B", "c"])
    assert [lines.to_new(n) for n in range(3)] == [1, 2, 3]
    assert [lines.to_old(n) for n in range(4)] == [0, 0, 1, 2]


def test_names_are_found_as_whole_words() -> None:
    lines = ["@cache", "def reader(): ...", "def read(x): read"]
    assert find_name(lines, 0, 2, "read") == Place(2, 4, 8)
    assert find_name(lines, 0, 0, "read") == Place(0, 0, 6)
    assert [word_at(lines[2], n) for n in (3, 4, 8, 12)] == ["def", "read", "read", ""]


HOSTILE = [
    "[click](command:workbench.action.quit)",
    "![x](https://example.com/x.png)",
    "```\n[x](y)\n```\n<img src=x>",
    "````\n[x](y)",
    "https://example.com www.example.com a@example.com <https://example.com>",
    "<a href='command:x'>x</a>\n\n---\n# heading",
    "a `` b ` [x](y)",
    "$(zap) \u202e\x1b[31mred",
    "~~~\n[x](y)",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_strangers_wrote_is_never_markup(text: str) -> None:
    note = Note("f" * 64, "a", text, text, "stale", text, text, text, 1)
    shown = hover_text([note, note], is_saved=True, markdown=True)
    markdown = MarkdownIt("gfm-like", {"linkify": False, "html": True})
    kinds = {
        token.type for block in markdown.parse(shown) for token in (block, *(block.children or ()))
    }
    assert kinds <= {
        *("paragraph_open", "paragraph_close", "inline", "text", "softbreak"),
        *("strong_open", "strong_close", "code_inline", "fence"),
    }
    for made in (shown, lens_title([note], is_saved=True), first_line(text)):
        assert not {"\x1b", "\u202e"} & set(made)
    assert "$(" not in lens_title([note], is_saved=True)


def test_blocks_and_spans_hold_what_they_are_given() -> None:
    assert fenced("a\n```\nb") == "````text\na\n```\nb\n````"
    assert (span("a`b"), span("x"), span("")) == ("`` a`b ``", "`x`", "`?`")


def test_addresses_lead_back_whatever_a_file_is_called(tmp_path: Path) -> None:
    for name in ("a b/ü#?.py", "x\\xff\\x0a.txt", "100%.md"):
        assert path_in(tmp_path, uri_of(tmp_path, name)) == name
    link = tmp_path / "link"
    (tmp_path / "real").mkdir()
    link.symlink_to("real")
    assert path_in(tmp_path / "real", uri_of(tmp_path, "link/a")) == "a"
    for foreign in (
        "untitled:1",
        "file://host/a",
        uri_of(tmp_path.parent, "other"),
        "file:///a%00",
        "file://[a",
    ):
        assert path_in(tmp_path, foreign) is None
    assert local_name("file:///a/../b") == os.path.normpath("/b")


def test_words_of_the_engine_are_the_engines() -> None:
    assert UnknownNodeError.code == notes.UNKNOWN_NODE
    assert GENERATED_AGENT_PREFIX + OutlineGenerator.name == OUTLINER


def test_a_client_needs_no_database() -> None:
    code = "import sys, indexer.lsp.run;print({'_duckdb', 'tree_sitter', 'click'} & {*sys.modules})"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
