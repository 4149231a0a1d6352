"""Any TOML in any manner: one table in, one table out, the rest untouched or the file refused."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.mcp.json_edit import UneditableError, value_at
from indexer.mcp.toml_edit import with_table, without_table

PATH = ("servers", "merkle")
ENTRY = {"command": "merkle", "args": ["mcp"], "env": {"A B": 'quoted "'}}

# Pieces of a file that have nothing to do with the entry. None holds a second key of the same name.
TOP = [
    "",
    "# a comment\n",
    "# lone\u2028separators \u0085[servers.merkle] of lines\n",
    "\n\t\n  \n",
    'model = "x"   # why\n',
    '  odd\t=  """\n[ not a table ]\n\n"""\n',
    "grid = [\n  [1], # one\n  [2],\n]\n",
    "number = 0xDEAD\nwhen = 1979-05-27T07:32:00Z\n",
    'servers.dotted.command = "x"\n',
    '"\u00e4" = "\\u00e4 \U0001f600"\n',
]
TABLES = [
    "",
    '[servers.other]\ncommand = "o" # mine\n',
    "[ servers . \"merkle2\" ]\n'command' = 'o'\n\n\n",
    "[elsewhere]\n",
    "[[list]]\na = 1\n[[list]]\n  [list.below]\n  b = 2\n",
    "# about what follows\n\n[last]\nx = [\n]\n",
]
OURS = [
    '[servers.merkle]\ncommand = "x"\n',
    '\t[ "servers".\'merkle\' ] # ours\ncommand = "x"\nargs = [\n  "y",\n]\n',
    '[servers.merkle.env]\nA = "b"\n[servers.merkle]\ncommand = "x"\n',
]


@st.composite
def files(draw: st.DrawFn) -> tuple[str, str, str]:
    """What stands before the place of the entry, an entry, and what stands behind it."""
    before = "".join(draw(st.lists(st.sampled_from(TOP), unique=True, max_size=4)))
    tables = draw(st.permutations(draw(st.lists(st.sampled_from(TABLES), unique=True))))
    cut = draw(st.integers(0, len(tables)))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    above = (before + "".join(tables[:cut])).replace("\n", newline)
    entry = draw(st.sampled_from(OURS)).replace("\n", newline)
    return above, entry, "".join(tables[cut:]).replace("\n", newline)


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


@given(files(), st.booleans())
def test_in_and_out(parts: tuple[str, str, str], final_newline: bool) -> None:
    before, _, behind = parts
    text = before + behind if final_newline else (before + behind).rstrip("\r\n")
    if not text.strip() or not _is_toml(text):
        return  # a blank file is written by `install` itself
    changed = with_table(text, PATH, ENTRY)
    assert changed.startswith(text)
    assert tomllib.loads(changed) == _put(tomllib.loads(text), ENTRY)
    removed = without_table(changed, PATH)
    # Taking it out gives the same bytes, but for the line break that the last line may have lacked.
    assert removed in (text, text + "\n", text + "\r\n")
    if "\r\n" in text and "\n" not in text.replace("\r\n", ""):
        assert "\n" not in changed.replace("\r\n", "")


@given(files())
def test_out_of_the_middle(parts: tuple[str, str, str]) -> None:
    before, _, behind = parts
    text = "".join(parts)
    if not _is_toml(text):
        return
    removed = without_table(text, PATH)
    # The comments above the next table are its own; one blank line above the entry goes with it.
    kept = before.splitlines(keepends=True)
    shorter = "".join(kept[:-1]) if kept and not kept[-1].strip() else before
    assert removed in (before + behind, shorter + behind)
    assert value_at(tomllib.loads(removed), PATH) is None
    changed = with_table(text, PATH, ENTRY)
    assert changed.startswith(removed)
    assert tomllib.loads(changed) == _put(tomllib.loads(text), ENTRY)


def _put(document: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    document.setdefault("servers", {})["merkle"] = entry
    return document


@pytest.mark.parametrize(
    "text",
    [
        'servers = { other = { command = "x" } }\n',
        '[servers]\nmerkle.command = "x"\nother.command = "y"\n',
        '[servers]\nmerkle = { command = "x" }   # mine\n',
        's = """\n[servers.merkle]\n"""\n[servers.merkle]\ncommand = "x"\n',
        "servers = 1\n",
        "servers = [{ merkle = 1 }]\n",
        "[servers\n",
        "a = 1\na = 2\n",
        "# \x0c\n",
    ],
)
def test_what_cannot_be_changed_safely_is_refused(text: str) -> None:
    with pytest.raises(UneditableError):
        with_table(text, PATH, ENTRY)


def test_a_comment_that_looks_like_the_header_is_left_alone() -> None:
    comment = "# see\u2028[servers.merkle]\n# and more\n"
    text = 'a = 1\n[servers.merkle]\ncommand = "x"\n[z]\n' + comment
    assert without_table(text, PATH) == "a = 1\n[z]\n" + comment
