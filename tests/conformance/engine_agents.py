"""Component 1, agent read and write model: one test for each criterion."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from indexer.engine.frames.agents import AgentError
from indexer.engine.frames.notes import FrameRefusedError
from tests.support.space import Space


def test_writer_agents_cannot_overwrite_frames(project: Space) -> None:
    first = project.note("src/one/a.py", "what it was")
    project.note("src/one/a.py", "what it is")
    kept = project.engine.list_frames("src/one/a.py", frame_type="note", content=True)["frames"]
    assert [frame["content"] for frame in kept] == ["what it is", "what it was"]
    assert kept[1]["frame_id"] == first["frame_id"]
    with pytest.raises(FrameRefusedError, match="kept by a generator"):
        project.note("src/one/a.py", frame_type="outline")


def test_reader_agents_never_trigger_writes(project: Space) -> None:
    project.engine.add_agent("rex", "reader")

    def everything() -> object:
        counts = "(SELECT count(*) FROM {}) AS {}"
        tables = ("frames", "heads", "basis", "nodes", "roots", "changes")
        columns = ", ".join(counts.format(table, table) for table in tables)
        rows = project.engine.sql(f"SELECT {columns}")["rows"]
        return rows, project.engine.records.journal.last, project.engine.frames.heads.versions.now

    project.write("src/one/a.py", "changed = True\n")
    before = everything()
    for path in ("", "src/one/a.py"):
        project.engine.get_node(path)
        project.engine.list_frames(path)
        project.engine.get_head(path)
        project.engine.explain(path)
        project.engine.regenerate(path, plan=True)
    project.engine.status()
    assert everything() == before
    for call in (
        lambda: project.engine.put_frame("src", "x", frame_type="note", agent="rex"),
        lambda: project.engine.synthesize("src", frame_type="outline", agent="rex"),
    ):
        with pytest.raises(AgentError):
            call()
    assert everything() == before


def test_agent_attribution_is_preserved_in_frame_ids(project: Space) -> None:
    ids = {
        project.note("src/one/a.py", "the same words", agent=agent)["frame_id"]
        for agent in ("ann", "bob", "eve")
    }
    assert len(ids) == 3
    shown = project.engine.get_node("src/one/a.py", frame_type="note")["frames"]
    assert {frame["agent"] for frame in shown} == {"ann", "bob", "eve"}


def test_concurrent_agents_do_not_corrupt_state(project: Space) -> None:
    agents = [f"agent-{number}" for number in range(4)]
    for agent in agents:
        project.engine.add_agent(agent, "writer")
    project.engine.serve()
    writer = ThreadPoolExecutor(1)
    failed: list[BaseException] = []

    def work(agent: str) -> None:
        try:
            for number in range(8):
                writer.submit(
                    project.engine.put_frame, "src/one/a.py", f"{agent} {number}",
                    frame_type="note", agent=agent,
                ).result()  # fmt: skip
                mine = project.engine.get_node("src/one/a.py", agent=agent)["frames"]
                assert [frame["content"] for frame in mine] == [
                    f"{agent} {written}" for written in range(number, -1, -1)
                ]
        except BaseException as problem:
            failed.append(problem)

    threads = [threading.Thread(target=work, args=(agent,)) for agent in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.shutdown()
    assert failed == []
    frames = project.engine.list_frames("src/one/a.py", frame_type="note")["frames"]
    assert len(frames) == 32
    assert sum(frame["head"] for frame in frames) == 4
    assert all(frame["live"] for frame in frames)
    project.valid()


def test_agent_identity_is_verified_on_all_write_operations(project: Space) -> None:
    project.engine.add_agent("rex", "reader")
    project.engine.add_agent("wes", "writer")
    project.engine.add_agent("syn", "synthesis")
    project.engine.add_agent("mute", "writer", can=["read"])
    for agent in ("nobody", "rex", "mute", "merkle:outline"):
        with pytest.raises(AgentError):
            project.engine.put_frame("src", "x", frame_type="note", agent=agent)
    for agent in ("nobody", "rex", "wes"):
        with pytest.raises(AgentError):
            project.engine.synthesize("src", frame_type="outline", agent=agent)
    assert project.engine.synthesize("src", frame_type="outline", agent="syn")["frame_id"]
    assert project.engine.put_frame("src", "x", frame_type="note", agent="wes")["created"]
    with pytest.raises(AgentError, match="a reader cannot write"):
        project.engine.add_agent("rex", "reader", can=["write"])


def test_who_asked_for_a_synthesis_is_metadata_and_no_part_of_the_id(project: Space) -> None:
    project.engine.add_agent("syn", "synthesis")
    project.write("src/one/new.py", "x = 1\n")
    other = project.clone()
    try:
        asked = project.engine.synthesize("src", frame_type="outline", agent="syn")
        other.settle()
        assert project.frame("src")["meta"]["asked_by"] == "syn"
        assert "asked_by" not in other.frame("src")["meta"]
        assert asked["frame_id"] == other.frame("src")["frame_id"]
    finally:
        other.close()
