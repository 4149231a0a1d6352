"""The tree as a value: however it came about, it is the tree made from scratch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.core import paths, tree
from indexer.core.hashing import HASHES
from indexer.core.kinds import Kind
from indexer.core.tree import Entry, Folder, Totals, Tree

XXH3 = HASHES["xxh3_128"]

NAMES = st.sampled_from(["a", "b", "c", "é", "\\xff", "\\x0a", "z\\x5c", "Z", "zz", "\U0001f600"])
LEAVES = st.builds(
    lambda kind, content: leaf(content, kind),
    st.sampled_from([Kind.FILE, Kind.LINK]),
    st.binary(max_size=3),
)


def leaf(content: bytes, kind: Kind = Kind.FILE) -> Entry:
    return Entry(kind, XXH3.of_file(content), len(content), b"stat" + content)


def folder(entries: dict[str, Any]) -> Folder:
    """A folder from nested dictionaries, bytes and entries."""
    made = {}
    for name, value in entries.items():
        if isinstance(value, dict):
            made[name] = folder(value).as_entry()
        else:
            made[name] = leaf(value) if isinstance(value, bytes) else value
    return Folder.of(XXH3, made)


def tree_of(entries: dict[str, Any]) -> Tree:
    return Tree(XXH3, folder(entries))


NESTED = st.recursive(
    st.dictionaries(NAMES, LEAVES, max_size=4),
    lambda inner: st.dictionaries(NAMES, LEAVES | inner, max_size=4),
    max_leaves=12,
)


def rebuilt(old: Folder) -> Folder:
    """The same folder, made from nothing but its leaves."""
    entries = {}
    for name, entry in reversed(old.entries.items()):
        entries[name] = entry if entry.folder is None else rebuilt(entry.folder).as_entry()
    return Folder.of(XXH3, entries)


def assert_same(one: Folder, other: Folder) -> None:
    assert one.content_id == other.content_id
    assert one.totals == other.totals
    assert list(one.entries) == list(other.entries)
    for name, entry in one.entries.items():
        assert entry[:4] == other.entries[name][:4]
        if entry.folder is not None:
            below = other.entries[name].folder
            assert below is not None
            assert_same(entry.folder, below)


@pytest.fixture(params=[0, 3, 256], ids=["all folders big", "some big", "none big"])
def keep_records(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """From how many children on a folder keeps its records; small data gets there too."""
    monkeypatch.setattr(tree, "KEEP_ENCODED", request.param)
    return int(request.param)


@given(
    entries=st.dictionaries(NAMES, LEAVES, max_size=8),
    steps=st.lists(st.dictionaries(NAMES, st.none() | LEAVES, max_size=4), max_size=4),
)
def test_changes_give_the_folder_made_from_scratch(
    keep_records: int, entries: dict[str, Entry], steps: list[dict[str, Entry | None]]
) -> None:
    changed = Folder.of(XXH3, entries)
    wanted = dict(entries)
    for step in steps:
        changed = changed.with_changes(XXH3, step)
        for name, entry in step.items():
            wanted.pop(name, None)
            if entry is not None:
                wanted[name] = entry
        assert_same(changed, Folder.of(XXH3, wanted))


@given(entries=NESTED, other=NESTED, name=NAMES)
def test_a_folder_for_a_file_and_back(
    keep_records: int, entries: dict[str, Any], other: dict[str, Any], name: str
) -> None:
    start = folder(entries)
    with_folder = start.with_changes(XXH3, {name: folder(other).as_entry()})
    assert_same(with_folder, rebuilt(with_folder))
    with_file = with_folder.with_changes(XXH3, {name: leaf(b"f")})
    assert_same(with_file, rebuilt(with_file))


@given(entries=NESTED, data=st.data())
def test_updates_give_the_tree_made_from_scratch(
    keep_records: int, entries: dict[str, Any], data: st.DataObject
) -> None:
    before = tree_of(entries)
    folders = [path for path, _ in before.folders()]
    chosen = data.draw(st.lists(st.sampled_from(folders), unique=True, max_size=4))
    updates: dict[str, dict[str, Entry | None]] = {}
    for path in chosen:
        here = before.folder(path)
        assert here is not None
        # What another update is about must stay: that is the method's contract.
        reserved = {name for name, entry in here.entries.items() if entry.folder is not None}
        drawn = data.draw(st.dictionaries(NAMES, st.none() | LEAVES, max_size=3))
        updates[path] = {name: entry for name, entry in drawn.items() if name not in reserved}
    after = before.with_updates(updates)
    assert_same(after.root, rebuilt(after.root))
    for path, changes in updates.items():
        for name, entry in changes.items():
            assert after.get(paths.join(path, name)) == entry
    touched = {
        above for path, changes in updates.items() if changes
        for above in (path, *paths.ancestors(path))
    }  # fmt: skip
    for path, old in before.folders():
        assert (after.folder(path) is old) == (path not in touched), path


def test_an_update_shares_what_it_does_not_touch() -> None:
    before = tree_of({"a": {"x": b"1", "deep": {"y": b"2"}}, "b": {"z": b"3"}})
    after = before.with_updates({"a": {"x": leaf(b"new")}})
    assert after.folder("b") is before.folder("b")
    assert after.folder("a/deep") is before.folder("a/deep")
    assert after.folder("a") is not before.folder("a")
    assert before.get("a/x") == leaf(b"1")


def test_updates_at_several_depths_at_once() -> None:
    before = tree_of({"a": {"b": {"c": {"f": b"1"}}, "g": b"2"}})
    after = before.with_updates(
        {"a/b/c": {"f": None}, "a": {"g": leaf(b"3")}, "": {"new": leaf(b"4")}}
    )
    assert_same(after.root, folder({"a": {"b": {"c": {}}, "g": b"3"}, "new": b"4"}))


@given(entries=NESTED)
def test_totals_count_what_a_walk_finds(entries: dict[str, Any]) -> None:
    made = tree_of(entries)
    kinds = [entry.kind for _, entry in made.walk()]
    size = sum(entry.size for _, entry in made.walk() if entry.kind is not Kind.DIRECTORY)
    assert made.root.totals == Totals(
        kinds.count(Kind.FILE), kinds.count(Kind.DIRECTORY), kinds.count(Kind.LINK), size
    )
    assert made.root.totals.nodes == len(kinds)


@given(entries=NESTED)
def test_a_walk_goes_parents_first_in_byte_order(entries: dict[str, Any]) -> None:
    walked = [path for path, _ in tree_of(entries).walk()]
    parts = [[paths.text_to_bytes(name) for name in path.split("/") if name] for path in walked]
    assert parts == sorted(parts)
    assert len(set(walked)) == len(walked)


@given(NESTED, st.integers(0, 6))
def test_the_largest_files_are_those_of_a_sorted_walk(entries: dict[str, Any], limit: int) -> None:
    made = Tree(XXH3, folder(entries))
    files = [(-entry.size, path) for path, entry in made.walk() if entry.kind is Kind.FILE]
    assert made.largest(limit) == [path for _, path in sorted(files)][:limit]


def test_looking_up() -> None:
    made = tree_of({"a": {"x": b"1"}, "f": b"2"})
    assert made.get("") == made.root.as_entry()
    assert made.get("a/x") == leaf(b"1")
    assert made.get("f") == leaf(b"2")
    for nothing in ("b", "a/y", "f/x", "a/x/y", "A"):
        assert made.get(nothing) is None
        assert list(made.walk(nothing)) == []
    assert made.folder("f") is None
    assert [path for path, _ in made.walk("a")] == ["a", "a/x"]


def test_the_empty_tree() -> None:
    empty = Tree.empty(XXH3)
    assert empty.root.totals == Totals(0, 1, 0, 0)
    assert [path for path, _ in empty.walk()] == [""]


def test_one_edit_moves_the_ids_on_its_path_and_no_others() -> None:
    before = tree_of({"a": {"b": {"f": b"1", "g": b"1"}, "c": b"2"}, "d": {"e": b"3"}})
    after = before.with_updates({"a/b": {"f": leaf(b"new")}})
    ids = {path: before.node_id(path, entry) for path, entry in before.walk()}
    moved = {path for path, entry in after.walk() if after.node_id(path, entry) != ids[path]}
    assert moved == {"", "a", "a/b", "a/b/f"}


@given(entries=NESTED)
def test_node_ids_are_unique_in_a_tree(entries: dict[str, Any]) -> None:
    made = tree_of(entries)
    ids = [made.node_id(path, entry) for path, entry in made.walk()]
    assert len(set(ids)) == len(ids)
