"""`compose`, `replay`, `compile`, and `diff` of manifests, as commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("kept_open")


def test_an_empty_answer_says_why(scanned: Path, merkle: Any) -> None:
    for line, why in (
        (["--query", "tide"], "`merkle regenerate` makes outlines"),
        (["--query", "xylophone"], "no frame has a word of the question"),
        (["--budget", "5"], "no frame fits the budget"),
    ):
        assert why in merkle("-C", scanned, "compose", *line).out
        merkle("-C", scanned, "regenerate")


def test_compose_prints_what_an_agent_reads(peopled: Path, merkle: Any) -> None:
    ran = merkle("-C", peopled, "compose", "--query", "the readme")
    assert ran.code == 0
    assert "README.md (source, lines 1-1): fresh" in ran.out
    frames = merkle("-C", peopled, "compose", "--query", "the readme", "--no-source")
    assert "README.md (outline by merkle:outline): fresh" in frames.out
    told = merkle("-C", peopled, "compose", "--query", "the readme", "--why")
    assert "path" in told.out.partition("README.md:1-1")[2].splitlines()[1]
    assert "not recorded; --record keeps it" in ran.out
    document = merkle("-C", peopled, "compose", "--query", "the readme", "--json").json
    assert document["items"][0]["path"] == "README.md"
    assert document["tokens"] <= document["budget"] == 8000
    bare = merkle("-C", peopled, "compose", "--query", "the readme", "--format", "messages")
    assert json.loads(bare.out) == document["messages"]
    quiet = merkle("-C", peopled, "compose", "--query", "the readme", "--quiet")
    assert "README.md (source" in quiet.out
    assert "manifest" not in quiet.out


def test_options_reach_the_request(peopled: Path, merkle: Any) -> None:
    ran = merkle(
        "-C", peopled, "--json", "compose", "src", "--source", "node", "--source", "below",
        "--order", "type", "--type", "outline", "--agent", "merkle:outline", "--path", "*.py",
        "--budget", "500", "--max-frames", "3", "--require-fresh", "--since", "2020-01-01",
        "--until", "2999-01-01", "--related", "README.md",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert [item["path"] for item in ran.json["items"]] == ["src/main.py"]
    assert ran.json["request"] == {
        "nodes": ["src"], "related": ["README.md"], "sources": ["node", "below", "related"],
        "query": None, "order": "type", "budget": 500, "max_frames": 3, "require_fresh": True,
        "types": ["outline"], "agents": ["merkle:outline"], "paths": ["*.py"],
        "since": "2020-01-01", "until": "2999-01-01",
    }  # fmt: skip


def test_only_leaves_out_everything_else_whatever_the_order(peopled: Path, merkle: Any) -> None:
    def types(*line: str) -> set[str]:
        items = merkle("-C", peopled, "--json", "compose", *line).json["items"]
        return {f"{item['type']} {item['agent']}" for item in items}

    assert types("--query", "the readme", "--only", "outline") == {"outline merkle:outline"}
    assert types("--order", "type", "--only", "note") == set()
    assert types("--order", "agent", "--only", "merkle:outline") == {"outline merkle:outline"}
    assert len(types("--order", "agent", "--agent", "merkle:outline")) > 1


def test_search_prints_places_that_an_editor_can_go_to(peopled: Path, merkle: Any) -> None:
    ran = merkle("-C", peopled, "search", "tide", "--kind", "text,symbol")
    assert ran.code == 0
    assert sorted(ran.out.splitlines()) == [
        "README.md:1    heading  Tide tables  Tide tables",
        "README.md:1    text  # Tide tables",
        "src/main.py:1  text  print('tide')",
    ]
    document = merkle("-C", peopled, "--json", "search", "print(", "--kind", "text").json
    assert {"path", "symbol", "line", "type", "score", "freshness", "excerpt"} <= set(
        document["results"][0]
    )
    assert document["found"] == 1
    none = merkle("-C", peopled, "search", "xylophone")
    assert (none.code, none.out) == (1, "")
    assert merkle("-C", peopled, "search", "main", "--kind", "luck").code == 2
    assert merkle("-C", peopled, "search", " ").code == 2


def test_search_says_what_is_not_fresh(peopled: Path, merkle: Any) -> None:
    (peopled / "src" / "main.py").write_text("def other():\n    pass\n")
    ran = merkle("-C", peopled, "search", "main", "--kind", "frame")
    assert "src/main.py  outline  stale (" in ran.out


def test_record_replay_and_diff(peopled: Path, merkle: Any) -> None:
    first = merkle("-C", peopled, "--json", "compose", "src/main.py", "--record").json
    bytes_then = merkle("-C", peopled, "compose", "src/main.py", "--format", "messages").out
    (peopled / "src" / "main.py").write_text("def ebb():\n    pass\n")
    assert merkle("-C", peopled, "regenerate").code == 0
    ran = merkle("-C", peopled, "replay", first["manifest_id"][:10], "--format", "messages")
    assert (ran.code, ran.out) == (0, bytes_then)
    told = merkle("-C", peopled, "replay", first["manifest_id"])
    assert "as it was when this was recorded" in told.out
    second = merkle("-C", peopled, "--json", "compose", "src/main.py", "--record").json
    ids = (first["manifest_id"][:10], second["manifest_id"][:10])
    ran = merkle("-C", peopled, "diff", *ids)
    assert ran.code == 0
    assert "modified  src/main.py (outline by merkle:outline)" in ran.out
    assert "modified" in merkle("-C", peopled, "diff", *ids, "--format", "markdown").out
    document = merkle("-C", peopled, "--json", "diff", *ids).json
    assert "src/main.py" in document["modified"]
    listed = merkle("-C", peopled, "--json", "sql", "SELECT manifest_id FROM manifests").json
    assert {row[0] for row in listed["rows"]} == {first["manifest_id"], second["manifest_id"]}
    assert merkle("-C", peopled, "validate").code == 0


def test_wrong_use_is_refused_and_changes_nothing(
    peopled: Path, merkle: Any, contents: Any
) -> None:
    before = contents(peopled / ".merkle" / "journal")
    for line in (
        ["compose", "nowhere"], ["compose", "--order", "nowhere"], ["compose", "--query", " "],
        ["compose", "--source", "parents"], ["compose", "--since", "soon"], ["replay", "ffffffff"],
        ["replay", "no"], ["compose", "--budget", "-1"], ["diff", "manifest:ffffff", "@-0"],
        ["get-node", "src", "--view", "relevance"],
    ):  # fmt: skip
        ran = merkle("-C", peopled, "--json", *line)
        assert ran.code == 2, line
        assert ran.json["error"]["message"], line
        assert contents(peopled / ".merkle" / "journal") == before, line


def test_compose_before_any_scan_could_not_be_done(workspace: Path, merkle: Any) -> None:
    assert merkle("-C", workspace, "compose").code == 5
    assert merkle("-C", workspace, "init").code == 0
    ran = merkle("-C", workspace, "--json", "compose")
    assert (ran.code, ran.json["error"]["code"]) == (3, "never_scanned")


def test_get_node_by_relevance(peopled: Path, merkle: Any) -> None:
    for kind, text in (("plan", "raise the sails"), ("risk", "storm at night")):
        line = ["put-frame", "src", "-", "--type", kind, "--agent", "alice"]
        assert merkle("-C", peopled, *line, stdin=text).code == 0
    ran = merkle("-C", peopled, "--json", "get-node", "src", "--query", "sail")
    assert ran.json["frames"][0]["type"] == "plan"
    ran = merkle(
        "-C", peopled, "--json", "get-node", "src", "--view", "relevance", "--query", "storms"
    )
    assert ran.json["frames"][0]["type"] == "risk"


def test_compile_needs_no_workspace(tmp_path: Path, merkle: Any) -> None:
    events = [
        {"kind": "user", "turn": 0, "payload": "one"},
        {"kind": "tool", "turn": 0, "payload": {"name": "x"}},
        {"kind": "assistant", "turn": 1, "payload": "two"},
    ]
    (tmp_path / "events.json").write_text(json.dumps(events))
    (tmp_path / "policy.json").write_text('{"selection": {"kind_allowlist": ["user"]}}')
    ran = merkle("-C", tmp_path, "--json", "compile", tmp_path / "events.json")
    assert ran.code == 0
    assert list(ran.json["stages"]) == ["FROZEN", "HEADER", "RAW", "SPEC"]
    assert len(ran.json["stages"]["SPEC"]["selected_ids"]) == 3
    ran = merkle(
        "--json", "compile", tmp_path / "events.json", "--policy", tmp_path / "policy.json"
    )
    spec = ran.json["stages"]["SPEC"]
    assert (len(spec["selected_ids"]), len(spec["dropped_ids"])) == (1, 2)
    assert set(spec) >= {"selection_sha256", "collapsed_ids"}
    text = merkle("compile", "-", stdin=json.dumps(events))
    assert "3 events, 2 turns" in text.out
    for wrong in ("{", "{}", '[{"kind": 1}]'):
        ran = merkle("--json", "compile", "-", stdin=wrong)
        assert (ran.code, bool(ran.json["error"]["message"])) == (2, True)
    (tmp_path / "policy.json").write_text("[]")
    ran = merkle("compile", tmp_path / "events.json", "--policy", tmp_path / "policy.json")
    assert ran.code == 2
