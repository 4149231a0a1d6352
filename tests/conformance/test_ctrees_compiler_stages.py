"""ctrees-compiler-stages.md: what the stages are, hold and leave out, statement by statement."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from indexer import Session
from indexer.compiler import compile_stages
from indexer.core.clock import ManualClock
from indexer.sessions import make_content
from tests.compiler import test_collapse as collapsing
from tests.compiler import test_preview as previews
from tests.compiler import test_selection as selecting
from tests.compiler import test_stages as stages
from tests.service import test_ctrees as served
from tests.support.conformance import Specification
from tests.support.service import Service

statement = Specification(
    "ctrees-compiler-stages.md",
    {
        "Why stages exist 1": "The event stream is safe by default; it is not prompt-ready.",
        "Why stages exist 2": "The compiler turns it into progressively more prompt-shaped forms.",
        "Why stages exist 3": "Collapse drops and collapses deterministically, without timestamps.",
        "Non-negotiables 1": "Deterministic across replays given identical semantic inputs.",
        "Non-negotiables 2": "No timestamps or random ids in stage payloads.",
        "Non-negotiables 3": "Stable ordering: append order, explicit sorting where needed.",
        "Where stages appear 1": "ctree_snapshot.payload.compiler.stages.{RAW|SPEC|HEADER|FROZEN}",
        "Where stages appear 2": "GET /sessions/{id}/ctrees has the same structure in compiler.",
        "Where stages appear 3": "GET /sessions/{id}/ctrees/tree has selection and hashes.",
        "Common fields 1": "Every stage payload includes schema_version, a string.",
        "Common fields 2": "The output has schema_version, hashes z1, z2, z3, and stages.",
        "Common fields 3": "Stage payloads embed no large transcripts or raw tool results.",
        "RAW 1": "A small inventory of what exists without selecting anything.",
        "RAW 2": "Allowed: counts, kind histogram, stable aggregate hashes, summary reference.",
        "RAW 3": "Must not contain message bodies, tool outputs or secrets.",
        "SPEC 1": "A deterministic selection that says which nodes are candidates and why.",
        "SPEC 2": "Echoes its configuration: kind allowlist, max_nodes, max_turns and so on.",
        "SPEC 3": "selected_ids are the ids of selected nodes in append order.",
        "SPEC 4": "selection_sha256 hashes the selection summary and ids.",
        "SPEC 5": "Node references have id, digest, kind, turn, payload hash and shape.",
        "SPEC 6": "Must not contain full payload bodies.",
        "HEADER 1": "messages is a deterministic list, each referring to a source node id.",
        "HEADER 2": "Hash-only by default: hashes, lengths, tool-call counts.",
        "HEADER 3": "Sanitized previews on request: truncated and redacted.",
        "HEADER 4": "selection_sha256 ties the header to a SPEC selection.",
        "HEADER 5": "Must not contain raw secrets or unbounded content by default.",
        "FROZEN 1": "The replay surface, stable and compact; it may mirror HEADER.",
        "FROZEN 2": "It is what was used, for deterministic replays.",
        "FROZEN 3": "It stays hash-focused when HEADER has previews, unless configured.",
        "Ordering rules 1": "Node selection is in append order.",
        "Ordering rules 2": "Set-like outputs are emitted in a deterministic key order.",
        "Ordering rules 3": "Tie-breakers never use time; (turn, ordinal, digest, id).",
        "Collapse policy 1": "target, int or null: at most so many nodes, oldest dropped first.",
        "Collapse policy 2": "mode: none or all_but_last.",
        "Collapse policy 3": "kind_allowlist restricts collapse to specific kinds.",
        "Collapse policy 4": "RAW: no drop and no collapse.",
        "Collapse policy 5": "SPEC: drop only, oldest first if over target.",
        "Collapse policy 6": "HEADER: drop and collapse, depending on mode.",
        "Collapse policy 7": "FROZEN mirrors HEADER.",
    },
)

EVENTS: Final[list[dict[str, Any]]] = stages.STREAM
BOTH: Final = {"target": 3, "mode": "all_but_last"}


def talk(start_ns: int) -> Session:
    clock = ManualClock(start_ns)
    session = Session.new("talk", clock=clock)
    session.append(make_content("instruction", text="Be brief."))
    for text in ("one", "two"):
        clock.advance(start_ns % 97)
        session.append(make_content("dialogue", text=text))
        session.commit()
    return session


@pytest.fixture(scope="module")
def told() -> Iterator[Any]:
    """What a real service tells of a session: its events, and what both routes say."""
    # Not tmp_path: socket paths end at 107 bytes.
    with tempfile.TemporaryDirectory(prefix="merkle-run-", dir="/tmp") as base:
        root, runtime = Path(base, "w"), Path(base, "r")
        root.mkdir()
        runtime.mkdir(mode=0o700)
        service = Service(root, runtime, {})
        try:
            yield served.followed(service.ready())
        finally:
            service.kill()


@statement("Why stages exist 1")
def test_a_node_is_told_by_hash_and_a_few_words(told: Any) -> None:
    nodes = [event["node"] for event in told[0] if event["event"] == "ctree_node"]
    assert len(nodes) == 4
    for node in nodes:
        assert len(node["content_sha256"]) == 64
        assert "content" not in node
        assert "payload" not in node


@statement("Why stages exist 2")
def test_each_stage_is_nearer_to_a_prompt() -> None:
    stages.test_raw_is_an_inventory()
    stages.test_spec_lists_the_selected_nodes_without_their_payload()
    stages.test_every_stage_has_its_own_immutable_type()


@statement("Why stages exist 3")
def test_collapse_knows_no_clock() -> None:
    late = [{**event, "timestamp": n, "seq": 9 - n} for n, event in enumerate(EVENTS)]
    assert compile_stages(late, {"collapse": BOTH}).hashes == (
        compile_stages(EVENTS, {"collapse": BOTH}).hashes
    )


@statement("Non-negotiables 1")
def test_replays_give_the_same() -> None:
    stages.test_the_output_is_the_same_in_every_process_and_under_every_hash_seed()
    session = talk(10**18)
    again = Session.replay(session.records)
    assert again.compile().stages.to_json() == session.compile().stages.to_json()


@statement("Non-negotiables 2")
def test_no_time_in_any_stage() -> None:
    stages.test_time_and_number_of_an_event_take_no_part_in_any_stage()
    early, late = talk(10**18).compile().stages, talk(17 * 10**17).compile().stages
    assert early.to_json() == late.to_json()


@statement("Non-negotiables 3")
def test_append_order_is_kept() -> None:
    stages.test_the_order_of_events_moves_the_node_hash()
    assert selecting.selected(max_nodes=4) == selecting.ALL[4:]


@statement("Where stages appear 1")
def test_the_snapshot_event_has_them(told: Any) -> None:
    snapshot = told[0][-1]
    assert snapshot["event"] == "ctree_snapshot"
    assert set(snapshot["payload"]["compiler"]["stages"]) == set(stages.STAGES)


@statement("Where stages appear 2")
def test_they_can_be_asked_for(told: Any) -> None:
    events, document, _ = told
    assert document["compiler"] == events[-1]["payload"]["compiler"]


@statement("Where stages appear 3")
def test_the_tree_has_selection_and_hashes(told: Any) -> None:
    _, document, tree = told
    assert tree["hashes"] == document["compiler"]["hashes"]
    spec = document["compiler"]["stages"]["SPEC"]
    assert tree["selection"]["selection_sha256"] == spec["selection_sha256"]


@statement("Common fields 1")
def test_every_stage_has_its_version() -> None:
    for name in stages.STAGES:
        stages.test_every_stage_carries_the_schema_version_as_text(name)


@statement("Common fields 2")
def test_the_output_has_these_fields() -> None:
    stages.test_the_output_has_exactly_the_promised_keys()
    for key, name in (("z1", "RAW"), ("z2", "SPEC"), ("z3", "HEADER")):
        stages.test_a_hash_is_sha256_of_its_stage(key, name)


@statement("Common fields 3")
def test_stages_are_compact() -> None:
    events = [{"kind": "tool_result", "turn": 1, "payload": {"content": "x" * 100_000}}]
    assert len(json.dumps(compile_stages(events).to_json())) < 3_000


@statement("RAW 1")
def test_raw_selects_nothing() -> None:
    stages.test_raw_is_an_inventory()
    stages.test_raw_does_not_depend_on_the_policy()


@statement("RAW 2")
def test_raw_holds_what_is_allowed() -> None:
    stages.test_raw_holds_only_what_is_allowed()
    stages.test_raw_refers_to_the_latest_prompt_summary()


@statement("RAW 3")
def test_raw_holds_no_bodies() -> None:
    raw = json.dumps(stages.stage("RAW"))
    assert stages.SECRET not in raw
    assert "Be kind" not in raw


@statement("SPEC 1")
def test_spec_says_which_and_why_not() -> None:
    spec = compile_stages(EVENTS, {"selection": {"max_nodes": 2}}).spec
    assert len(spec.nodes) == 2
    assert {one.reason for one in spec.dropped} == {"max_nodes"}


@statement("SPEC 2")
def test_spec_echoes_its_configuration() -> None:
    stages.test_spec_echoes_the_settings_that_select()


@statement("SPEC 3")
def test_selected_ids_are_in_append_order() -> None:
    assert selecting.selected(kind_allowlist=["tool", "user"]) == [
        "user1", "user3", "tool4", "tool6", "tool7",
    ]  # fmt: skip


@statement("SPEC 4", ruled="DESIGN §8.5")
def test_the_selection_has_a_sha256() -> None:
    one = compile_stages(EVENTS).spec.selection_sha256
    other = compile_stages(EVENTS, {"selection": {"max_nodes": 9}}).spec.selection_sha256
    assert len(one) == 64
    assert one != other


@statement("SPEC 5", ruled="DESIGN §8.5")
def test_references_are_whole() -> None:
    stages.test_spec_lists_the_selected_nodes_without_their_payload()


@statement("SPEC 6")
def test_spec_holds_no_bodies() -> None:
    stages.test_no_text_of_a_payload_is_in_any_stage({})


@statement("HEADER 1")
def test_messages_refer_to_their_nodes() -> None:
    made = compile_stages(EVENTS)
    assert tuple(message.id for message in made.header.messages) == made.spec.selected_ids


@statement("HEADER 2")
def test_the_header_is_hashes_by_default() -> None:
    header = stages.stage("HEADER")
    assert header["mode"] == "hash_only"
    first = header["messages"][2]
    assert (first["tool_calls"], first["text_chars"]) == (2, len("Let me see."))
    assert len(first["payload_sha256"]) == 64


@statement("HEADER 3")
def test_previews_are_short_and_masked() -> None:
    stages.test_header_previews_only_when_asked_and_only_so_much()
    previews.test_a_secret_is_redacted_before_the_text_is_cut()
    previews.test_of_a_message_the_text_is_shown_and_not_its_json()


@statement("HEADER 4")
def test_the_header_is_tied_to_its_selection() -> None:
    made = compile_stages(EVENTS, {"selection": {"max_turns": 1}})
    assert made.header.selection_sha256 == made.spec.selection_sha256


@statement("HEADER 5")
def test_the_header_holds_no_secrets() -> None:
    stages.test_no_text_of_a_payload_is_in_any_stage({"collapse": BOTH})


@statement("FROZEN 1")
def test_frozen_mirrors_the_header() -> None:
    stages.test_frozen_mirrors_a_hash_only_header()


@statement("FROZEN 2")
def test_frozen_tells_what_was_used() -> None:
    frozen = compile_stages(EVENTS, {"collapse": BOTH}).frozen
    assert [message.collapsed for message in frozen.messages] == [True, True, False]


@statement("FROZEN 3")
def test_frozen_stays_hashes() -> None:
    stages.test_frozen_stays_the_same_when_somebody_looks_at_previews()
    stages.test_frozen_carries_previews_only_when_configured()


@statement("Ordering rules 1")
def test_selection_is_in_append_order() -> None:
    events = selecting.stream(("a", 5), ("b", 1), ("c", 3))
    assert selecting.selected(events, max_nodes=2) == ["a0", "c2"]


@statement("Ordering rules 2")
def test_keys_are_in_order() -> None:
    stages.test_all_keys_come_out_sorted()


@statement("Ordering rules 3")
def test_ties_end_without_a_clock() -> None:
    selecting.test_newest_is_by_turn_and_then_by_place()


@statement("Collapse policy 1", ruled="DESIGN §8.6")
def test_the_target_drops_the_oldest() -> None:
    collapsing.test_spec_drops_the_oldest_above_the_target_and_collapses_nothing()
    assert compile_stages(EVENTS, {"collapse": {"target": None}}).spec.dropped == ()
    assert compile_stages(EVENTS, {"collapse": {"target": 0}}).spec.nodes == ()


@statement("Collapse policy 2")
def test_both_modes() -> None:
    collapsing.test_header_drops_and_collapses()
    collapsing.test_header_collapses_nothing_without_the_mode()


@statement("Collapse policy 3")
def test_collapse_keeps_to_its_kinds() -> None:
    header = collapsing.stages(mode="all_but_last", kind_allowlist=["tool"])["HEADER"]
    assert header["collapsed_ids"] == ["tool2"]


@statement("Collapse policy 4")
def test_raw_is_left_alone() -> None:
    collapsing.test_raw_neither_drops_nor_collapses()


@statement("Collapse policy 5")
def test_spec_drops_only() -> None:
    collapsing.test_what_a_stage_may_do("SPEC", collapsing.IDS[:2], [])


@statement("Collapse policy 6")
def test_header_drops_then_collapses() -> None:
    collapsing.test_what_a_stage_may_do("HEADER", collapsing.IDS[:2], collapsing.IDS[2:4])


@statement("Collapse policy 7")
def test_frozen_does_as_the_header() -> None:
    collapsing.test_what_a_stage_may_do("FROZEN", collapsing.IDS[:2], collapsing.IDS[2:4])
