"""Range selects: RangeDiffLatestResult with its options, limits and content diffs."""

from __future__ import annotations

import json

import pytest

from indexer.sessions import SelectOptions, Session, import_session
from indexer.sessions.contentdiff import MAX_BYTES, content_diff, json_patch
from indexer.sessions.rangediff import OptionError, Stop, range_diff
from indexer.sessions.selector_parser import parse_selector


@pytest.fixture
def history(session: Session, say) -> Session:
    """Four snapshots: a, then ab, then bc (a expired), then bcd."""
    say(session, "a", id="a", ttl=2)
    session.commit()
    say(session, "b", id="b")
    session.commit()
    say(session, "c", id="c")
    session.commit()
    say(session, "d", id="d")
    session.commit()
    return session


def test_a_range_gives_pairwise_differences_newest_first(history):
    result = history.select("@t-3..@t0 ^seq .cb")
    assert result["query"] == "@t-3..@t0 ^seq .cb"
    assert result["mode"] == "pairwise"
    assert result["snapshots"] == [
        {"kind": "t", "value": 0, "label": "@t0", "cycle": 4},
        {"kind": "t", "value": -1, "label": "@t-1", "cycle": 3},
        {"kind": "t", "value": -2, "label": "@t-2", "cycle": 2},
        {"kind": "t", "value": -3, "label": "@t-3", "cycle": 1},
    ]
    steps = [(d["added_ids"], d["removed_ids"], d["changed"]) for d in result["diffs"]]
    assert steps == [(["d"], [], []), (["c"], ["a"], []), (["b"], [], [])]
    assert [d["from"]["cycle"] for d in result["diffs"]] == [4, 3, 2]
    assert [d["to"]["cycle"] for d in result["diffs"]] == [3, 2, 1]
    assert result["diffs"][1]["stats"] == {"added": 1, "removed": 1, "changed": 0}
    assert not result.keys() & {"limits", "warnings", "errors"}


def test_both_range_operators_and_short_ends_are_the_same(history):
    results = [
        history.select(f"{text} .cb")
        for text in ("@t-3..@t-1", "@t-3:@t-1", "@t-3..-1", "@t-3:-1", "@t-1..@t-3")
    ]
    for result in results:
        result.pop("query")
    assert all(result == results[0] for result in results)
    assert len(results[0]["snapshots"]) == 3


def test_ranges_by_cycle(history):
    result = history.select("@c1..@c2 .cb")
    assert [ref["label"] for ref in result["snapshots"]] == ["@c2", "@c1"]
    assert result["snapshots"][0] == {"kind": "c", "value": 2, "label": "@c2", "cycle": 2}


def test_a_range_that_begins_with_the_empty_tree_includes_it(history):
    for text in ("@c0..@c2 ^root .cb", "@t-4..@t-2 ^root .cb"):
        result = history.select(text)
        assert [ref["cycle"] for ref in result["snapshots"]] == [2, 1, 0]
        assert result["diffs"][-1]["added_ids"] == history.select("@c1 ^root .cb") != []
        assert "warnings" not in result


def test_one_snapshot_has_no_differences(history):
    assert history.select("@t0..@t0 .cb")["diffs"] == []


def test_a_range_beyond_the_history_is_cut_and_told(history):
    result = history.select("@t-99..@t0 .cb")
    assert len(result["snapshots"]) == 4
    assert result["warnings"]
    nothing = history.select("@c50..@c60 .cb")
    assert nothing["snapshots"] == nothing["diffs"] == []
    assert nothing["warnings"]


def test_a_limit_on_snapshots(history):
    result = history.select("@t-3..@t0 .cb", SelectOptions(max_snapshots=2))
    assert [ref["cycle"] for ref in result["snapshots"]] == [4, 3]
    assert result["limits"] == {"maxSnapshots": 2, "truncated": True}
    assert [e["code"] for e in result["errors"]] == ["E_SNAPSHOT_RANGE_LIMIT"]
    assert not result["errors"][0]["fatal"]
    whole = history.select("@t-3..@t0 .cb", SelectOptions(max_snapshots=9))
    assert whole["limits"]["truncated"] is False


def test_a_limit_on_changes(history):
    options = SelectOptions(max_changes_per_snapshot=1)
    result = history.select("@t-3..@t0 .cb", options)
    block = result["diffs"][1]
    assert (block["added_ids"], block["removed_ids"]) == (["c"], [])
    assert block["stats"] == {"added": 1, "removed": 1, "changed": 0}
    assert result["limits"]["truncated"] is True
    empty = history.select("@t-3..@t0 .cb", SelectOptions(max_changes_per_snapshot=0))
    assert all(not d["added_ids"] for d in empty["diffs"])
    none = history.select("@t-3..@t0 .cb", SelectOptions(max_snapshots=0))
    assert none["snapshots"] == []


def test_options_do_not_touch_single_snapshots(history):
    options = SelectOptions(max_snapshots=0, max_changes_per_snapshot=0)
    assert history.select("@t0 .cb", options) == history.select(".cb")


@pytest.mark.parametrize(
    "fields",
    [
        {"content_mode": "words"},
        {"max_snapshots": -1},
        {"context_lines": -1},
        {"materialize": ("blood",)},
    ],
)
def test_options_that_make_no_sense_are_refused(fields):
    with pytest.raises(OptionError):
        SelectOptions(**fields)


def test_results_are_deterministic_bytes(history):
    results = {json.dumps(history.select("@t-3..@t0 *")) for _ in range(3)}
    assert len(results) == 1


def stops(older: object, newer: object, **headers: object) -> list[Stop]:
    """Two snapshots of one block, whose content or headers differ."""

    def made(cycle: int, fields: dict[str, object]) -> Stop:
        node = {"id": "x", "role": "user", **fields}
        tree = {"cycle": cycle, "root": {"children": [{"nodeType": "^sys", "children": [node]}]}}
        view = import_session(tree, "s").view()
        ref = {"kind": "c", "value": cycle, "label": f"@c{cycle}", "cycle": cycle}
        return Stop(ref, view)

    return [
        made(2, {"content": newer, "cycle": 1, **headers}),
        made(1, {"content": older, "cycle": 1}),
    ]


def changed(older: object, newer: object, options: SelectOptions, **headers: object) -> dict:
    result = range_diff(parse_selector("@c1..@c2 .cb"), stops(older, newer, **headers), (), options)
    (item,) = result["diffs"][0]["changed"]
    return item


def test_changed_headers_have_a_delta_from_newer_to_older():
    item = changed("x", "x", SelectOptions(), ttl=4, priority=2)
    assert item["fields"] == ["ttl", "priority"]
    assert item["delta"]["ttl"] == {"from": 4, "to": None}
    assert item["delta"]["priority"] == {"from": 2, "to": 0}
    assert "content_diff" not in item


def test_content_diffs_only_on_request():
    assert changed("x", "y", SelectOptions())["fields"] == ["content_hash"]
    assert "content_diff" not in changed("x", "y", SelectOptions())
    assert "content_diff" in changed("x", "y", SelectOptions(include_content=True))


def test_unified_content_diff():
    old = "\n".join(f"line {n}" for n in range(20))
    new = old.replace("line 10", "line ten")
    wide = changed(old, new, SelectOptions(include_content=True))["content_diff"]
    assert wide["mode"] == "unified"
    assert "-line 10\n+line ten" in wide["diff"]
    assert "line 7" in wide["diff"]
    narrow = changed(old, new, SelectOptions(include_content=True, context_lines=0))
    assert "line 7" not in narrow["content_diff"]["diff"]
    assert wide["summary"] == {
        "bytesNewer": len(new),
        "bytesOlder": len(old),
        "identical": False,
        "truncated": False,
    }


def test_json_patch_content_diff():
    options = SelectOptions(include_content=True, content_mode="jsonpatch")
    item = changed({"a": 1, "b/c": [1, 2, 3]}, {"b/c": [1, 5], "d": True}, options)
    assert item["content_diff"]["patch"] == [
        {"op": "remove", "path": "/a"},
        {"op": "replace", "path": "/b~1c/1", "value": 5},
        {"op": "remove", "path": "/b~1c/2"},
        {"op": "add", "path": "/d", "value": True},
    ]
    assert json_patch([1], [1, 2, 3]) == [
        {"op": "add", "path": "/-", "value": 2},
        {"op": "add", "path": "/-", "value": 3},
    ]
    assert json_patch({"a": 1}, {"a": True}) == [{"op": "replace", "path": "/a", "value": True}]
    assert json_patch("x", "x") == []


def test_json_texts_are_compared_as_json():
    options = SelectOptions(include_content=True, content_mode="jsonpatch")
    patch = changed('{"a":1}', '{"a": 2}', options)["content_diff"]["patch"]
    assert patch == [{"op": "replace", "path": "/a", "value": 2}]


def test_token_content_diff():
    options = SelectOptions(include_content=True, content_mode="tokens")
    hunks = changed("one two three", "one 2 three", options)["content_diff"]["hunks"]
    assert hunks == [{"op": "replace", "older": ["two"], "newer": ["2"], "at": 2}]


def test_large_contents_are_summarized_only():
    shown = content_diff("x" * (MAX_BYTES + 1), "y", "unified")
    assert shown["summary"]["truncated"] is True
    assert "diff" not in shown


def test_materialized_fields():
    options = SelectOptions(materialize=("content", "content_hash", "mime"))
    item = changed("x", "y", options, content_mime="text/plain")
    assert item["materialized"]["content"] == {"from": "y", "to": "x"}
    assert item["materialized"]["mime"] == {"from": "text/plain", "to": None}
    assert item["materialized"]["content_hash"]["from"] != item["delta"]["content_hash"]["to"]
