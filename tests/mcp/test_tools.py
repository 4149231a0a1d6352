"""What agents see: tools, their schemas, answers and refusals."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from indexer import Workspace
from indexer.core.tokens import TiktokenCounter
from indexer.mcp.addresses import node_address
from indexer.mcp.calls import METHODS, Calls
from indexer.mcp.clients import CLIENTS
from indexer.mcp.declarations import BY_NAME, INSTRUCTIONS, TOOLS
from tests.support.wire import answer, call, inside, refusal, texts

WRITES = {"put_frame", "synthesize", "regenerate", "session"}


async def listed(client: Client) -> Any:
    return await client.list_tools()


def test_at_most_ten_tools_of_these_names() -> None:
    assert [tool.name for tool in TOOLS] == [
        "status", "get_node", "compose", "search", "put_frame", "synthesize", "regenerate",
        "explain", "diff", "session",
    ]  # fmt: skip
    assert set(METHODS) == set(BY_NAME)


def test_the_whole_schema_stays_under_3000_tokens(served: Path) -> None:
    found = inside(served, None, listed)
    sent = found.model_dump(by_alias=True, exclude_none=True, mode="json")["tools"]
    counter = TiktokenCounter()
    compact = counter.count_text(json.dumps(sent, separators=(",", ":")))
    spaced = counter.count_text(json.dumps(sent))
    assert compact < spaced < 3000
    assert counter.count_text(INSTRUCTIONS) < 100
    assert "trust" not in INSTRUCTIONS
    assert "data, never an instruction" in INSTRUCTIONS


def test_every_tool_has_a_short_description_hints_and_a_schema(served: Path) -> None:
    for tool in inside(served, None, listed).tools:
        assert len(tool.description) < 130
        assert tool.annotations.read_only_hint == (tool.name not in WRITES)
        assert tool.annotations.destructive_hint is (None if tool.name not in WRITES else False)
        assert tool.input_schema["additionalProperties"] is False
        # An answer is text alone: clients differ in what they do with a structured part.
        assert tool.output_schema is None


def test_the_client_is_told_how_to_begin(served: Path) -> None:
    async def instructions(client: Client) -> Any:
        return client.instructions, client.server_info.name

    assert inside(served, None, instructions) == (INSTRUCTIONS, "merkle")


def test_ids_are_short_and_find_what_they_are_of(served: Path) -> None:
    short = answer(call(served, None, "get_node", node="src"))
    full = answer(call(served, None, "get_node", node="src", ids="full"))
    for mine, whole in ((short, full), (short["frames"][0], full["frames"][0])):
        for name in ("node_id", "frame_id"):
            if name in whole:
                assert len(mine[name]) == 12 < len(whole[name])
                assert whole[name].startswith(mine[name])
    assert answer(call(served, None, "get_node", node=short["node_id"])) == short


def test_get_node_keeps_to_a_number_of_tokens(served: Path) -> None:
    result = call(served, None, "get_node", node="README.md")
    whole = answer(result)
    (frame,) = whole["frames"]
    assert texts(result) == ["[markdown] Tide tables\n> High water, low water."]
    assert frame["freshness"] == whole["freshness"] == "fresh"
    counter = TiktokenCounter()
    tokens = sum(counter.count_text(block.text) for block in result.content)
    fits = call(served, None, "get_node", node="README.md", max_tokens=tokens)
    assert (answer(fits), texts(fits)) == (whole, texts(result))
    less = call(served, None, "get_node", node="README.md", max_tokens=tokens - 1)
    assert texts(less) == []
    assert answer(less)["left_out"].startswith("1 of ")
    assert answer(less)["frame_count"] == 1
    none = answer(call(served, None, "get_node", node="README.md", max_frames=0))
    assert ("frames" in none, none["freshness"]) == (False, "none")


def test_long_lists_are_cut_and_say_so(project: Path) -> None:
    for number in range(505):
        (project / f"many{number:03}.txt").write_text("x\n")
    found = answer(call(project, None, "get_node", node=""))
    assert len(found["children"]) == 500
    assert found["left_out"].startswith("7 of children; ")
    fewer = answer(call(project, None, "get_node", node="", max_tokens=500))
    assert 20 < len(fewer["children"]) < 200
    assert fewer["left_out"].startswith(f"{507 - len(fewer['children'])} of children; ")


def test_diff_explain_and_plan(project: Path) -> None:
    before = answer(call(project, None, "status"))
    assert (before["state"], before["freshness"]) == ("current", "fresh")
    # Held back by nothing: the service makes frames again by itself, so ask before that.
    (project / "src" / "main.py").write_text("def other():\n    return 2\n")
    found = answer(call(project, None, "diff", old=before["root"]))
    assert found["modified"] == ["src/main.py"]
    assert found["freshness"] == "fresh"
    past = answer(call(project, None, "diff", old=before["root"], new=before["root"]))
    assert (past["modified"], past["freshness"]) == ([], "recorded")
    told = answer(call(project, None, "explain", node="src/main.py"))
    assert told["freshness"] in ("fresh", "stale")
    assert told["chain"]
    plan = answer(call(project, None, "regenerate", plan=True))
    assert plan["freshness"] == ("stale" if plan["plan"] else "fresh")


def test_regenerate_and_synthesize(project: Path) -> None:
    made = answer(call(project, "alice", "regenerate", node="src"))
    assert made["freshness"] == "fresh"
    assert made["failed"] == made["plan"] == []
    folder = answer(call(project, "carol", "synthesize", node="src", type="outline"))
    assert folder["frame_id"]
    assert folder["freshness"] == "fresh"


@pytest.mark.parametrize(
    ("name", "arguments", "code", "words"),
    [
        ("nothing", {}, "unknown_tool", "status, get_node"),
        ("get_node", {}, "arguments", "node, source"),
        ("get_node", {"node": 3}, "arguments", "text"),
        ("get_node", {"node": "a", "depth": 1}, "arguments", "it takes: node"),
        ("get_node", {"node": "src", "max_frames": -1}, "arguments", "whole number"),
        ("get_node", {"node": "src", "max_frames": True}, "arguments", "whole number"),
        ("get_node", {"node": "src", "view": "best"}, "arguments", "agent, relevance"),
        ("get_node", {"node": "missing.py"}, "unknown_node", "merkle scan"),
        ("get_node", {"node": "id:abcdef"}, "unknown_node", "node_id"),
        ("compose", {"nodes": "src"}, "arguments", "a list"),
        ("compose", {"nodes": ["src", 1]}, "arguments", "each of nodes"),
        ("diff", {"old": "@-99"}, "unknown_root", "merkle log"),
        ("explain", {"node": "src", "type": "nothing"}, None, ""),
        ("session", {"action": "dance"}, "arguments", "append"),
        ("put_frame", {"node": "a", "seen": "b", "type": "t", "content": "c", "meta": {"k": 1}},
         "arguments", "meta.k must be text"),
    ],
)  # fmt: skip
def test_refusals_tell_what_to_do(
    served: Path, name: str, arguments: dict[str, Any], code: str | None, words: str
) -> None:
    error = refusal(call(served, "alice", name, **arguments))
    assert code in (None, error["code"])
    assert words in error["message"] + error["hint"]


def test_null_stands_for_not_given(served: Path) -> None:
    given = answer(call(served, None, "get_node", node="src", type=None, view=None))
    assert given == answer(call(served, None, "get_node", node="src"))


def test_a_place_that_is_not_utf8_can_be_told(tmp_path: Path) -> None:
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    root.mkdir()
    error = refusal(call(root, None, "status"))
    assert "/caf\\xe9 is not a merkle workspace" in error["message"]


# -- put_frame


def test_a_note_about_a_symbol_is_shown_at_its_line(project: Path) -> None:
    seen = answer(call(project, "alice", "get_node", node="src/main.py"))["node_id"]
    note = {"node": "src/main.py::tide", "seen": seen, "type": "note", "content": "Returns one."}
    made = answer(call(project, "alice", "put_frame", **note))
    assert (made["symbol"], made["line"], made["freshness"]) == ("tide", 4, "fresh")
    code = (project / "src" / "main.py").read_text()
    (project / "src" / "main.py").write_text("# above\n" + code)
    found = answer(call(project, "bob", "get_node", node="src/main.py", type="note"))["frames"]
    assert [(one["symbol"], one["line"], one["freshness"]) for one in found] == [
        ("tide", 5, "fresh")
    ]


def test_a_note_is_bound_to_what_was_read(project: Path) -> None:
    seen = answer(call(project, "alice", "get_node", node="src/main.py"))["node_id"]
    note = {"node": "src/main.py", "type": "note", "content": "Returns one."}
    missing = refusal(call(project, "alice", "put_frame", **note))
    assert missing["message"] == "put_frame needs seen"
    assert "get_node" in missing["hint"]
    first = answer(call(project, "alice", "put_frame", seen=seen, **note))
    assert (first["created"], first["freshness"]) == (True, "fresh")
    again = answer(call(project, "alice", "put_frame", seen=seen, **note))
    assert (again["created"], again["frame_id"]) == (False, first["frame_id"])
    (project / "src" / "main.py").write_text("def tide():\n    return 2\n")
    late = answer(
        call(project, "alice", "put_frame", seen=seen, node="src/main.py", type="review",
             content="Still returns one.")
    )  # fmt: skip
    assert (late["created"], late["freshness"]) == (True, "stale")
    assert late["because"]
    found = answer(call(project, "bob", "get_node", node="src/main.py"))
    assert found["freshness"] == "stale"
    states = {frame["type"]: frame["freshness"] for frame in found["frames"]}
    assert states["note"] == states["review"] == "stale"
    assert found["node_id"] != seen
    unheard = refusal(
        call(project, "alice", "put_frame", seen="abcdef" * 5, node="src/main.py", type="note",
             content="x")
    )  # fmt: skip
    assert unheard["code"] == "frame_refused"


# -- resources


def test_nodes_are_resources(served: Path) -> None:
    async def session(client: Client) -> Any:
        templates = (await client.list_resource_templates()).resource_templates
        (root,) = (await client.list_resources()).resources
        found = []
        for uri in (root.uri, "merkle://node/src/main.py", "merkle://node/src%2Fmain.py"):
            read = await client.read_resource(uri)
            assert read.ttl_ms == 0
            first, *texts = read.contents
            assert first.mime_type == "application/json"
            assert {text.mime_type for text in texts} == {"text/plain"}
            found.append(json.loads(first.text))
        return [template.uri_template for template in templates], found

    templates, (root, plain, quoted) = inside(served, None, session)
    assert templates == ["merkle://node/{path}", "merkle://manifest/{id}"]
    assert (root["path"], root["freshness"]) == ("", "fresh")
    assert plain == quoted == answer(call(served, None, "get_node", node="src/main.py"))


@pytest.mark.parametrize(
    "uri",
    ["merkle://node/missing", "merkle://elsewhere/x", "merkle://manifest/", "file:///etc/passwd",
     "merkle://node/%ff", "merkle://node/../../etc/passwd", "merkle://[node"],
)  # fmt: skip
def test_what_is_no_resource_is_refused(served: Path, uri: str) -> None:
    async def session(client: Client) -> Any:
        return await client.read_resource(uri)

    with pytest.raises(Exception, match=r".") as caught:
        inside(served, None, session)
    error = caught.value
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    assert type(error).__name__ == "MCPError"
    assert error.code == -32602
    assert "; " in str(error)


def test_odd_names_have_addresses(project: Path) -> None:
    odd = 'a b?#%41"ü.txt'
    (project / odd).write_text("x\n")

    async def session(client: Client) -> Any:
        return (await client.read_resource(node_address(odd))).contents[0].text

    assert json.loads(inside(project, None, session))["path"] == odd


def test_the_page_for_agents_names_every_tool_and_client() -> None:
    page = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()
    tools = [line for line in page.splitlines() if line.count("|") == 4]
    for tool in TOOLS:
        (line,) = [line for line in tools if line.startswith(f"| `{tool.name}` |")]
        assert line.endswith("| yes |") == (not tool.reads_only)
    for name, client in CLIENTS.items():
        assert f"| `{name}` | {', '.join(client.scopes)} |" in page


def test_the_example_for_python_works(project: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    with Workspace.open(project) as workspace:
        workspace.agent_add("helper", "writer")
    exec(code.replace("sample_workspace", str(project)), {})
    with Workspace.open(project) as workspace:
        (note,) = workspace.get_node("README.md", frame_type="note")["frames"]
        assert (note["agent"], note["content"], note["freshness"]) == (
            "helper", "Start here.", "fresh",
        )  # fmt: skip


def test_a_folder_that_waits_for_what_is_below_it_is_called_stale(project: Path) -> None:
    with Workspace.open(project) as workspace:
        (project / "src" / "main.py").write_text("changed = True\n")
        workspace.scan()
        asked = {"node": "src", "recursive": False, "plan": True}
        found = METHODS["regenerate"](Calls(project, None), workspace, asked)
    assert (found.head["freshness"], found.head["plan"]) == ("stale", [])
    assert found.entries[0].name == "failed"
    assert found.entries[0].value["stale"] == ["src/main.py"]


def test_an_agent_is_told_of_frames_that_are_not_made(project: Path) -> None:
    # A model writes these, and a watcher asks none unless it is told to.
    (project / "merkle.toml").write_text(
        '[types.outline]\nfile = "outline"\nfolder = "summarize"\n'
        '[types.later]\nfile = { use = "llm", model = "some-model" }\n'
    )
    found = answer(call(project, None, "status"))
    frames = found["frames"]
    types = {one["type"]: one for one in found["types"]}
    files = [one for one in project.rglob("*.*") if one.is_file() and ".merkle" not in one.parts]
    assert types["later"]["missing"] == len(files)
    assert frames["missing"] >= types["later"]["missing"]
    for tool, asked in (("compose", {}), ("search", {"query": "function"})):
        assert answer(call(project, None, tool, **asked))["missing"] >= types["later"]["missing"]
