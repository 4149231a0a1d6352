"""Component 5, multi-frame composition: one test for each requirement and each criterion."""

from __future__ import annotations

from typing import Any

import pytest

from indexer.compose.request import RequestError
from indexer.core.clock import ManualClock
from indexer.core.fence import unfenced
from indexer.engine.tree.resolve import UnknownNodeError
from tests.support.space import Space, python

QUESTIONS = ({}, {"query": "python"}, {"nodes": ["src/one/a.py"]}, {"order": "type"})


def shown(document: Any) -> list[tuple[str, str]]:
    return [(item["path"], item["type"]) for item in document["items"]]


def test_composition_never_exceeds_max_frames(project: Space) -> None:
    for options in QUESTIONS:
        every = project.engine.compose(**options)
        for limit in range(len(every["items"]) + 2):
            bounded = project.engine.compose(max_frames=limit, **options)
            assert shown(bounded) == shown(every)[:limit]
            assert len(bounded["messages"]) == len(bounded["items"])
            left = bounded["omitted"]["counts"].get("max_frames", 0)
            # A file that is shown whole needs no outline, which counts as long as it is not.
            whole = every["omitted"]["counts"].get("shown whole", 0)
            whole -= bounded["omitted"]["counts"].get("shown whole", 0)
            assert left == len(every["items"]) - len(bounded["items"]) + whole


def test_ordering_stable_across_runs(project: Space) -> None:
    for options in QUESTIONS:
        first = project.engine.compose(**options)
        assert project.engine.compose(**options) == first
        project.reopen()
        assert project.engine.compose(**options) == first


def test_missing_frames_handled_gracefully(project: Space) -> None:
    head = project.engine.get_head("src/one/a.py")["heads"][0]
    frame = project.engine.list_frames("src/one/a.py")["frames"][0]
    project.engine.close()
    project.open()
    with project.engine.database.transaction() as connection:
        connection.execute(
            "UPDATE bodies SET content = NULL WHERE lower(hex(sha256)) = ?",
            [frame["content_sha256"]],
        )
    found = project.engine.compose(["src/one/a.py"])
    assert "src/one/a.py" not in [item["path"] for item in found["items"]]
    assert found["omitted"]["counts"] == {"missing": 1}
    (left,) = found["omitted"]["first"]
    assert left == {"frame_id": head["frame_id"], "path": "src/one/a.py", "reason": "missing"}
    assert found["items"]
    with project.engine.database.transaction() as connection:
        connection.execute(
            "DELETE FROM frame_log WHERE path = 'src/one/b.py'",
        )
    project.reopen()
    found = project.engine.compose(["src/one/b.py"], sources=["node"])
    assert found["omitted"]["counts"] == {"missing": 1}


def test_no_writes_during_composition(project: Space) -> None:
    def rows() -> list[Any]:
        names = project.engine.database.rows("SELECT table_name FROM duckdb_tables() ORDER BY 1")
        return [
            (name, project.engine.database.rows(f"SELECT * FROM {name} ORDER BY ALL"))
            for (name,) in names
        ]

    project.engine.compose()
    before, journal = rows(), project.engine.records.journal.last
    # Also when the disk has moved on, which composing must tell and not record.
    project.write("src/one/a.py", python("renamed"))
    for options in QUESTIONS:
        project.engine.compose(**options)
    assert rows() == before
    assert project.engine.records.journal.last == journal
    made = project.engine.compose(record=True)
    assert [name for (name, old), (_, new) in zip(before, rows(), strict=True) if old != new] == [
        "manifest_log", "meta",
    ]  # fmt: skip
    assert project.engine.records.journal.last == journal + 1
    # The same again is already recorded.
    assert project.engine.compose(record=True) == made
    assert project.engine.records.journal.last == journal + 1


def test_empty_composition_returns_empty_result(space: Space) -> None:
    space.write("a.py", python())
    space.engine.scan()
    for options in ({}, {"query": "anything"}, {"nodes": ["a.py"]}):
        found = space.engine.compose(**options)
        assert (found["items"], found["messages"], found["tokens"]) == ([], [], 0)
        assert found["omitted"] == {"counts": {}, "first": []}
        assert found["candidates"] == 0
    space.engine.regenerate()
    nothing = space.engine.compose(query="zyzzyva")
    assert (nothing["items"], nothing["omitted"]["counts"]) == ([], {"no match": 2})
    assert [(left["path"], left["reason"]) for left in nothing["omitted"]["first"]] == [
        ("", "no match"), ("a.py", "no match"),
    ]  # fmt: skip
    assert space.engine.compose(query="the of and")["items"] == []
    assert space.engine.compose(budget=0)["messages"] == []


def test_policy_changes_produce_different_results(project: Space) -> None:
    for agent, kind in (("bob", "note"), ("ann", "todo")):
        project.note("src/one/a.py", f"{kind} by {agent}", agent=agent, frame_type=kind)
    options: list[dict[str, Any]] = [
        {"order": "recency"}, {"order": "type"}, {"order": "agent"}, {"order": "relevance"},
        {"order": "type", "types": ["todo", "outline", "note"]},
        {"order": "agent", "agents": ["bob", "merkle:outline", "ann"]},
        {"sources": ["node"]}, {"sources": ["parents"]}, {"sources": ["siblings"]},
        {"max_frames": 1}, {"budget": 40}, {"types": ["note"]}, {"agents": ["ann"]},
        {"query": "todo"}, {"query": "note"}, {"paths": ["*.md"]},
    ]  # fmt: skip
    made = [project.engine.compose(["src/one/a.py"], **each) for each in options]
    assert len({one["manifest_id"] for one in made}) == len(options)
    orders = {tuple(item["frame_id"] for item in one["items"]) for one in made}
    assert len(orders) >= len(options) - 3
    assert made == [project.engine.compose(["src/one/a.py"], **each) for each in options]


def test_recency_is_most_recent_first() -> None:
    clock = ManualClock(10**18)
    space = Space(clock=clock)
    try:
        space.fill({"a.py": python("a"), "b.py": python("b")})
        space.settle()
        for number in range(3):
            # A clock that goes back decides nothing: the store's sequence does.
            clock.advance(-5)
            space.note("a.py", f"note {number}", frame_type=f"n{number}")
        found = space.engine.compose(order="recency", agents=["ann"])
        assert [item["type"] for item in found["items"]] == ["n2", "n1", "n0"]
    finally:
        space.close()


def test_candidates_come_from_the_sources_that_are_named(project: Space) -> None:
    def places(*sources: str, nodes: tuple[str, ...] = ("src/one/a.py",), **more: Any) -> set[str]:
        found = project.engine.compose(nodes, sources=sources, **more)
        return {item["path"] for item in found["items"]}

    assert places("node") == {"src/one/a.py"}
    assert places("parents") == {"", "src", "src/one"}
    assert places("siblings") == {"src/one/a.py", "src/one/b.py"}
    assert places("below", nodes=("src/one",)) == {"src/one", "src/one/a.py", "src/one/b.py"}
    assert places("related", related=["src/two/c.py"]) == {"src/two/c.py"}
    every = {"", "README.md", "src", "src/one", "src/one/a.py", "src/one/b.py", "src/two"}
    assert places("workspace") == every | {"src/two/c.py"}
    assert places("node", "parents") == {"src/one/a.py", "", "src", "src/one"}
    node_id = project.engine.get_node("src/two/c.py")["node_id"]
    assert places("node", nodes=(node_id[:12],)) == {"src/two/c.py"}
    with pytest.raises(UnknownNodeError):
        places("node", nodes=("nowhere",))
    with pytest.raises(RequestError):
        places("parents", nodes=())


def test_filters_by_type_agent_path_and_date() -> None:
    clock = ManualClock(1_767_225_600 * 10**9)  # 2026-01-01
    space = Space(clock=clock)
    try:
        space.fill({"a.py": python("a"), "docs/b.md": "# B\n"})
        space.settle()
        clock.advance(86_400)
        space.note("a.py", "later")

        def places(**options: Any) -> list[tuple[str, str]]:
            return sorted(shown(space.engine.compose(**options)))

        assert places(types=["note"]) == [("a.py", "note")]
        assert places(agents=["ann"]) == [("a.py", "note")]
        assert places(paths=["docs"]) == [("docs", "outline"), ("docs/b.md", "outline")]
        assert places(paths=["*.py"], types=["outline"]) == [("a.py", "outline")]
        assert places(since="2026-01-02") == [("a.py", "note")]
        assert len(places(until="2026-01-02T00:00:00Z")) == 4
        assert places(since="2026-01-02T00:00:01") == []
        left = space.engine.compose(types=["note"], since="2026-01-03")["omitted"]["counts"]
        assert left == {"type": 4, "date": 1}
        with pytest.raises(RequestError, match="no date"):
            places(since="yesterday")
    finally:
        space.close()


def test_freshness_is_proved_when_read(project: Space) -> None:
    project.note("src/one/a.py", "about a")
    fresh = project.engine.compose()
    assert {item["freshness"] for item in fresh["items"]} == {"fresh"}
    project.write("src/one/a.py", python("other"))
    moved = project.engine.compose()
    labels = {(item["path"], item["type"]): item for item in moved["items"]}
    assert labels["src/one/a.py", "note"]["freshness"] == "stale"
    assert "changed" in labels["src/one/a.py", "note"]["because"]
    for path in ("src/one/a.py", "src/one", "src", ""):
        assert labels[path, "outline"]["freshness"] == "stale"
    assert labels["src/two/c.py", "outline"]["freshness"] == "fresh"
    stale = labels["src/one/a.py", "note"]
    said = moved["messages"][stale["message"]]["content"]
    assert unfenced(said).startswith("src/one/a.py (note by ann, stale)\n\nabout a")
    assert moved["root"] != fresh["root"]
    assert moved["candidates_sha256"] != fresh["candidates_sha256"]
    strict = project.engine.compose(require_fresh=True)
    assert {item["path"] for item in strict["items"]} == {
        "README.md",
        "src/one/b.py",
        "src/two",
        "src/two/c.py",
    }
    assert strict["omitted"]["counts"] == {"not fresh: stale": 5}


def test_what_is_gone_or_no_longer_declared_is_left_out(project: Space) -> None:
    (project.root / "src/one/a.py").unlink()
    found = project.engine.compose()
    assert "src/one/a.py" not in {item["path"] for item in found["items"]}
    project.write("src/one/a.py", python("a"))
    assert "src/one/a.py" in {item["path"] for item in project.engine.compose()["items"]}
    project.declare('[types.gist]\nfile = "outline"\n')
    left = project.engine.compose()
    assert left["items"] == []
    assert left["omitted"]["counts"] == {"unmanaged": 8}
