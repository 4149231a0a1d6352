"""Component 2, context APIs: one test for each criterion."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from indexer.engine.tree.resolve import UnknownNodeError
from indexer.errors import MerkleError, UsageError
from tests.support.space import Space, python


def test_same_request_yields_the_same_frame_set(project: Space) -> None:
    for agent in ("bob", "ann"):
        for kind in ("todo", "note"):
            project.note("src/one/a.py", f"{agent} {kind}", agent=agent, frame_type=kind)
    for view in ("recency", "type", "agent"):
        first = project.engine.get_node("src/one/a.py", view=view)
        assert project.engine.get_node("src/one/a.py", view=view) == first
        bounded = project.engine.get_node("src/one/a.py", view=view, max_frames=2)
        assert bounded["frames"] == first["frames"][:2]
        assert bounded["frame_count"] == first["frame_count"] == 5
    before = project.engine.get_node("src/one/a.py")
    project.reopen()
    assert project.engine.get_node("src/one/a.py") == before
    assert project.engine.get_node("src/one/a.py", max_frames=0)["frames"] == []


def test_frame_append_updates_heads_correctly(
    project: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        written = project.note("src/one/a.py", f"note {number}")
        (head,) = project.engine.get_head("src/one/a.py", frame_type="note")["heads"]
        assert head["frame_id"] == written["frame_id"]
    store = project.engine.frames.store
    record = type(store).record

    def fails(*arguments: object) -> None:
        record(*arguments)  # type: ignore[arg-type]  # arguments from a table
        raise RuntimeError("after the transaction")

    with monkeypatch.context() as patch:
        patch.setattr(project.engine.database, "checkpoint", fails)
        patch.setattr(
            "indexer.store.frames.put_meta",
            lambda *_: (_ for _ in ()).throw(RuntimeError("inside the transaction")),
        )
        with pytest.raises(RuntimeError):
            project.note("src/one/a.py", "never acknowledged")
    (head,) = project.engine.get_head("src/one/a.py", frame_type="note")["heads"]
    assert head["frame_id"] == written["frame_id"]
    assert len(project.engine.list_frames("src/one/a.py", frame_type="note")["frames"]) == 3
    project.note("src/one/b.py", "goes on")
    project.valid()


def test_api_calls_do_not_trigger_synthesis_implicitly(project: Space) -> None:
    project.write("src/one/a.py", python("a", args="other"))
    project.engine.scan()
    before = project.engine.sql("SELECT count(*) FROM frames")["rows"]
    project.engine.get_node("src")
    project.engine.get_head("src")
    project.engine.list_frames("src")
    project.engine.explain("src")
    project.engine.status()
    project.engine.validate()
    project.engine.invalidate("src")
    project.note("src/one/b.py")
    after = project.engine.sql("SELECT count(*) FROM frames")["rows"]
    assert after[0][0] - before[0][0] == 1
    assert project.freshness("src") == "stale"


def test_error_handling_is_deterministic(project: Space) -> None:
    project.engine.add_agent("rex", "reader")

    def told(call: object) -> tuple[str, str, str]:
        with pytest.raises(MerkleError) as refused:
            call()  # type: ignore[operator]  # calls from a table
        return type(refused.value).__name__, refused.value.message, refused.value.hint

    engine = project.engine
    for call in (
        lambda: engine.get_node("no/such"),
        lambda: engine.get_node("src", view="nonsense"),
        lambda: engine.put_frame("src", "x", frame_type="note", agent="rex"),
        lambda: engine.regenerate("", frame_type="nonsense"),
        lambda: engine.synthesize("README.md", frame_type="outline"),
        lambda: engine.explain("src", frame_type="nonsense"),
    ):
        assert told(call) == told(call)


def test_concurrent_requests_are_handled_safely(project: Space) -> None:
    project.note("src/one/a.py")
    project.reopen()
    project.engine.serve()
    with ThreadPoolExecutor(6) as clients:
        asked = [
            clients.submit(project.engine.get_node, path)
            for path in ("", "src", "src/one/a.py") * 8
        ]
        answers = [one.result() for one in asked]
    for start in range(3):
        assert all(answer == answers[start] for answer in answers[start::3])


def test_invalid_node_id_returns_a_clear_error(project: Space) -> None:
    for node in ("no/such/path", "id:zz", "id:" + "0" * 32, "deadbeef", "../outside", "\x00"):
        for call in (
            project.engine.get_node,
            project.engine.list_frames,
            project.engine.get_head,
            project.engine.explain,
            project.engine.invalidate,
            project.engine.regenerate,
        ):
            with pytest.raises(UsageError) as refused:
                call(node)
            assert refused.value.message
    with pytest.raises(UnknownNodeError):
        project.note("no/such/path")
