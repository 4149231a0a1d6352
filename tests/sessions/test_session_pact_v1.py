"""PACT 1.0 documents: segments, containers and blocks, cadences, and what is refused."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from indexer.errors import UsageError
from indexer.sessions import import_session
from indexer.sessions.pact_v1 import is_v1

TREE: dict[str, Any] = {
    "spec_version": "PACT/1.0.0",
    "cycle": 3,
    "root": {
        "id": "root-1",
        "children": [
            {"id": "sys-1", "nodeType": "^sys", "parent_id": "root-1", "children": [
                {"id": "block:law", "nodeType": "block", "offset": 0, "content": "Be brief.",
                 "key": "law", "tag": "system", "cad": 1},
            ]},
            {"id": "seq-1", "nodeType": "^seq", "children": [
                {"id": "seg:1", "nodeType": "seg", "created_at_ns": 1, "children": [
                    {"id": "block:hint", "nodeType": "summary", "offset": -1, "content": "A hint",
                     "cadence": 3, "ttl": 2, "parent_id": "seg:1"},
                    {"id": "cont:1", "nodeType": "cont", "offset": 0, "children": [
                        {"id": "block:u1", "nodeType": "block", "content": "Hello"},
                    ]},
                    {"id": "block:post", "nodeType": "block:note", "offset": 1, "content": "ok",
                     "priority": 4, "data_source": "web"},
                ]},
                {"id": "seg:2", "nodeType": "seg", "created_at_ns": 2, "children": [
                    {"id": "block:a1", "offset": 0, "content": "Hi!", "kind": "text"},
                ]},
            ]},
            {"id": "ah-1", "nodeType": "^ah", "children": [
                {"id": "custom", "nodeType": "custom:thing", "offset": 0, "content": "Working"},
            ]},
        ],
    },
}  # fmt: skip


def test_a_tree_maps_to_turns_cores_and_blocks() -> None:
    session = import_session(TREE, "s")
    assert session.select("^seq .mt") == ["seg:1", "seg:2"]
    assert session.select("^seq .mc > .cb") == ["block:u1", "block:a1"]
    assert session.select(".cb:summary") == ["block:hint"]
    assert session.select(".cb:note") == ["block:post"]
    assert session.select("[nodeType='custom:thing']") == ["custom"]
    assert session.select("[pact:key='law'][pact:tag='system']") == ["block:law"]
    assert session.select("[pact:cadence=3]") == ["block:hint"]
    assert session.view().node("block:post").attributes == {"data_source": "web"}
    assert [m["content"] for m in session.thread()] == [
        "Be brief.", "A hint", "Hello", "ok", "Hi!", "Working",
    ]  # fmt: skip
    roles = [m["role"] for m in session.thread()]
    assert roles == ["system", *["user"] * 5]


def test_what_is_kept_without_being_acted_on_is_told() -> None:
    warnings = import_session(TREE, "s").warnings
    assert warnings == ("block:hint: cadence 3 is kept, but nothing is repeated here",)


def test_it_goes_on_as_any_session_and_comes_back_as_0_1() -> None:
    session = import_session(json.dumps(TREE), "s")
    session.commit()
    assert session.select("^seq .mt:depth(1) .cb") == ["custom"]
    again = import_session(session.export(), "t")
    assert again.export() == session.export()
    assert json.loads(session.export_snapshot())["spec_version"] == "PACT/0.1.0"


def test_types_tell_the_version_where_nothing_says_it() -> None:
    without = {key: value for key, value in TREE.items() if key != "spec_version"}
    assert is_v1(without)
    assert import_session(without, "s").select("^seq .mc > .cb") == ["block:u1", "block:a1"]
    assert not is_v1({"root": {"children": [{"nodeType": "^sys", "children": []}]}})
    assert not is_v1({**TREE, "spec_version": "PACT/0.1.0"})
    for said in ("1.0", "v1.0", 1, 1.0, "PACT 1.0", "pact/1.0.0", "whatever", None):
        assert is_v1({**TREE, "spec_version": said}), said
    for said in ("0.1", 0.1, "PACT/10.0.0", "2"):
        assert not is_v1({**TREE, "spec_version": said}), said


def test_a_flat_log_tags_who_speaks() -> None:
    log = [
        {"tag": "system", "content": "You are helpful."},
        {"tag": "user", "content": "Hello"},
        {"tag": "assistant", "content": "Hi!"},
    ]
    session = import_session({"flat_log": log}, "s")
    assert [m["role"] for m in session.thread()] == ["system", "user", "assistant"]


def changed(path: list[int], **fields: Any) -> dict[str, Any]:
    tree = copy.deepcopy(TREE)
    node = tree["root"]
    for step in path:
        node = node["children"][step]
    node.update(fields)
    return tree


@pytest.mark.parametrize(
    ("path", "fields", "words"),
    [
        ([0, 0], {"cad": 0}, "cadence"),
        ([0, 0], {"cad": "daily"}, "cadence"),
        ([0, 0], {"cad": True}, "cadence"),
        ([0, 0], {"cadence": 2}, "cadence"),
        ([0, 0], {"ttl": -1}, "ttl"),
        ([0, 0], {"parent_id": "seq-1"}, "parent_id"),
        ([0, 0], {"id": "seg:1"}, "two nodes"),
        ([0, 0], {"nodeType": "seg"}, "cannot stand under"),
        ([1, 0, 1], {"offset": 1}, "offset 0"),
        ([1, 0, 0], {"nodeType": "cont", "offset": 0, "content": None}, "2 cores"),
        ([1], {"children": "none"}, "list of objects"),
        ([], {"children": [{"nodeType": "seg"}]}, "under the root"),
    ],
)
def test_what_cannot_hold_is_refused(path: list[int], fields: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        import_session(changed(path, **fields), "s")


def test_a_deep_tree_is_refused() -> None:
    node: dict[str, Any] = {"nodeType": "block", "content": "x"}
    for _ in range(500):
        node = {"nodeType": "block", "children": [node]}
    tree = {
        "spec_version": "PACT/1.0.0",
        "root": {"children": [{"nodeType": "^sys", "children": [node]}]},
    }
    with pytest.raises(UsageError, match="deep"):
        import_session(tree, "s")
