"""`AgentAdapter`: the same results over the local engine and over the socket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indexer import AgentAdapter, ContextView, NewFrame, Workspace
from indexer.errors import LockedError, MerkleError
from tests.support.copies import copy_workspace

AGENTS = (("alice", "writer"), ("bob", "reader"), ("carol", "synthesis"))


@pytest.fixture
def twins(folder: Path, shm: Path) -> tuple[Path, Path]:
    """Two workspaces of the same content and the same agents."""
    (folder / "src").mkdir()
    (folder / "src" / "main.py").write_text('"""Tides."""\n\n\ndef tide():\n    return 1\n')
    (folder / "README.md").write_text("# Tide tables\n")
    with Workspace.open(folder) as workspace:
        workspace.scan()
        for name, role in AGENTS:
            workspace.agent_add(name, role)
        workspace.regenerate()
    copy = shm / f"{folder.name}-copy"
    return folder, copy_workspace(folder, copy)


def script(root: Path, *, served: bool = False) -> list[Any]:
    """Everything an adapter can do, once; what it came to, step by step."""
    told: list[Any] = []

    def step(work: Callable[[], Any]) -> Any:
        try:
            found = work()
        except MerkleError as error:
            found = (error.code, error.message, error.hint, int(error.exit_code))
        told.append(found)
        return found

    def read(adapter: AgentAdapter, view: ContextView | None = None) -> Any:
        return step(lambda: adapter.read_context("src/main.py", view))

    opened = {
        name: AgentAdapter.open(root, agent=name, served=served)
        for name in ("alice", "bob", "carol", "nobody")
    }
    seen = ""
    for name, adapter in opened.items():
        with adapter:
            step(lambda adapter=adapter: adapter.identity)
            context = read(adapter)
            seen = getattr(context, "node_id", seen)
            for kind in ("note", "outline"):
                new = NewFrame(kind, "x", seen)
                step(lambda a=adapter, new=new: a.write_context("src/main.py", new))
            step(lambda a=adapter: a.synthesize("src", "outline"))
            read(adapter, ContextView(order="type", max_frames=1))
            read(adapter, ContextView(frame_type="note", agent="alice"))
            read(adapter, ContextView(order="nonsense"))
            step(lambda a=adapter: a.read_context("missing"))
            told.append(name)
    return told


def test_the_local_engine_and_the_socket_give_equal_results(
    twins: tuple[Path, Path], services: Callable[..., Any]
) -> None:
    local, remote = twins
    services(remote).ready()
    with AgentAdapter.open(remote, agent="alice") as adapter:
        assert adapter.workspace.is_remote
    over_the_engine = script(local)
    assert script(remote, served=True) == over_the_engine
    # Again, and now everything is there already: still equal, and frames keep their ids.
    assert script(remote) == script(local)
    identities = [told for told in over_the_engine if hasattr(told, "role")]
    assert [who.role for who in identities] == ["writer", "reader", "synthesis"]


def test_roles_are_enforced(twins: tuple[Path, Path]) -> None:
    root, _ = twins
    with AgentAdapter.open(root, agent="bob") as reader:
        seen = reader.read_context("README.md").node_id
        with pytest.raises(MerkleError, match="bob is a reader and cannot write"):
            reader.write_context("README.md", NewFrame("note", "mine", seen))
        with pytest.raises(MerkleError, match="cannot synthesize"):
            reader.synthesize("src", "outline")
    with AgentAdapter.open(root, agent="alice") as writer:
        identity = writer.write_context("README.md", NewFrame("note", "mine", seen))
        context = writer.read_context("README.md", ContextView(frame_type="note"))
        (frame,) = context.frames
        assert (frame.frame_id, frame.agent, frame.freshness) == (identity, "alice", "fresh")
        assert context.node_record.path == "README.md"
        assert context.frame_count == 1


def test_an_agent_without_the_right_to_read_is_refused(twins: tuple[Path, Path]) -> None:
    root, _ = twins
    with Workspace.open(root) as workspace:
        workspace.agent_add("dave", "writer", ["write"])
    with (
        AgentAdapter.open(root, agent="dave") as adapter,
        pytest.raises(MerkleError, match="dave is a writer and cannot read"),
    ):
        adapter.read_context("README.md")


def test_one_that_lives_long_does_not_own(twins: tuple[Path, Path]) -> None:
    """A local adapter keeps others out until it is closed; a served one never does."""
    root, _ = twins
    with AgentAdapter.open(root, agent="alice") as owner:
        owner.read_context("README.md")
        with pytest.raises(LockedError), Workspace.open(root, wait=0) as other:
            other.status()
    with Workspace.open(root, wait=0) as other:
        assert other.status()["state"] == "current"
