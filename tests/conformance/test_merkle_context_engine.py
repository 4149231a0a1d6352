"""merkle-context-engine.md: one test per statement. `engine_*.py` beside it hold the longer ones.

The places count the points of a list from 1: `§3 Algorithm 4` is the fourth step of component 3's
synthesis algorithm. What the specification calls future (LSP) is no statement yet.
"""

# Fixtures of other folders are brought in by their names.
# ruff: noqa: F401, F811

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from indexer import AgentAdapter
from indexer.core.frames import frame_id
from indexer.engine.frames.agents import AgentError
from indexer.engine.frames.roles import ROLES
from indexer.errors import MalformedError, UsageError
from tests.cli.conftest import kept_open, made, merkle, peopled, scanned, service, workspace
from tests.conformance import (
    engine_agents,
    engine_ci,
    engine_composition,
    engine_context,
    engine_regeneration,
    engine_synthesis,
    engine_tooling,
)
from tests.conformance.engine_tooling import other
from tests.engine.conftest import project, space, template
from tests.engine.make import test_custom
from tests.engine.make.test_custom import installed
from tests.engine.search import test_custom_ordering
from tests.engine.search.test_custom_ordering import plugin
from tests.mcp.conftest import forked_services, plain_environment, served
from tests.mcp.conftest import project as wired
from tests.support.conformance import Specification
from tests.support.space import Held, Space, python
from tests.support.waiting import wait_until

FILE = "src/one/a.py"
SIBLING = "src/one/b.py"

statement = Specification(
    "merkle-context-engine.md",
    {
        "§1 Requirements 1": "Agents are explicitly designated as readers or writers.",
        "§1 Requirements 2": "Writers may only append frames, never mutate.",
        "§1 Requirements 3": "Readers consume context via ContextView only.",
        "§1 Requirements 4": "Agent identity is included in all writes.",
        "§1 Requirements 5": "Multiple agents can read and write simultaneously.",
        "§1 Roles 1": "Reader agents can query context, cannot create frames.",
        "§1 Roles 2": "Writer agents can create frames and read context.",
        "§1 Roles 3": "Synthesis agents generate directory frames from child contexts.",
        "§1 Structures 1": "AgentIdentity: agent_id, role, capabilities.",
        "§1 Test criteria 1": "Writer agents cannot overwrite frames.",
        "§1 Test criteria 2": "Reader agents never trigger writes.",
        "§1 Test criteria 3": "Agent attribution is preserved in FrameIDs.",
        "§1 Test criteria 4": "Concurrent agents do not corrupt state.",
        "§1 Test criteria 5": "Agent identity is verified on all write operations.",
        "§2 Requirements 1": "GetNode(node_id, ContextView) retrieves context by a view.",
        "§2 Requirements 2": "PutFrame(node_id, frame) appends to the node's frame set.",
        "§2 Requirements 3": "Deterministic request to response mapping.",
        "§2 Requirements 4": "Stateless API layer.",
        "§2 Requirements 5": "Synthesis only by explicit calls.",
        "§2 NodeContext 1": "node_id, node_record, frames, and frame_count beyond the limit.",
        "§2 Test criteria 1": "Same request yields same frame set.",
        "§2 Test criteria 2": "Frame append updates heads correctly.",
        "§2 Test criteria 3": "API calls do not trigger synthesis implicitly.",
        "§2 Test criteria 4": "Error handling is deterministic.",
        "§2 Test criteria 5": "Concurrent requests are handled safely.",
        "§2 Test criteria 6": "Invalid node_id returns a clear error.",
        "§3 Requirements 1": "Children are synthesized before parents.",
        "§3 Requirements 2": "Same child frames, same branch frame.",
        "§3 Requirements 3": "Each synthesis declares its frame type.",
        "§3 Requirements 4": "Synthesis only uses declared child nodes.",
        "§3 Requirements 5": "The basis includes all child FrameIDs, ordered.",
        "§3 Algorithm 1": "Collect all child nodes of the directory.",
        "§3 Algorithm 2": "Each child's head frame of the type, or all frames if it is *.",
        "§3 Algorithm 3": "Order child frames by NodeID, then FrameID.",
        "§3 Algorithm 4": "Construct the basis from the sorted child FrameIDs.",
        "§3 Algorithm 5": "Aggregate child contents by the policy.",
        "§3 Algorithm 6": "FrameID = hash(basis + content + frame_type).",
        "§3 Algorithm 7": "Append the frame to the directory's frame set.",
        "§3 Algorithm 8": "Update the directory's head for the frame type.",
        "§3 Policies 1": "Concatenation.",
        "§3 Policies 2": "Summarization, deterministic.",
        "§3 Policies 3": "Filtering: a subset of child frames by criteria.",
        "§3 Policies 4": "Custom: pluggable, must be deterministic.",
        "§3 Test criteria 1": "Same child frames, same branch frame.",
        "§3 Test criteria 2": "A child change invalidates the parent's basis.",
        "§3 Test criteria 3": "Synthesis is limited to the subtree.",
        "§3 Test criteria 4": "No synthesis without a declared trigger.",
        "§3 Test criteria 5": "An empty directory produces a stable empty frame.",
        "§3 Test criteria 6": "Synthesis preserves frame ordering.",
        "§4 Requirements 1": "Stored and current basis hash are compared.",
        "§4 Requirements 2": "Regeneration produces new frames with new FrameIDs.",
        "§4 Requirements 3": "Old frames are retained.",
        "§4 Requirements 4": "Heads are updated atomically.",
        "§4 Requirements 5": "Only frames whose basis changed are regenerated.",
        "§4 Requirements 6": "No cascading beyond the declared scope.",
        "§4 Workflow 1": "File change, NodeID change, basis change.",
        "§4 Workflow 2": "All frames with a changed basis are found by the basis index.",
        "§4 Workflow 3": "Recompute with the same algorithm, append, keep the old frame.",
        "§4 Workflow 4": "Head pointers of affected types are updated atomically.",
        "§4 Workflow 5": "Parents that depend on the frame are regenerated.",
        "§4 Triggers 1": "File content change.",
        "§4 Triggers 2": "Child frame change.",
        "§4 Triggers 3": "Explicit regeneration.",
        "§4 Test criteria 1": "A file change triggers minimal regeneration.",
        "§4 Test criteria 2": "Unchanged nodes are not touched.",
        "§4 Test criteria 3": "Regenerated FrameIDs differ predictably.",
        "§4 Test criteria 4": "No cascading beyond the declared scope.",
        "§4 Test criteria 5": "Old frames remain accessible.",
        "§4 Test criteria 6": "Regeneration is idempotent.",
        "§4 Test criteria 7": "Concurrent regeneration is handled safely.",
        "§5 Requirements 1": "Composition is read-time only.",
        "§5 Requirements 2": "No composite state is persisted.",
        "§5 Requirements 3": "Ordering is policy-driven.",
        "§5 Requirements 4": "Bounded output size.",
        "§5 Requirements 5": "Same inputs, same result.",
        "§5 Policies 1": "Recency: most recent frames first, by timestamp.",
        "§5 Policies 2": "Type priority, configurable.",
        "§5 Policies 3": "Agent priority, configurable.",
        "§5 Policies 4": "Relevance score by a deterministic algorithm.",
        "§5 Policies 5": "Custom: pluggable composition function.",
        "§5 Algorithm 1": "Candidates from node, parents, siblings, related nodes.",
        "§5 Algorithm 2": "Filters by type, agent, date range.",
        "§5 Algorithm 3": "Score and order by the policy.",
        "§5 Algorithm 4": "Select the top N frames.",
        "§5 Algorithm 5": "Return an ordered list of frames.",
        "§5 Test criteria 1": "Composition never exceeds max frames.",
        "§5 Test criteria 2": "Ordering is stable across runs.",
        "§5 Test criteria 3": "Missing frames are handled gracefully.",
        "§5 Test criteria 4": "No writes during composition.",
        "§5 Test criteria 5": "Empty composition returns an empty result.",
        "§5 Test criteria 6": "Policy changes produce different results.",
        "§6 Requirements 1": "Command-line interface for all operations.",
        "§6 Requirements 2": "All operations are scoped to the workspace root.",
        "§6 Requirements 3": "Re-running tools produces the same state.",
        "§6 Requirements 4": "No UI-specific logic in the core.",
        "§6 Requirements 5": "Editor integration hooks.",
        "§6 Requirements 6": "CI integration: batch operations, validation, reporting.",
        "§6 Editor 1": "File watchers trigger regeneration.",
        "§6 Editor 2": "Change hooks: callbacks when nodes change.",
        "§6 CI 1": "Batch operations.",
        "§6 CI 2": "Validation.",
        "§6 CI 3": "Reporting.",
        "§6 CI 4": "Diff generation: context changes between runs.",
        "§6 Adapters 1": "AgentAdapter: read_context, write_context, synthesize.",
        "§6 Test criteria 1": "Tools are reproducible from the command line.",
        "§6 Test criteria 2": "Re-running tools yields the same state.",
        "§6 Test criteria 3": "Tool failures do not corrupt storage.",
        "§6 Test criteria 4": "Clear separation from the core engine.",
        "§6 Test criteria 5": "Workspace operations are isolated.",
        "§6 Test criteria 6": "Error messages are clear and actionable.",
    },
)

_LONGER: Final[dict[str, Callable[..., None]]] = {
    "§1 Test criteria 1": engine_agents.test_writer_agents_cannot_overwrite_frames,
    "§1 Test criteria 2": engine_agents.test_reader_agents_never_trigger_writes,
    "§1 Test criteria 3": engine_agents.test_agent_attribution_is_preserved_in_frame_ids,
    "§1 Test criteria 4": engine_agents.test_concurrent_agents_do_not_corrupt_state,
    "§1 Test criteria 5": engine_agents.test_agent_identity_is_verified_on_all_write_operations,
    "§2 Test criteria 1": engine_context.test_same_request_yields_the_same_frame_set,
    "§2 Test criteria 2": engine_context.test_frame_append_updates_heads_correctly,
    "§2 Test criteria 3": engine_context.test_api_calls_do_not_trigger_synthesis_implicitly,
    "§2 Test criteria 4": engine_context.test_error_handling_is_deterministic,
    "§2 Test criteria 5": engine_context.test_concurrent_requests_are_handled_safely,
    "§2 Test criteria 6": engine_context.test_invalid_node_id_returns_a_clear_error,
    "§3 Requirements 2": (
        engine_synthesis.test_same_child_frames_give_the_same_branch_frame_in_another_process_and_place
    ),
    "§3 Test criteria 1": engine_synthesis.test_same_child_frames_give_the_same_branch_frame,
    "§3 Test criteria 2": engine_synthesis.test_child_change_invalidates_parent_basis,
    "§3 Test criteria 3": engine_synthesis.test_synthesis_is_limited_to_the_subtree,
    "§3 Test criteria 4": engine_synthesis.test_no_synthesis_without_a_declared_trigger,
    "§3 Test criteria 5": engine_synthesis.test_an_empty_directory_produces_a_stable_empty_frame,
    "§3 Test criteria 6": engine_synthesis.test_synthesis_preserves_frame_ordering,
    "§4 Test criteria 1": engine_regeneration.test_file_change_triggers_minimal_regeneration,
    "§4 Test criteria 2": engine_regeneration.test_unchanged_nodes_are_not_touched,
    "§4 Test criteria 3": engine_regeneration.test_regenerated_frame_ids_differ_predictably,
    "§4 Test criteria 4": engine_regeneration.test_no_cascading_beyond_the_declared_scope,
    "§4 Test criteria 5": engine_regeneration.test_old_frames_remain_accessible,
    "§4 Test criteria 6": engine_regeneration.test_regeneration_is_idempotent,
    "§4 Test criteria 7": engine_regeneration.test_concurrent_regeneration_is_handled_safely,
    "§5 Algorithm 1": engine_composition.test_candidates_come_from_the_sources_that_are_named,
    "§5 Algorithm 2": engine_composition.test_filters_by_type_agent_path_and_date,
    "§5 Test criteria 1": engine_composition.test_composition_never_exceeds_max_frames,
    "§5 Test criteria 2": engine_composition.test_ordering_stable_across_runs,
    "§5 Test criteria 3": engine_composition.test_missing_frames_handled_gracefully,
    "§5 Test criteria 4": engine_composition.test_no_writes_during_composition,
    "§5 Test criteria 5": engine_composition.test_empty_composition_returns_empty_result,
    "§5 Test criteria 6": engine_composition.test_policy_changes_produce_different_results,
    "§6 Requirements 1": engine_tooling.test_requirement_cli_or_tool_entrypoints,
    "§6 Requirements 2": engine_tooling.test_requirement_workspace_scoped_operations,
    "§6 Requirements 3": engine_tooling.test_requirement_idempotent_tool_execution,
    "§6 Requirements 4": engine_tooling.test_requirement_no_ui_specific_logic_in_core,
    "§6 Requirements 5": engine_tooling.test_requirement_editor_integration_hooks,
    "§6 Editor 2": engine_ci.test_editor_integration_change_hooks,
    "§6 CI 1": engine_ci.test_ci_integration_batch_operations,
    "§6 CI 2": engine_ci.test_ci_integration_validation,
    "§6 CI 3": engine_ci.test_ci_integration_reporting,
    "§6 CI 4": engine_ci.test_ci_integration_diff_generation,
    "§6 Adapters 1": engine_tooling.test_requirement_agent_adapters,
    "§6 Test criteria 1": engine_tooling.test_criterion_tools_reproducible_from_cli,
    "§6 Test criteria 2": engine_tooling.test_criterion_re_running_tools_yields_same_state,
    "§6 Test criteria 3": engine_tooling.test_criterion_tool_failures_do_not_corrupt_storage,
    "§6 Test criteria 4": engine_tooling.test_criterion_clear_separation_from_core_engine,
    "§6 Test criteria 5": engine_tooling.test_criterion_workspace_operations_are_isolated,
    "§6 Test criteria 6": engine_tooling.test_criterion_error_messages_are_clear_and_actionable,
}
for _place, _test in _LONGER.items():
    globals()[_test.__name__] = statement(_place)(_test)

# Shown beyond the statements.
test_another_policy = (
    engine_synthesis.test_another_policy_on_request_leaves_what_is_declared_as_it_was
)
test_freshness_is_proved_when_read = engine_composition.test_freshness_is_proved_when_read
test_gone_is_left_out = engine_composition.test_what_is_gone_or_no_longer_declared_is_left_out

# What a ruling changes.
test_who_asked = statement("§1 Requirements 4", ruled="DESIGN §4")(
    engine_agents.test_who_asked_for_a_synthesis_is_metadata_and_no_part_of_the_id
)
test_recency = statement("§5 Policies 1", ruled="DESIGN §4")(
    engine_composition.test_recency_is_most_recent_first
)


@pytest.fixture
def shown(held: Held, template: Path) -> Iterator[Space]:
    """The project for the tests that only look at it."""
    with held("project", lambda: Space(copy_of=template)) as made:
        yield made


# -- §1 agents


@statement("§1 Requirements 1")
def test_agents_have_a_role(project: Space) -> None:
    project.engine.add_agent("rex", "reader")
    (agent,) = project.engine.list_agents()["agents"]
    assert agent["role"] == "reader"
    with pytest.raises(MalformedError, match="role must be one of: reader, writer, synthesis"):
        project.engine.add_agent("odd", "admin")


@statement("§1 Requirements 2")
def test_a_second_frame_leaves_the_first(project: Space) -> None:
    first = project.note(FILE, "one")["frame_id"]
    before = project.engine.get_frame(first)
    project.note(FILE, "two")
    project.note(FILE, "three", replace_mine=True)
    after = project.engine.get_frame(first)
    for key in ("content", "agent", "node_id", "created_at", "inputs"):
        assert after[key] == before[key]


@statement("§1 Requirements 3", ruled="DESIGN §11")
def test_readers_see_what_a_view_selects(project: Space) -> None:
    """A view is what `get-node` gives; `get-frame` shows one by its id to people as well."""
    for number in range(4):
        project.note(FILE, f"note {number}")
    found = project.engine.get_node(FILE, view="recency", max_frames=2, frame_type="note")
    assert [frame["content"] for frame in found["frames"]] == ["note 3", "note 2"]


@statement("§1 Requirements 5")
def test_agents_read_and_write_beside_each_other(project: Space) -> None:
    for agent in ("ann", "bob"):
        project.note(FILE, f"by {agent}", agent=agent)
    found = project.engine.get_node(FILE, frame_type="note")["frames"]
    assert {(frame["agent"], frame["content"]) for frame in found} == {
        ("ann", "by ann"), ("bob", "by bob")
    }  # fmt: skip
    project.valid()


def as_role(space: Space, role: str) -> str:
    space.engine.add_agent(role, role)
    return role


@statement("§1 Roles 1")
def test_a_reader_writes_nothing(project: Space) -> None:
    reader = as_role(project, "reader")
    assert project.engine.get_node(FILE)["frames"]
    with pytest.raises(AgentError, match="cannot write"):
        project.engine.put_frame(FILE, "x", frame_type="note", agent=reader)


@statement("§1 Roles 2")
def test_a_writer_writes_and_cannot_synthesize(project: Space) -> None:
    writer = as_role(project, "writer")
    assert project.engine.put_frame(FILE, "x", frame_type="note", agent=writer)["created"]
    with pytest.raises(AgentError, match="cannot synthesize"):
        project.engine.synthesize("src", frame_type="note", agent=writer)


@statement("§1 Roles 3")
def test_a_synthesis_agent_makes_directory_frames(project: Space) -> None:
    project.note(FILE, "risk", frame_type="review")
    synthesis = as_role(project, "synthesis")
    made_by = project.engine.synthesize("src", frame_type="review", agent=synthesis)
    frame = project.engine.get_frame(made_by["frame_id"])
    assert "risk" in frame["content"]
    assert frame["meta"]["asked_by"] == synthesis


@statement("§1 Structures 1")
def test_an_identity_has_id_role_and_capabilities(project: Space) -> None:
    for role in ROLES:
        as_role(project, role)
    listed = {one["id"]: one["can"] for one in project.engine.list_agents()["agents"]}
    assert listed["reader"] == ["read"]
    assert set(listed["writer"]) < set(listed["synthesis"])


# -- §2 context


@statement("§2 Requirements 1")
def test_get_node_takes_a_node_id_and_a_view(project: Space) -> None:
    identity = project.engine.get_node(FILE)["node_id"]
    project.note(FILE, "a note")
    for view in ("recency", "type", "agent"):
        found = project.engine.get_node(f"id:{identity}", view=view)
        assert (found["path"], found["frame_count"]) == (FILE, 2)


@statement("§2 Requirements 2")
def test_put_frame_appends(project: Space) -> None:
    before = project.engine.get_node(FILE)["frame_count"]
    for number in range(3):
        project.note(FILE, f"note {number}")
    assert project.engine.get_node(FILE)["frame_count"] == before + 3
    assert len(project.engine.list_frames(FILE)["frames"]) == before + 3


@statement("§2 Requirements 3")
def test_the_same_request_has_the_same_answer(project: Space) -> None:
    project.note(FILE, "a note")
    first = project.engine.get_node(FILE)
    project.reopen()
    assert project.engine.get_node(FILE) == first


@statement("§2 Requirements 4")
def test_nothing_is_kept_between_requests(shown: Space) -> None:
    first = shown.engine.get_node(FILE, max_frames=1)
    shown.engine.get_node(SIBLING, view="agent", max_frames=0)
    assert shown.engine.get_node(FILE, max_frames=1) == first


@statement("§2 Requirements 5")
def test_reading_and_writing_make_no_frame_of_a_folder(project: Space) -> None:
    project.write(FILE, python("changed"))
    head = project.engine.get_head("src")["heads"][0]["frame_id"]
    project.note(FILE, "a note")
    project.engine.get_node("src")
    project.engine.compose(["src"])
    assert project.engine.get_head("src")["heads"][0]["frame_id"] == head


@statement("§2 NodeContext 1")
def test_a_node_context_counts_beyond_its_limit(project: Space) -> None:
    for number in range(5):
        project.note(FILE, f"note {number}")
    found = project.engine.get_node(FILE, max_frames=2)
    assert {"node_id", "path", "kind", "content_id", "size", "children"} <= found.keys()
    assert (len(found["frames"]), found["frame_count"]) == (2, 6)


# -- §3 synthesis


@statement("§3 Requirements 1")
def test_children_come_before_parents(project: Space) -> None:
    project.write(FILE, python("other", args="x"))
    made_now = [path for _, path in project.events()]
    assert made_now == [FILE, "src/one", "src", ""]


@statement("§3 Requirements 3")
def test_a_synthesis_names_its_type(shown: Space) -> None:
    parameter = inspect.signature(AgentAdapter.synthesize).parameters["frame_type"]
    assert parameter.default is inspect.Parameter.empty
    with pytest.raises(UsageError, match="no frame type"):
        shown.engine.synthesize("src", frame_type="Not A Type")


@statement("§3 Requirements 4")
def test_a_neighbour_changes_nothing(project: Space) -> None:
    before = project.frame("src/one")["frame_id"]
    project.write("src/two/c.py", python("other", args="x"))
    project.settle()
    assert project.frame("src/one")["frame_id"] == before


@statement("§3 Requirements 5")
def test_the_basis_names_every_child(shown: Space) -> None:
    found = shown.engine.get_frame(shown.frame("src/one")["frame_id"])
    named = {one["input"]: one["id"] for one in found["inputs"]}
    assert named[FILE] == shown.frame(FILE)["frame_id"]
    assert named[SIBLING] == shown.frame(SIBLING)["frame_id"]


@statement("§3 Algorithm 1")
def test_all_children_are_collected(shown: Space) -> None:
    found = shown.engine.get_frame(shown.frame("src/one")["frame_id"])
    children = shown.engine.get_node("src/one")["children"]
    assert {one["input"].rpartition("/")[2] for one in found["inputs"]} == {
        *children, "configuration"
    }  # fmt: skip


@statement("§3 Algorithm 2")
def test_a_star_takes_every_frame(project: Space) -> None:
    project.note(FILE, "a note")
    project.note(FILE, "a review", frame_type="review", agent="bob")
    every = project.engine.synthesize("src/one", frame_type="*")
    one = project.engine.synthesize("src/one", frame_type="review")
    said = [project.engine.get_frame(each["frame_id"])["content"] for each in (every, one)]
    assert all(text in said[0] for text in ("a note", "a review", "def a"))
    assert "a review" in said[1]
    assert "a note" not in said[1]


@statement("§3 Algorithm 3")
def test_the_order_of_writing_decides_nothing(project: Space) -> None:
    other_space = project.clone()
    try:
        other_space.settle()
        for where, texts in ((project, ("x", "y")), (other_space, ("y", "x"))):
            for text in texts:
                where.note(FILE, text, frame_type="review")
        ids = [
            where.engine.synthesize("src", frame_type="review")["frame_id"]
            for where in (project, other_space)
        ]
        assert ids[0] == ids[1]
    finally:
        other_space.close()


@statement("§3 Algorithm 4", ruled="DESIGN §4")
def test_the_basis_moves_with_a_childs_frame(project: Space) -> None:
    before = project.engine.get_head("src/one")["heads"][0]["basis"]
    project.write(FILE, python("a", value=5))
    project.settle()
    # The child says what it said: its frame is another, and the folder's basis with it.
    assert project.engine.get_head("src/one")["heads"][0]["basis"] != before


@statement("§3 Algorithm 5")
def test_a_policy_makes_the_content(project: Space) -> None:
    texts = set()
    for policy in ("concatenate", "summarize"):
        done = project.engine.synthesize("src/one", frame_type="outline", policy=policy)
        texts.add(project.engine.get_frame(done["frame_id"])["content"])
    assert len(texts) == 2


@statement("§3 Algorithm 6", ruled="DESIGN §2")
def test_a_frame_id_follows_from_basis_type_agent_and_content(shown: Space) -> None:
    (head,) = shown.engine.get_head("src/one")["heads"]
    (listed,) = shown.engine.list_frames("src/one")["frames"]
    basis, content = bytes.fromhex(head["basis"]), bytes.fromhex(listed["content_sha256"])
    # Plain bytes serve as the ids.
    made_id = frame_id(basis, head["type"], head["agent"], content)  # type: ignore[arg-type]
    assert made_id.hex() == head["frame_id"]


@statement("§3 Algorithm 7")
def test_a_synthesis_appends(project: Space) -> None:
    before = [one["frame_id"] for one in project.engine.list_frames("src/one")["frames"]]
    project.write(FILE, python("other", args="x"))
    project.settle()
    after = [one["frame_id"] for one in project.engine.list_frames("src/one")["frames"]]
    assert after[1:] == before


@statement("§3 Algorithm 8")
def test_a_synthesis_moves_the_head(project: Space) -> None:
    project.write(FILE, python("other", args="x"))
    project.settle()
    newest = project.engine.list_frames("src/one")["frames"][0]["frame_id"]
    assert project.engine.get_head("src/one")["heads"][0]["frame_id"] == newest


def synthesized(space: Space, policy: str, **options: object) -> str:
    """What a policy makes of two reviews."""
    space.note(FILE, "# A risk\n\nIt may fail.\n", frame_type="review")
    space.note(SIBLING, "# Dull\n\nNothing.\n", frame_type="review")
    asked = {"frame_type": "review", "policy": policy, "options": options}
    found = space.engine.synthesize("src/one", **asked)
    return str(space.engine.get_frame(found["frame_id"])["content"])


@statement("§3 Policies 1")
def test_concatenation(project: Space) -> None:
    text = synthesized(project, "concatenate")
    assert "It may fail." in text
    assert "Nothing." in text


@statement("§3 Policies 2")
def test_summarization(project: Space) -> None:
    text = synthesized(project, "summarize", max_tokens=60)
    assert "a.py" in text
    assert text == synthesized(project, "summarize", max_tokens=60)


@statement("§3 Policies 3")
def test_filtering(project: Space) -> None:
    text = synthesized(project, "filter", match="RISK")
    assert "It may fail." in text
    assert "Nothing." not in text


test_custom_policy = statement("§3 Policies 4")(
    test_custom.test_a_policy_that_is_not_deterministic_is_refused
)


# -- §4 regeneration


@statement("§4 Requirements 1")
def test_the_basis_decides(project: Space) -> None:
    before = project.engine.get_head(FILE)["heads"][0]["basis"]
    project.write(FILE, python("other"))
    assert project.freshness(FILE) == "stale"
    project.settle()
    assert project.engine.get_head(FILE)["heads"][0]["basis"] != before


def regenerated(space: Space) -> tuple[str, str]:
    """The ids of a file's outline before and after it changed."""
    before = str(space.frame(FILE)["frame_id"])
    space.write(FILE, python("other", args="x"))
    space.settle()
    return before, str(space.frame(FILE)["frame_id"])


@statement("§4 Requirements 2")
def test_a_regenerated_frame_is_another(project: Space) -> None:
    before, after = regenerated(project)
    assert before != after


@statement("§4 Requirements 3")
def test_the_old_frame_is_there(project: Space) -> None:
    before, _ = regenerated(project)
    assert "def a" in project.engine.get_frame(before)["content"]


@statement("§4 Requirements 4")
def test_a_pass_that_fails_moves_no_head(project: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    heads = project.engine.sql("SELECT * FROM heads ORDER BY ALL")["rows"]
    project.write(FILE, python("other"))
    project.engine.scan()
    with monkeypatch.context() as patch:

        def fails(*arguments: object) -> None:
            raise RuntimeError("cut off")

        patch.setattr(type(project.engine.frames.store), "record", fails)
        with pytest.raises(RuntimeError):
            project.engine.regenerate()
    assert project.engine.sql("SELECT * FROM heads ORDER BY ALL")["rows"] == heads
    project.settle()
    project.valid()


@statement("§4 Requirements 5")
def test_only_the_path_is_regenerated(project: Space) -> None:
    project.write(FILE, python("other", args="x"))
    assert {path for _, path in project.events()} == {FILE, "src/one", "src", ""}


@statement("§4 Requirements 6")
def test_a_scope_ends_it(space: Space) -> None:
    space.declare('[types.outline]\nfile = "outline"\nfolder = "summarize"\nscope = "in"\n')
    space.fill({"in/a.py": python("a"), "out/b.py": python("b")})
    space.settle()
    space.write("in/a.py", python("x"))
    space.write("out/b.py", python("y"))
    assert {path for _, path in space.events()} == {"in/a.py", "in"}


@statement("§4 Workflow 1")
def test_a_change_is_detected_by_its_ids(project: Space) -> None:
    before = project.engine.get_node(FILE)["node_id"]
    project.write(FILE, python("other"))
    found = project.engine.get_node(FILE)
    assert found["node_id"] != before
    assert found["frames"][0]["because"] == "its content changed"


@statement("§4 Workflow 2", ruled="DESIGN §4")
def test_the_basis_index_is_a_view(shown: Space) -> None:
    """Staleness is found by going down where content ids differ; the index can be asked."""
    (head,) = shown.engine.get_head(FILE)["heads"]
    rows = shown.engine.sql(f"SELECT frame_ids FROM basis WHERE basis = '{head['basis']}'")
    assert rows["rows"] == [[[head["frame_id"]]]]


@statement("§4 Workflow 3")
def test_the_same_content_gives_the_same_frame_again(project: Space) -> None:
    content = (project.root / FILE).read_text()
    before, after = regenerated(project)
    project.write(FILE, content)
    project.settle()
    assert project.frame(FILE)["frame_id"] == before
    assert project.engine.get_frame(after)["superseded_by"] == before


@statement("§4 Workflow 4")
def test_heads_point_to_what_was_made(project: Space) -> None:
    _, after = regenerated(project)
    (head,) = project.engine.get_head(FILE, frame_type="outline")["heads"]
    assert (head["frame_id"], head["freshness"]) == (after, "fresh")


@statement("§4 Workflow 5")
def test_parents_follow(project: Space) -> None:
    before = {path: project.frame(path)["frame_id"] for path in ("src/one", "src", "")}
    regenerated(project)
    assert all(project.frame(path)["frame_id"] != one for path, one in before.items())


@statement("§4 Triggers 1")
def test_a_content_change_triggers(project: Space) -> None:
    project.write(FILE, python("other"))
    (step, *_) = project.engine.regenerate(plan=True)["plan"]
    assert (step["path"], step["because"]) == (FILE, "its content changed")


@statement("§4 Triggers 2")
def test_a_childs_frame_triggers_its_folder(project: Space) -> None:
    project.declare('[types.note]\nfolder = "concatenate"\n')
    project.settle()
    project.note(FILE, "new")
    assert {path for _, path in project.events()} == {"src/one", "src", ""}


@statement("§4 Triggers 3")
def test_asking_triggers(project: Space) -> None:
    assert project.events() == []
    assert project.engine.invalidate(FILE)["invalidated"] == 1
    assert project.events()[0] == ("generated", FILE)


# -- §5 composition


@statement("§5 Requirements 1")
def test_composition_is_computed_when_it_is_asked_for(project: Space) -> None:
    first = project.engine.compose([FILE])["manifest_id"]
    project.note(FILE, "new")
    assert project.engine.compose([FILE])["manifest_id"] != first


@statement("§5 Requirements 2", ruled="DESIGN §7")
def test_a_manifest_is_stored_on_request_alone(project: Space) -> None:
    project.engine.compose([FILE])
    assert project.engine.frames.store.manifests() == []
    project.engine.compose([FILE], record=True)
    assert len(project.engine.frames.store.manifests()) == 1


def people(space: Space) -> Space:
    """Give a file a note and a review by two agents beside its outline."""
    space.note(FILE, "a note about tides")
    space.note(FILE, "a review", frame_type="review", agent="bob")
    return space


@pytest.fixture
def peopled_file(held: Held, template: Path) -> Iterator[Space]:
    """A file with an outline, a note and a review by two agents; composing changes nothing."""
    with held("people", lambda: people(Space(copy_of=template))) as made:
        yield made


def ordered(space: Space, key: str, **asked: Any) -> list[str]:
    found = space.engine.compose([FILE], sources=["node"], **asked)
    return [str(item[key]) for item in found["items"]]


@statement("§5 Requirements 3")
def test_the_policy_orders(peopled_file: Space) -> None:
    assert ordered(peopled_file, "type", order="recency") == ["review", "note", "outline"]
    assert ordered(peopled_file, "type", order="type") == ["note", "outline", "review"]


@statement("§5 Requirements 4")
def test_both_limits_are_hard(peopled_file: Space) -> None:
    found = peopled_file.engine.compose([FILE], max_frames=2, budget=60)
    assert len(found["items"]) <= 2
    assert found["tokens"] <= 60


@statement("§5 Requirements 5")
def test_the_same_inputs_compose_alike(project: Space) -> None:
    people(project)
    first = project.engine.compose(query="tides")
    project.reopen()
    again = project.engine.compose(query="tides")
    assert json.dumps(again["messages"]) == json.dumps(first["messages"])
    assert again["manifest_id"] == first["manifest_id"]


@statement("§5 Policies 2")
def test_type_priority(peopled_file: Space) -> None:
    first = ordered(peopled_file, "type", order="type", types=["review", "outline"])
    assert first == ["review", "outline", "note"]


@statement("§5 Policies 3")
def test_agent_priority(peopled_file: Space) -> None:
    first = ordered(peopled_file, "agent", order="agent", agents=["bob"])
    assert first == ["bob", "ann", "merkle:outline"]


@statement("§5 Policies 4")
def test_relevance(peopled_file: Space) -> None:
    found = peopled_file.engine.compose(query="tides", order="relevance")
    assert found["items"][0]["type"] == "note"


test_custom_order = statement("§5 Policies 5")(
    test_custom_ordering.test_it_decides_what_comes_first_and_what_stays_out
)


@statement("§5 Algorithm 3")
def test_scores_decide_and_ties_end_in_ids(peopled_file: Space) -> None:
    found = peopled_file.engine.compose(query="review", order="relevance", types=["review", "note"])
    assert found["items"][0]["type"] == "review"


@statement("§5 Algorithm 4")
def test_the_first_n_are_selected(peopled_file: Space) -> None:
    every = ordered(peopled_file, "frame_id", order="recency")
    assert ordered(peopled_file, "frame_id", order="recency", max_frames=2) == every[:2]


@statement("§5 Algorithm 5")
def test_what_is_given_is_in_order(peopled_file: Space) -> None:
    found = peopled_file.engine.compose([FILE], sources=["node"], order="recency")
    assert all(len(item["frame_id"]) == 64 for item in found["items"])
    assert len(found["messages"]) >= 1


# -- §6 tooling


@pytest.mark.usefixtures("kept_open")
@statement("§6 Requirements 6")
def test_ci_commands_end_with_a_status(peopled: Path, merkle: Any, tmp_path: Path) -> None:
    for line in (["scan"], ["validate"], ["report", tmp_path / "r.md"], ["diff", "@-0", "@-0"]):
        assert merkle("-C", peopled, *line).code == 0, line


@statement("§6 Editor 1")
def test_a_watcher_regenerates(service: Any, scanned: Path, merkle: Any) -> None:
    (scanned / "src" / "main.py").write_text("def ebb():\n    pass\n")

    def made_again() -> bool:
        found = merkle("-C", scanned, "--json", "get-node", "src/main.py").json["frames"]
        return [(one["freshness"], "ebb" in one["content"]) for one in found] == [("fresh", True)]

    wait_until(made_again, "the watcher has made the outline again")
