"""`merkle.lock`: reversible, strict, and precise about where a tree departs from it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.core import paths
from indexer.core.changes import tree_changes
from indexer.core.hashing import workspace_hash
from indexer.core.kinds import Kind
from indexer.core.lockfile import LockFileError, departures, lock_text, parse_lock
from indexer.core.tree import Entry, Folder, Tree

SHA = workspace_hash("sha256")
NAMES = st.one_of(
    st.sampled_from([b"a", b"b", b"c"]),
    st.binary(min_size=1, max_size=3).filter(
        lambda raw: b"/" not in raw and b"\0" not in raw and raw not in (b".", b"..")
    ),
    st.sampled_from(["\u2028".encode(), b" ", b"# x", b"\r", b"\n", b"a b"]),
)
FOLDERS = st.recursive(
    st.dictionaries(NAMES, st.binary(max_size=1), max_size=3),
    lambda inner: st.dictionaries(NAMES, st.one_of(st.binary(max_size=1), inner), max_size=4),
    max_leaves=10,
)


def folder(content: dict[bytes, Any]) -> Folder:
    entries = {}
    for raw, value in content.items():
        made = (
            folder(value).as_entry()
            if isinstance(value, dict)
            else Entry(Kind.FILE, SHA.of_file(value), len(value))
        )
        entries[paths.bytes_to_text(raw)] = made
    return Folder.of(SHA, entries)


def tree(content: dict[bytes, Any]) -> Tree:
    return Tree(SHA, folder(content))


@given(FOLDERS)
def test_a_lock_is_read_back_as_it_was_written(content: dict[bytes, Any]) -> None:
    locked = tree(content)
    text = lock_text(locked)
    for ends in (text, text.replace("\n", "\r\n")):
        lock = parse_lock(ends.encode())
        assert lock.root == locked.root_id.hex()
        assert lock.folders == {path: found.content_id for path, found in locked.folders()}
        assert list(lock.folders) == sorted(lock.folders, key=paths.sort_key)
        assert departures(lock, locked) == []


def own_changes(old: Tree, new: Tree) -> set[tuple[str, str]]:
    """The same by looking at both whole trees, which a lock does not have."""
    found = set()
    for path, was, now in tree_changes(old, new):
        parent = paths.split(path)[0]
        was_folder = was is not None and was.folder is not None
        now_folder = now is not None and now.folder is not None
        if not path or (was_folder and now_folder):
            continue
        beside = old.folder(parent) is not None and new.folder(parent) is not None
        if not beside:
            continue
        if now_folder:
            found.add(("added", path))
        if was_folder:
            found.add(("removed", path))
        was_file, now_file = was is not None and not was_folder, now is not None and not now_folder
        if was_file or now_file:
            word = "changed" if was_file and now_file else "added" if now_file else "removed"
            found.add((word, path))
    return found


@given(FOLDERS, FOLDERS)
def test_the_files_that_differ_are_named(one: dict[bytes, Any], other: dict[bytes, Any]) -> None:
    old, new = tree(one), tree(other)
    found = departures(parse_lock(lock_text(old).encode()), new)
    assert set(found) == own_changes(old, new)
    assert len(found) == len(set(found))
    assert bool(found) == (old.root_id != new.root_id)


BASE: dict[bytes, Any] = {
    b"top": b"1",
    b"src": {b"deep": {b"er": {b"f": b"1"}}, b"g": b"1"},
    b"docs": {b"h": b"1"},
}


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        ({b"src": {b"deep": {b"er": {b"f": b"2"}}, b"g": b"1"}}, [("changed", "src/deep/er/f")]),
        ({b"src": {b"deep": {b"er": {b"f": b"1"}}, b"g": b"2"}}, [("changed", "src/g")]),
        (
            {b"src": {b"deep": {b"er": {b"f": b"2"}}, b"g": b"2"}},
            [("changed", "src/deep/er/f"), ("changed", "src/g")],
        ),
        ({b"src": {b"g": b"1"}}, [("removed", "src/deep")]),
        ({b"new": {b"x": {b"y": b"1"}}}, [("added", "new")]),
        ({b"docs": b"now a file"}, [("added", "docs"), ("removed", "docs")]),
        ({b"top": b"2"}, [("changed", "top")]),
    ],
)
def test_the_file_is_named(edit: dict[bytes, Any], named: list[Any]) -> None:
    lock = parse_lock(lock_text(tree(BASE)).encode())
    assert departures(lock, tree({**BASE, **edit})) == named


GOOD = lock_text(tree(BASE))


def test_a_lock_without_lines_of_files_names_folders() -> None:
    lines = [line for line in GOOD.split("\n") if not line.startswith(" ")]
    old = parse_lock("\n".join(lines).replace("merkle-lock 2", "merkle-lock 1").encode())
    assert departures(old, tree({**BASE, b"top": b"2"})) == [("changed", "")]


@pytest.mark.parametrize(
    "text",
    [
        "", "\n", "# nothing\n", "garbage\n", GOOD[:-1], GOOD[:-10], GOOD + "x\n",
        GOOD.replace("merkle-lock 2", "merkle-lock 3"), GOOD.replace("sha256", "md5"),
        GOOD.replace(" src\n", " docs\n"), GOOD.replace(" src\n", " src/../x\n"),
        re.sub("root .", "root 0" if "root 0" not in GOOD else "root 1", GOOD),
        "\n".join(line for line in GOOD.split("\n") if not line.endswith(" .")),
        "\n".join(line for line in GOOD.split("\n") if not line.endswith(" src")),
        GOOD.replace("root", "<<<<<<< ours\nroot"), GOOD + GOOD, GOOD.upper(),
        GOOD.replace(" src\n", " \\x73rc\n"),
    ],
)  # fmt: skip
def test_what_is_no_lock_is_refused_with_what_to_do(text: str) -> None:
    with pytest.raises(LockFileError) as caught:
        parse_lock(text.encode())
    assert "merkle lock" in caught.value.hint


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(LockFileError):
        parse_lock(GOOD.encode() + b"\xff\n")


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    for text in (raw, GOOD.encode()[:150] + raw, GOOD.encode() + raw + b"\n"):
        try:
            parse_lock(text)
        except LockFileError:
            continue
