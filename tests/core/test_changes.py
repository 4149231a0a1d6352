"""What differs between two trees, and what of it is a rename."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.core import changes as module
from indexer.core import paths
from indexer.core.changes import Change, Rename, count, first_changes, summarize, tree_changes
from indexer.core.hashing import HASHES
from indexer.core.kinds import Kind
from indexer.core.tree import Entry, Folder, Tree

XXH3 = HASHES["xxh3_128"]


def leaf(content: bytes, kind: Kind = Kind.FILE) -> Entry:
    return Entry(kind, XXH3.of_file(content), len(content))


def folder(entries: dict[str, Any]) -> Folder:
    return Folder.of(
        XXH3,
        {
            name: folder(value).as_entry()
            if isinstance(value, dict)
            else (leaf(value) if isinstance(value, bytes) else leaf(value.encode(), Kind.LINK))
            for name, value in entries.items()
        },
    )


def tree_of(entries: dict[str, Any]) -> Tree:
    return Tree(XXH3, folder(entries))


NAMES = st.sampled_from(["a", "b", "c", "A", "\\xff"])
LEAVES = st.sampled_from([b"", b"1", b"2", "link", "other"])
NESTED = st.recursive(
    st.dictionaries(NAMES, LEAVES, max_size=4),
    lambda inner: st.dictionaries(NAMES, LEAVES | inner, max_size=4),
    max_leaves=12,
)


def flat(tree: Tree) -> dict[str, tuple[Kind, bytes]]:
    return {path: (entry.kind, entry.content_id) for path, entry in tree.walk()}


@given(NESTED, NESTED)
def test_changes_are_exactly_the_paths_that_differ(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    before, after = flat(tree_of(old)), flat(tree_of(new))
    found = tree_changes(tree_of(old), tree_of(new))
    told = {
        change.path: (change.old and change.old[:2], change.new and change.new[:2])
        for change in found
    }
    wanted = {
        path: (before.get(path), after.get(path))
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path)
    }
    assert told == wanted
    assert len(found) == len(told)


@given(NESTED, NESTED)
def test_changes_applied_to_the_old_give_the_new(old: dict[str, Any], new: dict[str, Any]) -> None:
    state = flat(tree_of(old))
    for path, _, now in tree_changes(tree_of(old), tree_of(new)):
        if now is None:
            del state[path]
        else:
            state[path] = now[:2]
    assert state == flat(tree_of(new))


@given(NESTED, NESTED)
def test_counts_are_the_sizes_of_the_summary(old: dict[str, Any], new: dict[str, Any]) -> None:
    found = tree_changes(tree_of(old), tree_of(new))
    summary = summarize(found)
    assert count(found) == tuple(len(part) for part in summary)
    assert bool(summary) == any((summary.added, summary.modified, summary.removed))


@given(NESTED, NESTED)
def test_renames_are_sound(old: dict[str, Any], new: dict[str, Any]) -> None:
    before, after = tree_of(old), tree_of(new)
    summary = summarize(tree_changes(before, after))
    olds = [rename.old for rename in summary.renamed]
    news = [rename.new for rename in summary.renamed]
    assert len(set(olds)) == len(olds)
    assert len(set(news)) == len(news)
    for rename in summary.renamed:
        was, now = before.get(rename.old), after.get(rename.new)
        assert was is not None
        assert now is not None
        assert was[:2] == now[:2]
        assert rename.old in summary.removed
        assert rename.new in summary.added
        # What lies inside a renamed folder is not told again.
        assert not set(paths.ancestors(rename.old)) & set(olds)


def test_equal_branches_are_not_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    same = {f"f{i}": b"%d" % i for i in range(50)}
    before = tree_of({"same": same, "deep": {"same": same, "x": b"1"}, "y": b"2"})
    after = tree_of({"same": same, "deep": {"same": same, "x": b"new"}, "y": b"2"})
    compared = []

    class Watched(dict[str, Entry]):
        def items(self) -> Any:
            compared.append(len(self))
            return super().items()

    for root in (before.root, after.root):
        for _, each in Tree(XXH3, root).folders():
            each.entries = Watched(each.entries)
    compared.clear()
    found = tree_changes(before, after)
    assert [change.path for change in found] == ["", "deep", "deep/x"]
    assert compared == [3, 2], "only the root and `deep` are gone through"


def test_a_step_from_a_folder_goes_through_what_it_touched_only() -> None:
    before = tree_of({f"f{i}": b"%d" % i for i in range(300)})
    entry = before.root.entries["f1"]
    touched = {"f7": entry, "f8": None, "new": entry, "never there": None}
    after = Tree(XXH3, before.root.with_changes(XXH3, touched))
    assert set(after.root.touched_since(before.root)) == set(touched)
    found = {
        change.path: (change.old is None, change.new is None)
        for change in tree_changes(before, after)
    }
    assert found == {
        "": (False, False),
        "f7": (False, False),
        "f8": (False, True),
        "new": (True, False),
    }
    # A folder that came about in another way is compared entry by entry, with the same result.
    again = tree_of({f"f{i}": b"%d" % i for i in range(300)})
    assert {change.path for change in tree_changes(again, after)} == found.keys()


def test_equal_roots_cost_nothing() -> None:
    one = tree_of({"a": b"1"})
    assert tree_changes(one, tree_of({"a": b"1"})) == []


def test_a_first_scan_adds_everything() -> None:
    made = tree_of({"a": {"x": b"1"}, "f": b"2"})
    assert [change.path for change in first_changes(made)] == ["", "a", "a/x", "f"]
    assert summarize(first_changes(made)).added == ("", "a", "a/x", "f")


def renames(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, str]]:
    found = summarize(tree_changes(tree_of(old), tree_of(new))).renamed
    return [(rename.old, rename.new) for rename in found]


def test_a_unique_content_that_moved_is_a_rename() -> None:
    assert renames({"a": b"1", "k": b"2"}, {"b": b"1", "k": b"2"}) == [("a", "b")]
    assert renames({"d": {"a": b"1"}}, {"d": {}, "a": b"1"}) == [("d/a", "a")]


def test_a_rename_is_also_an_addition_and_a_removal() -> None:
    summary = summarize(tree_changes(tree_of({"a": b"1"}), tree_of({"b": b"1"})))
    assert summary.added == ("b",)
    assert summary.removed == ("a",)
    assert summary.renamed == (Rename("a", "b", Kind.FILE),)


def test_twins_are_not_guessed_about() -> None:
    assert renames({"a": b"1", "b": b"1"}, {"c": b"1"}) == []
    assert renames({"a": b"1"}, {"b": b"1", "c": b"1"}) == []


def test_a_copy_is_no_rename() -> None:
    assert renames({"a": b"1"}, {"a": b"1", "b": b"1"}) == []


def test_a_file_and_a_link_are_not_mixed_up() -> None:
    old, new = tree_of({"a": b"1"}), Tree(XXH3, Folder.of(XXH3, {"b": leaf(b"1", Kind.LINK)}))
    assert summarize(tree_changes(old, new)).renamed == ()


def test_folders_come_first_and_take_their_content_along() -> None:
    inside = {"x": b"1", "sub": {"y": b"2"}}
    assert renames({"old": inside}, {"new": inside}) == [("old", "new")]


def test_twins_inside_a_renamed_folder_go_with_it() -> None:
    inside = {"x": b"same", "y": b"same", "s": {"q": b"t"}, "t": {"q": b"t"}}
    assert renames({"old": inside}, {"new": inside}) == [("old", "new")]


def test_a_folder_moved_into_another() -> None:
    inside = {"x": b"1"}
    assert renames({"a": inside, "b": {"k": b"2"}}, {"b": {"k": b"2", "a": inside}}) == [
        ("a", "b/a")
    ]


def test_a_file_that_left_a_renamed_folder_is_its_own_rename() -> None:
    old = {"a": {"x": b"1", "sub": {"y": b"2"}}}
    new = {"b": {"sub": {"y": b"2"}}, "x": b"1"}
    assert renames(old, new) == [("a/sub", "b/sub"), ("a/x", "x")]


def test_the_same_name_under_different_parents_is_told_once() -> None:
    old = {"a": {"in": {"deep": {"f": b"1"}}}}
    assert renames(old, {"b": {"in": {"deep": {"f": b"1"}}}}) == [("a", "b")]
    assert renames(old, {"a": {"out": {"deep": {"f": b"1"}}}}) == [("a/in", "a/out")]


def test_a_change_of_case_is_a_rename() -> None:
    assert renames({"readme.md": b"1"}, {"README.md": b"1"}) == [("readme.md", "README.md")]
    assert renames({"src": {"f": b"1"}}, {"Src": {"f": b"1"}}) == [("src", "Src")]


def test_a_change_of_kind_is_a_modification() -> None:
    found = tree_changes(tree_of({"a": b"1"}), tree_of({"a": {"x": b"2"}}))
    summary = summarize(found)
    assert summary.modified == ("a",)
    assert summary.added == ("a/x",)
    back = summarize(tree_changes(tree_of({"a": {"x": b"2"}}), tree_of({"a": b"1"})))
    assert back.modified == ("a",)
    assert back.removed == ("a/x",)


def test_a_file_that_became_a_folder_holding_it() -> None:
    """`mv a tmp; mkdir a; mv tmp a/a`: the content is still somewhere, yet `a` did not go."""
    assert renames({"a": b"1"}, {"a": {"a": b"1"}}) == []


def test_a_swap_is_two_modifications() -> None:
    summary = summarize(
        tree_changes(tree_of({"a": b"1", "b": b"2"}), tree_of({"a": b"2", "b": b"1"}))
    )
    assert summary.modified == ("a", "b")
    assert summary.renamed == ()


def test_empty_folders_are_renamed_when_there_is_no_doubt() -> None:
    assert renames({"a": {}, "k": b"1"}, {"b": {}, "k": b"1"}) == [("a", "b")]
    assert renames({"a": {}, "b": {}, "k": b"1"}, {"c": {}, "k": b"1"}) == []


def test_paths_are_listed_in_byte_order() -> None:
    entry = leaf(b"1")
    found = [Change(path, None, entry) for path in ("\\xff", "a", "é", "\\x0a", "Z")]
    assert summarize(found).added == ("\\x0a", "Z", "a", "é", "\\xff")


def test_renames_are_not_sought_where_nothing_went(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_renames", lambda _: pytest.fail("nothing was removed"))
    assert count(first_changes(tree_of({"a": b"1"}))).renamed == 0


def test_empty_files_are_never_paired() -> None:
    assert renames({"a": b"", "k": b"1"}, {"b": b"", "k": b"1"}) == []
    assert renames({"p": {"__init__.py": b""}}, {"q": {"__init__.py": b""}}) == []
    # What is in a folder that is known by something else goes with it.
    full = {"__init__.py": b"", "code.py": b"1"}
    assert renames({"p": full}, {"q": full}) == [("p", "q")]
