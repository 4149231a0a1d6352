"""Snapshots as bytes: export, import, diff, moves and the content hash of a node."""

from __future__ import annotations

import hashlib
import json

import pytest

from indexer.errors import UsageError
from indexer.sessions import Session, import_session, make_content, node_content_hash
from indexer.sessions.diff import diff_views, infer_moves
from indexer.sessions.documents import DocumentError, parse_document
from indexer.sessions.node import NO_CONTENT_SHA256, HeaderError
from indexer.sessions.records import LogCorruptError
from indexer.sessions.selector import SelectorError


def tree(*blocks: dict, cycle: int | None = None) -> dict:
    document = {"root": {"children": [{"nodeType": "^sys", "children": list(blocks)}]}}
    return document if cycle is None else {**document, "cycle": cycle}


def test_the_content_hash_of_a_node():
    node = {"content": "Hello", "role": "user", "kind": "text"}
    expected = hashlib.sha256(b'{"content":"Hello","kind":"text","role":"user"}').hexdigest()
    assert node_content_hash(node) == expected
    accented = hashlib.sha256(rb'{"content":"\u00e9","kind":"","role":""}').hexdigest()
    assert node_content_hash({"content": "\u00e9"}) == accented


def test_the_content_hash_ignores_place_and_lifecycle():
    base = {"content": "Hello world", "role": "user"}
    others = {
        "id": "x",
        "ttl": 5,
        "priority": 9,
        "cycle": 3,
        "created_at_ns": 7,
        "created_at_iso": "now",
        "offset": 2,
        "parent_id": "p",
        "children": [],
        "content_hash": "whatever",
    }
    assert node_content_hash({**base, **others}) == node_content_hash(base)


@pytest.mark.parametrize("key", ["content", "role", "kind", "data_x", "content_lang"])
def test_the_content_hash_takes_part(key):
    base = {"content": "a", "role": "a", "kind": "a", "data_x": "a", "content_lang": "a"}
    assert node_content_hash({**base, key: "b"}) != node_content_hash(base)


def test_content_that_is_no_json_hashes_as_nothing():
    assert node_content_hash({"content": object()}) == NO_CONTENT_SHA256
    assert node_content_hash({"content": float("nan")}) == NO_CONTENT_SHA256


def test_an_export_has_every_header_and_canonical_order(session, say):
    say(session, "post", offset=1, attributes={"data_k": [1]})
    say(session, "core")
    session.commit()
    exported = session.export_snapshot()
    document = json.loads(exported)
    assert document["spec_version"].startswith("PACT/0.1")
    assert document["cycle"] == 1
    turn = document["root"]["children"][1]["children"][0]
    assert [child["offset"] for child in turn["children"]] == [0, 1]
    note = turn["children"][1]
    assert note["data_k"] == [1]
    assert {"creation_index", "created_at_ns", "content_hash"} <= note.keys()
    assert exported == json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=True
    ).encode("ascii")


def test_import_of_export_is_the_identity(session, say):
    say(session, "\u00e9", offset=-1, ttl=4, references=(), attributes={"cb:x": {"y": None}})
    say(session, "core")
    session.commit()
    exported = session.export_snapshot()
    again = import_session(exported, "other")
    assert again.export_snapshot() == exported
    assert again.render() == session.render()
    whole = again.export()
    assert import_session(whole, "third").export() == whole


def test_import_of_an_exported_session_keeps_its_history(session, say):
    for text in "abc":
        say(session, text)
        session.commit()
    say(session, "draft")
    again = import_session(session.export(), "other")
    assert again.export() == session.export()
    for address in ("@t-2", "@t-1", "@t0", "@w"):
        assert again.render(address) == session.render(address)


def test_defaults_of_an_imported_node():
    session = import_session(tree({"id": "x", "content": "hi"}, cycle=42), "s")
    node = session.document()["root"]["children"][0]["children"][0]
    assert node == {
        "id": "x",
        "nodeType": "cb",
        "offset": 0,
        "ttl": None,
        "priority": 0,
        "cycle": 42,
        "created_at_ns": 0,
        "created_at_iso": "1970-01-01T00:00:00.000000Z",
        "creation_index": 0,
        "content": "hi",
        "content_hash": node_content_hash({"content": "hi"}),
    }
    assert session.document()["cycle"] == 42
    assert session.commit() == 43


def test_ids_of_imported_nodes_are_kept_or_derived_from_their_place():
    document = tree({"content": "a"}, {"content": "b"}, {"id": "Given"})
    first, second = import_session(document, "s"), import_session(document, "t")
    assert first.export_snapshot() == second.export_snapshot()
    assert "Given" in first.select("^sys .cb")
    assert first.select("^root, ^sys, ^seq, ^ah") == ["^root", "^sys", "^seq", "^ah"]


def test_an_imported_ttl_counts_from_its_cycle():
    document = tree(
        {"id": "x", "ttl": 2, "cycle": 9}, {"id": "late", "ttl": 1, "cycle": 3}, cycle=10
    )
    session = import_session(document, "s")
    assert session.select(".cb") == ["late", "x"]
    session.commit()
    assert session.select(".cb") == []
    assert session.select("@c10 .cb") == ["late", "x"]


def test_unknown_attributes_are_ignored_and_told():
    document = tree({"id": "x", "mood": "bright", "data_ok": 1})
    session = import_session(document, "s")
    assert session.warnings == ("x: unknown attribute 'mood' left out",)
    node = session.view().node("x")
    assert dict(node.attributes) == {"data_ok": 1}


def test_a_content_hash_that_does_not_fit_is_told():
    session = import_session(tree({"id": "x", "content": "a", "content_hash": "0"}), "s")
    assert "content_hash" in session.warnings[0]


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[1]", b"3", b'{"root": 3}', b'{"root": {"children": 1}}', b"\xff", b"[" * 9999],
)
def test_what_is_no_document_is_refused(data):
    with pytest.raises(UsageError):
        import_session(data, "s")


@pytest.mark.parametrize(
    "fields",
    [{"offset": "1"}, {"ttl": -1}, {"role": 3}, {"id": 5}, {"removable": "yes"}, {"priority": 1.5}],
)
def test_imported_headers_are_checked(fields):
    with pytest.raises(HeaderError):
        parse_document(tree({"id": "x", **fields}))


def test_records_beside_a_snapshot_must_lead_to_it(session, say):
    say(session, "x")
    session.commit()
    document = json.loads(session.export())
    document["cycle"] = 7
    with pytest.raises(LogCorruptError):
        import_session(document, "s")
    with pytest.raises(DocumentError):
        import_session({**document, "records": "none"}, "s")


def test_edits_in_an_imported_snapshot_are_edits(session):
    first = session.append(make_content("dialogue", text="draft"))
    session.edit(first.commit_hash, make_content("dialogue", text="final"))
    session.commit()
    again = import_session(session.export_snapshot(), "s")
    assert [m.content for m in again.compile().messages] == ["final"]


def test_diff_in_the_normative_shape(session, say):
    gone = say(session, "gone", offset=1, ttl=1)
    session.commit()
    core = say(session, "core")
    early = say(session, "pre", offset=-1)
    session.commit()
    found = session.diff("@t-1", "@t0", "^seq .cb")
    assert found == {"added": [early, core], "removed": [gone], "changed": []}
    assert list(found) == ["added", "removed", "changed"]
    assert session.diff("@t0", "@t0") == {"added": [], "removed": [], "changed": []}
    assert session.diff("@t0", "@t-1", "^seq .cb")["added"] == [gone]


def test_diff_names_every_changed_field():
    old = import_session(tree({"id": "x", "content": "a", "role": "user", "ttl": 5}), "s")
    changes = {"content": "b", "role": "tool", "kind": "k", "ttl": 4, "priority": 3, "offset": 1}
    new = import_session(tree({"id": "x", **changes, "data_z": 1, "created_at_ns": 5}), "s")
    (item,) = diff_views(old.view(), new.view())["changed"]
    assert item == {
        "id": "x",
        "fields": [
            "offset",
            "ttl",
            "priority",
            "created_at_ns",
            "role",
            "kind",
            "content_hash",
            "data_z",
        ],
    }


def test_a_ttl_change_is_a_modification():
    old = import_session(tree({"id": "x", "ttl": 2}), "s").view()
    new = import_session(tree({"id": "x", "ttl": 1}), "s").view()
    assert diff_views(old, new)["changed"] == [{"id": "x", "fields": ["ttl"]}]


def test_diff_goes_by_id_not_by_content():
    old = import_session(tree({"id": "a", "content": "same"}), "s").view()
    new = import_session(tree({"id": "b", "content": "same"}), "s").view()
    found = diff_views(old, new)
    assert (found["added"], found["removed"]) == (["b"], ["a"])
    assert infer_moves(old, new, found) == [{"removed": "a", "added": "b"}]


def test_moves_pair_each_node_once():
    old = import_session(tree(*({"id": f"a{n}", "content": "x"} for n in range(3))), "s").view()
    new = import_session(tree(*({"id": f"b{n}", "content": "x"} for n in range(2))), "s").view()
    moves = infer_moves(old, new, diff_views(old, new))
    assert moves == [{"removed": "a0", "added": "b0"}, {"removed": "a1", "added": "b1"}]


def test_diff_with_an_address_in_its_selector_is_refused(session):
    session.commit()
    with pytest.raises(SelectorError):
        session.diff("@t-1", "@t0", "@t0 .cb")


def test_diffs_map_back_to_the_thread(session, say):
    say(session, "a")
    session.commit()
    say(session, "b")
    session.commit()
    before = {m["id"] for m in session.thread("@t-1")}
    after = {m["id"] for m in session.thread("@t0")}
    assert set(session.diff("@t-1", "@t0", ".cb")["added"]) == after - before


def test_diff_and_export_have_no_side_effect(session, say):
    say(session, "a")
    session.commit()
    before = session.export()
    session.diff("@c0", "@t0")
    session.moves("@c0", "@t0")
    session.document("@w")
    assert session.export() == before


def test_replaying_nothing_is_an_error():
    with pytest.raises(LogCorruptError):
        Session.replay([])
