"""Paths as text: reversible, injective, safe on a screen, strict with what comes from outside."""

from __future__ import annotations

import os
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from indexer.core import paths
from indexer.core.paths import PathError

# Any name a Linux file system takes: bytes without NUL and slash.
NAMES = st.binary(min_size=1, max_size=40).map(
    lambda raw: raw.replace(b"\x00", b"").replace(b"/", b"") or b"x"
)
TRICKY = st.lists(
    st.sampled_from(
        [b"\\", b"\\x", b"\\x5c", b"x41", b"\xc3", b"\xa9", b"\xc3\xa9", b"\n", b"\x1b[31m",
         b"\x7f", b"\xc2\x85", b"\xed\xb2\x80", b"\xf0\x9f\x98\x80", b"e\xcc\x81", b"a", b"\xff"]
    ),
    min_size=1, max_size=8,
).map(b"".join)  # fmt: skip
RAW_NAMES = NAMES | TRICKY
RAW_PATHS = (
    st.lists(RAW_NAMES, min_size=1, max_size=4)
    .filter(lambda parts: not {b".", b".."} & set(parts))
    .map(b"/".join)
)


@given(RAW_PATHS)
@example(b"\\x41")
@example(b"\xed\xb2\x80")
def test_bytes_survive_the_round_trip(raw: bytes) -> None:
    text = paths.bytes_to_text(raw)
    assert paths.text_to_bytes(text) == raw
    assert os.fsencode(paths.text_to_os(text)) == raw


@given(RAW_PATHS)
def test_the_text_can_be_stored_and_shown(raw: bytes) -> None:
    text = paths.bytes_to_text(raw)
    text.encode("utf-8")
    assert not any(unicodedata.category(char) in {"Cc", "Cs"} for char in text)


@given(RAW_PATHS)
def test_the_name_from_the_system_gives_the_same_text(raw: bytes) -> None:
    assert paths.name_to_text(os.fsdecode(raw)) == paths.bytes_to_text(raw)


@given(RAW_NAMES, RAW_NAMES)
def test_two_names_never_share_a_text(one: bytes, other: bytes) -> None:
    assert (paths.bytes_to_text(one) == paths.bytes_to_text(other)) == (one == other)


@given(st.lists(RAW_NAMES, unique=True, max_size=12))
def test_sorting_by_key_is_sorting_by_bytes(names: list[bytes]) -> None:
    texts = sorted((paths.bytes_to_text(name) for name in names), key=paths.sort_key)
    assert [paths.text_to_bytes(text) for text in texts] == sorted(names)


def test_what_the_text_form_looks_like() -> None:
    assert paths.bytes_to_text("größe/文.txt".encode()) == "größe/文.txt"
    assert paths.bytes_to_text(b"a\nb") == "a\\x0ab"
    assert paths.bytes_to_text(b"back\\slash") == "back\\x5cslash"
    assert paths.bytes_to_text(b"latin-\xe9") == "latin-\\xe9"
    assert paths.bytes_to_text(b"\xc2\x9b31m") == "\\xc2\\x9b31m"


# -- from outside


@given(RAW_PATHS)
def test_parse_keeps_a_text_form(raw: bytes) -> None:
    text = paths.bytes_to_text(raw)
    assert paths.parse(text) == text


@given(st.text(max_size=20) | st.text(st.sampled_from("\\x5c0a./é\x1b\udcc3\udca9"), max_size=12))
def test_parse_gives_a_canonical_path_or_a_clear_error(text: str) -> None:
    try:
        path = paths.parse(text)
    except PathError:
        return
    assert paths.parse(path) == path
    raw = paths.text_to_bytes(path)
    assert b"\x00" not in raw
    assert paths.bytes_to_text(raw) == path
    assert not {b"..", b"."} & set(raw.split(b"/"))
    assert not raw.startswith(b"/")
    assert b"//" not in raw


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("", ""), (".", ""), ("./", ""), ("a/", "a"), ("./a//b/./c", "a/b/c"), ("a\nb", "a\\x0ab"),
        ("a\\x0ab", "a\\x0ab"), ("a\\b", "a\\x5cb"), ("a\\x4", "a\\x5cx4"), ("...", "..."),
        # Escapes that no name's text form contains are taken as typed.
        ("\\x41", "\\x5cx41"), ("a\\x2fb", "a\\x5cx2fb"), ("\\x2e\\x2e", "\\x5cx2e\\x5cx2e"),
        ("a\\x00b", "a\\x5cx00b"), ("\\xc3\\xa9", "\\x5cxc3\\x5cxa9"), ("\\xFF", "\\x5cxFF"),
        # Undecodable bytes as the interpreter passes arguments; together they may be UTF-8.
        ("\udcff", "\\xff"), ("\udcc3\udca9", "é"),
    ],
)  # fmt: skip
def test_parse_finds_the_one_form(text: str, path: str) -> None:
    assert paths.parse(text) == path


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("..", "outside"), ("../x", "outside"), ("a/../b", "outside"), ("a/..", "outside"),
        ("/etc/passwd", "absolute"), ("/", "absolute"), ("//a", "absolute"), ("a\x00b", "NUL"),
        ("\x00", "NUL"), ("\ud800", "Unicode"), ("a/\udfff", "Unicode"),
    ],
)  # fmt: skip
def test_parse_refuses(text: str, says: str) -> None:
    with pytest.raises(PathError, match=says) as caught:
        paths.parse(text)
    assert caught.value.hint
    caught.value.message.encode("utf-8")


# -- on a screen


@given(st.text() | st.text(st.sampled_from("\x1b\x9b\u202e\u2066\u200f\ufeff\u2028\ud800\x07ab\r")))
def test_nothing_reaches_the_screen_that_moves_it(text: str) -> None:
    shown = paths.on_screen(text)
    assert not any(
        unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and char != "\t"
        for char in shown
    )
    shown.encode("utf-8")


def test_what_is_harmless_is_shown_as_it_is() -> None:
    for text in ("plain/path.py", "größe", "文字", "\U0001f600", "back\\slash", "a b\tc"):
        assert paths.on_screen(text) == text


def test_what_is_not_is_spelled_out() -> None:
    assert paths.on_screen("a\x1b[2Jb\n") == "a\\x1b[2Jb\\x0a"
    assert paths.on_screen("\u202etxt.exe") == "\\u202etxt.exe"
    assert paths.on_screen("\U000e0001") == "\\U000e0001"


# -- parts of paths


@pytest.mark.parametrize(
    ("path", "parent", "name", "above", "depth"),
    [("", "", "", [], 0), ("a", "", "a", [""], 1), ("a/b/c", "a/b", "c", ["a/b", "a", ""], 3)],
)
def test_parts(path: str, parent: str, name: str, above: list[str], depth: int) -> None:
    assert paths.split(path) == (parent, name)
    assert paths.ancestors(path) == above
    assert paths.depth(path) == depth
    assert paths.join(parent, name) == path


@pytest.mark.parametrize(
    ("path", "folder", "within"),
    [("a/b", "a", True), ("a", "a", True), ("ab", "a", False), ("a", "", True), ("", "", True),
     ("", "a", False), ("a", "a/b", False)],
)  # fmt: skip
def test_within(path: str, folder: str, within: bool) -> None:
    assert paths.is_within(path, folder) is within
