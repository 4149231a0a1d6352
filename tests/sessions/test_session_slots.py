"""Sort keys for an edit that has to stand right after its target, down to neighbours that tie."""

from __future__ import annotations

import pytest

from indexer.sessions import import_session, make_content
from indexer.sessions.node import BLOCK, EDIT_TYPE, Node
from indexer.sessions.slots import Slot, slot_after, slotted_id

NOW, INDEX = 5, 3


def block(name: str, at_ns: int = NOW, index: int = INDEX, offset: int = 0) -> Node:
    return Node(name, BLOCK, offset=offset, created_at_ns=at_ns, creation_index=index)


BETWEEN = {
    "times leave room": (block("b"), block("a", NOW + 2), Slot(NOW + 1, None)),
    "offsets differ": (block("b"), block("a", 0, offset=1), Slot(NOW + 1, None)),
    "times one apart": (block("b"), block("c", NOW + 1, 0), Slot(NOW, INDEX + 1)),
    "indexes leave room": (block("b"), block("a", index=INDEX + 2), Slot(NOW, INDEX + 1)),
    "indexes one apart": (block("b"), block("a", index=INDEX + 1), Slot(NOW, INDEX, "b!")),
    "only ids differ": (block("a"), block("b"), Slot(NOW, INDEX, "a!")),
}  # fmt: skip


@pytest.mark.parametrize("name", BETWEEN)
def test_an_edit_stands_between_its_target_and_what_follows(name: str) -> None:
    target, following, expected = BETWEEN[name]
    slot = slot_after([target, following], target)
    assert slot == expected
    index = 99 if slot.creation_index is None else slot.creation_index
    own = slotted_id(slot, None, lambda: "f00d")
    edit = Node(
        own, EDIT_TYPE, target.offset, created_at_ns=slot.created_at_ns, creation_index=index
    )
    assert target.sort_key < edit.sort_key < following.sort_key


@pytest.mark.parametrize("following", ["a!", "a "])
def test_where_no_id_fits_between_two_that_tie_the_edit_follows_both(following: str) -> None:
    """No id that a session makes sorts between these; the edit stands as near as it can."""
    assert slot_after([block("a"), block(following)], block("a")) == Slot(NOW, INDEX + 1)


def test_earlier_edits_of_the_target_come_first() -> None:
    target, other = block("a"), block("c", NOW + 9)
    edit = Node("b", EDIT_TYPE, created_at_ns=NOW + 1, references=("a",))
    assert slot_after([target, edit, other], target) == Slot(NOW + 2, None)
    assert slot_after([target, edit], target) == Slot(NOW + 2, None)


def test_an_id_of_the_callers_own_is_kept_where_ids_decide() -> None:
    assert slotted_id(Slot(NOW, INDEX, "a!"), "mine", lambda: "f00d") == "mine"


def test_imported_blocks_that_tie_in_everything_but_their_ids() -> None:
    """In the tree too the edit stands right after its target, not after all that tie with it."""
    keys = {"created_at_ns": NOW, "creation_index": INDEX, "offset": 0}
    blocks = [{"id": name, "content": name, **keys} for name in "abc"]
    tree = {"root": {"children": [{"nodeType": "^sys", "children": blocks}]}}
    for name in "ab":
        session = import_session(tree, "s")
        edit = session.edit(name, make_content("dialogue", text="x")).node_id
        found = session.select("@w ^sys > .cb")
        assert found.index(edit) == found.index(name) + 1
