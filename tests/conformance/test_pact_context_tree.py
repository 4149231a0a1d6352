"""pact-context-tree.md: every numbered statement, with the tests that show it.

The tests are those of `tests/sessions`; here each statement has one of its own, which runs them.
"""

from __future__ import annotations

import json
import logging
from typing import Any, Final, NamedTuple

import pytest

from indexer.sessions import Placement, Session, make_content
from indexer.sessions.log import HashCollisionError
from tests.sessions import (
    conftest,
)
from tests.sessions import (
    test_session_chat as chat,
)
from tests.sessions import (
    test_session_documents as docs,
)
from tests.sessions import (
    test_session_lifecycle as life,
)
from tests.sessions import (
    test_session_log as log,
)
from tests.sessions import (
    test_session_properties as props,
)
from tests.sessions import (
    test_session_ranges as ranges,
)
from tests.sessions import (
    test_session_render as render,
)
from tests.sessions import (
    test_session_replay as replay,
)
from tests.sessions import (
    test_session_selectors as query,
)
from tests.sessions import (
    test_session_set as live,
)
from tests.sessions import (
    test_session_tree as tree,
)
from tests.support.conformance import Specification
from tests.support.showing import Shows, run


class Shown(NamedTuple):
    """A statement in its own words, cut short, and what shows it."""

    text: str
    tests: tuple[Shows, ...]
    ruled: str | None = None


def of(text: str, *tests: Shows, ruled: str | None = None) -> Shown:
    return Shown(text, tests, ruled)


# -- what no test of the sessions' own shows


def _snapshots_say_their_version() -> None:
    document = json.loads(Session.new("s").export_snapshot())
    assert document["spec_version"].startswith("PACT/0.1")
    assert {"cycle", "root"} <= document.keys()


def _a_retrieval_is_a_block_that_expires() -> None:
    session = Session.new("s")
    content = make_content("dialogue", text="Doc: How to reset a password...", role="system")
    session.append(content, Placement(id="cb:rag1", ttl=2, offset=1))
    session.commit()
    assert session.select("^seq .cb:post") == ["cb:rag1"]
    session.commit()
    session.commit()
    assert session.select("^seq .cb:post") == []


def _provenance_is_kept() -> None:
    session = Session.new("s")
    where = Placement(id="x", provenance="model:some")
    session.append(make_content("output", text="a"), where)
    session.commit()
    assert session.select("[provenance='model:some']") == ["x"]


def _errors_have_their_codes(history: Session) -> None:
    from indexer.errors import UsageError

    for selector, code in (
        ("@t0..@c1 .cb", "E_SNAPSHOT_RANGE_KIND_MISMATCH"),
        ("@*..@t0 .cb", "E_SNAPSHOT_RANGE_WILDCARD"),
        (".cb[", "E_SELECTOR_INVALID"),
    ):
        with pytest.raises(UsageError) as caught:
            history.select(selector)
        assert caught.value.code == code


def _collisions_are_logged(session: Session, caplog: pytest.LogCaptureFixture) -> None:
    session.append(make_content("output", text="a"))
    blobs = session.state.log.blobs
    (hashed,) = blobs
    blobs[hashed] = {"content_type": "output", "text": "b"}
    with caplog.at_level(logging.ERROR), pytest.raises(HashCollisionError):
        session.append(make_content("output", text="a"))
    assert hashed in caplog.text


def _only_headers_of_what_is_live_change(session: Session) -> None:
    for number in range(3):
        session.append(make_content("dialogue", text=str(number)), Placement(ttl=5))
        session.commit()
    for newer in range(1, session.cycle + 1):
        for older in range(1, newer):
            assert session.diff(f"@c{older}", f"@c{newer}", ".cb")["changed"] == []


def _content_beside_what_is_sealed_is_new(session: Session) -> None:
    log.test_an_edit_stands_in_the_post_context_of_its_target(session)


ORDER: Final = (tree.test_canonical_sibling_order, tree.test_offset_decides_before_time)
SEALED: Final = (
    tree.test_what_is_sealed_cannot_be_moved_or_removed,
    live.test_replaced_content_is_what_is_read,
)
EXPIRY: Final = (
    life.test_a_node_expires_exactly_at_its_cycle_plus_ttl,
    life.test_expiry_waits_for_the_commit,
)
CASCADE: Final = (
    life.test_removable_containers_go_with_their_last_child,
    life.test_containers_that_are_not_removable_stay,
    life.test_a_container_with_a_living_child_stays,
)
SAFE: Final = (
    life.test_a_live_reference_defers_expiry_until_it_goes,
    life.test_a_referenced_descendant_keeps_its_container,
    tree.test_references_protect_against_removal,
)
PRUNING: Final = (
    life.test_pruning_goes_by_priority_then_age_then_id,
    life.test_equal_priority_and_age_fall_back_to_the_id,
)
SEQUENCE: Final = (
    life.test_order_of_the_commit_is_expiry_pruning_sealing,
    life.test_the_active_head_is_sealed_and_a_fresh_one_begins,
)
BYTES: Final = (
    render.test_equal_sessions_render_equal_bytes,
    replay.test_a_replay_gives_identical_snapshots_hashes_and_bytes,
)
PURE: Final = (
    query.test_selecting_has_no_side_effect,
    render.test_rendering_has_no_side_effect,
    docs.test_diff_and_export_have_no_side_effect,
)
TTL_FROM: Final = "DESIGN §8.2"
CORE: Final = "DESIGN §8.1"
LIVE: Final = "docs/sessions.md: What is live, and what is sealed"
RANGE: Final = (
    ranges.test_a_range_gives_pairwise_differences_newest_first,
    ranges.test_both_range_operators_and_short_ends_are_the_same,
    ranges.test_a_range_that_begins_with_the_empty_tree_includes_it,
)
GOLDEN: Final = (query.test_golden_queries, query.test_golden_empty_depth_is_an_error)
ATTRIBUTES: Final = (query.test_attribute_conditions, query.test_empty_text_differs_from_null)
DIFF: Final = (
    docs.test_diff_in_the_normative_shape,
    docs.test_diff_names_every_changed_field,
    live.test_a_diff_tells_each_change_apart,
)
ROUND: Final = (
    docs.test_import_of_export_is_the_identity,
    docs.test_import_of_an_exported_session_keeps_its_history,
)
HEADERS: Final = (tree.test_every_node_carries_the_required_headers,)
IMMUTABLE: Final = (tree.test_headers_of_a_node_are_immutable, _only_headers_of_what_is_live_change)
FEATURES: Final = (
    query.test_roots,
    query.test_types,
    query.test_ids_match_exactly,
    query.test_offset_pseudo_classes,
    query.test_position_pseudo_classes,
    query.test_depth_lists_and_ranges,
    query.test_combinators_are_literal,
)

SHOWN: Final[dict[str, Shown]] = {
    "01 §1.1": of("^root is never pruned or expired", tree.test_regions_cannot_be_moved_or_removed),
    "01 §1.2": of("the root has three required regions", tree.test_regions_exist_under_the_root),
    "01 §2": of(
        "three canonical node types", query.test_types, tree.test_canonical_mapping_of_user_types
    ),
    "01 §2.1": of(
        "user-assigned types are namespaced and found as .cb",
        tree.test_new_types_must_be_namespaced,
        query.test_namespaced_types_by_token_and_by_attribute,
    ),
    "01 §3.2": of(
        "depth 1 is the newest sealed turn; ^ah has no depth", query.test_depth_lists_and_ranges
    ),
    "01 §5": of("every node MUST carry the lifecycle metadata", *HEADERS),
    "01 §6.1": of(
        "a turn is pre-context, core, post-context", tree.test_blocks_at_offset_0_share_one_core
    ),
    "01 §7": of(
        "at each cycle's end ^ah is sealed, a fresh one begins, a snapshot is produced",
        life.test_the_active_head_is_sealed_and_a_fresh_one_begins,
        life.test_each_cycle_gives_exactly_one_snapshot,
    ),
    "02 §2.1": of(
        "a single rooted tree; the root MUST NOT be pruned or expired",
        tree.test_regions_exist_under_the_root,
        tree.test_regions_cannot_be_moved_or_removed,
    ),
    "02 §2.2": of(
        "exactly ^sys, ^seq and ^ah under the root",
        tree.test_regions_exist_after_import_of_a_tree_without_them,
        tree.test_a_second_active_head_is_refused,
    ),
    "02 §2.3": of(
        "moves across regions are remove and add from outside",
        tree.test_moves_before_the_commit_keep_the_id,
        tree.test_moves_across_regions_after_the_commit_are_remove_and_add,
    ),
    "02 §3.1": of(
        "ids are stable",
        tree.test_given_ids_are_kept_and_never_reused,
        tree.test_own_ids_depend_on_name_cycle_index_and_content,
    ),
    "02 §3.2": of("required headers", *HEADERS),
    "02 §3.2.1": of(
        "which fields may change",
        *IMMUTABLE,
        live.test_refusals_change_nothing,
        live.test_role_kind_and_type_stay,
        ruled=LIVE,
    ),
    "02 §3.3": of("canonical types mt, mc, cb", query.test_types),
    "02 §3.4": of("user types still resolve as .cb", tree.test_canonical_mapping_of_user_types),
    "02 §3.5": of(
        "attributes are namespaced, typed, and MUST NOT collide with reserved names",
        tree.test_attributes_must_be_namespaced,
        tree.test_headers_of_the_wrong_type_are_refused,
        tree.test_attributes_are_carried_and_found,
    ),
    "02 §4.1": of("offsets: pre, core, post", query.test_offset_pseudo_classes),
    "02 §4.2": of(
        "each turn MUST have exactly one mc at offset 0",
        tree.test_every_sealed_turn_has_exactly_one_core,
        tree.test_two_cores_in_a_turn_are_refused,
        ruled=CORE,
    ),
    "02 §4.3": of("siblings by offset, created_at_ns, creation_index, id", *ORDER),
    "02 §4.4": of(
        "creation times are strictly monotonic; indexes count up",
        tree.test_creation_times_are_strictly_increasing_under_a_standing_clock,
        tree.test_a_clock_that_goes_back_does_not_reorder_turns,
        log.test_times_never_go_back,
    ),
    "02 §4.5": of(
        "re-parenting before the commit; turns and ^sys stay",
        tree.test_moves_within_a_region_show_as_a_changed_parent,
        tree.test_what_is_sealed_cannot_be_moved_or_removed,
    ),
    "02 §5.1": of(
        "ttl is cycle-based", *EXPIRY, life.test_without_ttl_a_node_stays, ruled=TTL_FROM
    ),
    "02 §5.2": of(
        "expiry at commit, before pruning", life.test_order_of_the_commit_is_expiry_pruning_sealing
    ),
    "02 §5.3": of("empty removable containers MUST go; regions MUST persist", *CASCADE),
    "02 §5.3.1": of(
        "removable is said at creation; root and regions are not",
        tree.test_regions_are_never_removable,
        *CASCADE,
    ),
    "02 §5.4": of("nodes with live references MUST NOT be removed", *SAFE),
    "02 §6.1": of("at most one ^ah per snapshot", tree.test_a_second_active_head_is_refused),
    "02 §6.2": of("at commit ^ah is sealed as a new mt", *SEQUENCE, *SEALED),
    "02 §6.3": of("depth counts newest to oldest", query.test_depth_lists_and_ranges),
    "02 §6.4": of(
        "sealed cores MUST NOT be mutated; others by new nodes",
        *SEALED,
        tree.test_blocks_can_be_attached_to_sealed_turns,
        _content_beside_what_is_sealed_is_new,
    ),
    "02 §7.1": of("pruning by priority, then age, then id", *PRUNING),
    "02 §7.2": of(
        "recent turns, pins and references are protected",
        life.test_pruning_spares_recent_turns_pins_and_references,
    ),
    "02 §7.3": of(
        "the same state and policy give the same state", props.test_pruning_is_deterministic
    ),
    "02 §8.1": of(
        "each cycle produces a snapshot", life.test_each_cycle_gives_exactly_one_snapshot
    ),
    "02 §8.2": of("identical snapshots give identical bytes", *BYTES),
    "02 §8.3": of("serialization MUST NOT mutate the tree", *PURE),
    "02 §8.4": of("snapshots are addressable", life.test_addresses_of_snapshots),
    "02 §8.5": of(
        "a snapshot MUST serialize to the provider-bound bytes",
        render.test_the_last_commit_renders_what_the_provider_was_sent,
    ),
    "02 §9.1": of("ctx.select MUST be pure", query.test_selecting_has_no_side_effect),
    "02 §9.2": of("what selectors MUST support", *FEATURES),
    "02 §9.3": of(
        "diffs by id, moves and ttl changes told",
        *DIFF,
        docs.test_a_ttl_change_is_a_modification,
        tree.test_moves_within_a_region_show_as_a_changed_parent,
    ),
    "02 §10": of(
        "validation",
        tree.test_two_cores_in_an_imported_turn_are_refused,
        tree.test_unknown_types_of_imported_nodes_count_as_blocks,
        query.test_invalid_selectors_name_their_position,
    ),
    "02 §11.1": of("regions exist", tree.test_regions_exist_under_the_root),
    "02 §11.2": of("nodes carry required headers", *HEADERS),
    "02 §11.3": of(
        "each turn has exactly one mc@0",
        tree.test_every_sealed_turn_has_exactly_one_core,
        ruled=CORE,
    ),
    "02 §11.4": of("ordering rules are enforced", *ORDER),
    "02 §11.5": of("ttl expiry and cascade occur at commit", *EXPIRY, *CASCADE),
    "02 §11.6": of(
        "sealed cores and snapshots are immutable",
        *SEALED,
        life.test_snapshots_are_immutable,
        live.test_what_was_sealed_keeps_its_bytes,
    ),
    "02 §11.7": of("pruning is deterministic", *PRUNING),
    "02 §11.8": of("snapshots serialize to stable bytes", *BYTES),
    "02 §11.9": of(
        "selectors are pure and complete", *FEATURES, query.test_selecting_has_no_side_effect
    ),
    "02 §11.10": of("diffs compare by id", docs.test_diff_goes_by_id_not_by_content),
    "02 §11.11": of("invalid placements are rejected", tree.test_invalid_placements_are_rejected),
    "02 §12.2": of(
        "^sys, then ^seq oldest first, then ^ah", render.test_normative_provider_threads
    ),
    "02 §12.3": of(
        "pre-context, core, post-context within a turn", render.test_normative_provider_threads
    ),
    "02 §12.4": of(
        "roles are kept; defaults system and user", render.test_roles_and_kinds_are_filled_in
    ),
    "02 §12.5": of(
        "a cb serializes to id, role, kind, content",
        render.test_the_exact_bytes_of_one_message,
        ruled="DESIGN §8.9, §8.17",
    ),
    "02 §12.6": of(
        "canonical order within and across turns", render.test_normative_provider_threads
    ),
    "02 §12.7.2": of("renders ^sys, ^seq, ^ah", render.test_normative_provider_threads),
    "02 §12.7.3": of("preserves canonical sibling order", *ORDER),
    "02 §12.7.4": of("preserves roles and ids", render.test_roles_and_kinds_are_filled_in),
    "02 §12.7.5": of("identical output for identical snapshots", *BYTES),
    "02 §12.7.6": of("serialization is side-effect free", *PURE),
    "02 §12.8": of("the end-to-end example, byte for byte", render.test_normative_provider_threads),
    "02 §12.9": of(
        "the example with pre- and post-context", render.test_normative_provider_threads
    ),
    "03 §2.1": of(
        "every cycle produces exactly one snapshot",
        life.test_each_cycle_gives_exactly_one_snapshot,
        life.test_an_empty_cycle_gives_a_turn_and_a_snapshot_too,
    ),
    "03 §2.2": of("@t0, @t-1 and @cN", life.test_addresses_of_snapshots, ruled="DESIGN §8.16"),
    "03 §2.3": of(
        "a commit MUST produce a snapshot or fail entirely",
        life.test_a_failed_commit_changes_nothing,
    ),
    "03 §2.4": of(
        "the snapshot serializes to the bytes of its cycle",
        render.test_the_last_commit_renders_what_the_provider_was_sent,
    ),
    "03 §3.1": of(
        "ttl None, 0 and N",
        *EXPIRY,
        life.test_without_ttl_a_node_stays,
        life.test_ttl_0_is_rendered_while_working_and_never_reaches_a_snapshot,
        ruled=TTL_FROM,
    ),
    "03 §3.2": of("ttl is checked at commit", life.test_expiry_waits_for_the_commit),
    "03 §3.3": of("ttl may be stored as an expiry cycle", live.test_ttl_is_kept_from_then_on),
    "03 §4.1": of("exactly after N cycles", *EXPIRY, ruled=TTL_FROM),
    "03 §4.2": of("a removable container goes in the same commit", *CASCADE),
    "03 §4.3": of("live references defer expiry", *SAFE),
    "03 §5.1": of("^ah is structure; it is sealed at commit", *SEQUENCE),
    "03 §5.2": of(
        "sealed turns and snapshots are immutable", life.test_snapshots_are_immutable, *SEALED
    ),
    "03 §5.3": of(
        "changes of what is sealed are new referencing blocks",
        log.test_an_edit_stands_in_the_post_context_of_its_target,
    ),
    "03 §5.4": of("effective history is deterministic", *BYTES),
    "03 §5.5": of(
        "what is made in a cycle is editable until sealing",
        life.test_mutability_follows_the_cycle_not_the_region,
        live.test_what_is_made_in_this_cycle_is_live_wherever_it_stands,
        live.test_replaced_content_is_what_is_read,
    ),
    "03 §6.1": of(
        "attempts are beside history; content stays editable",
        life.test_attempts_are_recorded_beside_the_history,
        live.test_replaced_content_is_what_is_read,
    ),
    "03 §6.2": of("the fields of an attempt", life.test_attempts_are_recorded_beside_the_history),
    "03 §7": of("expiry, pruning, sealing, snapshot", *SEQUENCE),
    "04 §2.2": of(
        "ids for one snapshot, a RangeDiffLatestResult for a range",
        *RANGE,
        ranges.test_options_do_not_touch_single_snapshots,
    ),
    "04 §3.1": of("roots", query.test_roots),
    "04 §3.2": of(
        "types; .cb:summary equals [nodeType='cb:summary']",
        query.test_types,
        query.test_namespaced_types_by_token_and_by_attribute,
    ),
    "04 §3.3": of("#id", query.test_ids_match_exactly, ruled="DESIGN §8.10"),
    "04 §3.4": of(
        "pseudo-classes",
        query.test_offset_pseudo_classes,
        query.test_position_pseudo_classes,
        query.test_depth_lists_and_ranges,
    ),
    "04 §3.5": of("attributes and six operators", *ATTRIBUTES),
    "04 §3.6": of("descendant and child", query.test_combinators_are_literal, ruled="DESIGN §8.11"),
    "04 §3.7": of(
        "addresses, inclusive ranges, default @t0",
        query.test_default_snapshot_is_the_last_commit,
        *RANGE,
        query.test_all_snapshots_newest_first_each_id_once,
        ruled="DESIGN §8.3, §8.12",
    ),
    "04 §4": of(
        "the grammar, ranges as values included",
        query.test_attribute_conditions,
        query.test_groups_are_a_union_from_left_to_right,
        query.test_wildcard_step,
        query.test_quoted_texts_can_hold_quotes,
        query.test_ranges_of_mixed_kinds_are_errors,
        query.test_ranges_with_a_wildcard_are_errors,
    ),
    "04 §4 RangeDiffLatestResult": of(
        "the shape of a range result",
        *RANGE,
        ranges.test_changed_headers_have_a_delta_from_newer_to_older,
        ranges.test_results_are_deterministic_bytes,
    ),
    "04 §4 options": of(
        "includeContent, contentMode, contextLines, materialize, limits",
        live.test_a_content_diff_in_every_mode,
        live.test_what_is_materialized_is_there,
        ranges.test_a_limit_on_snapshots,
        ranges.test_a_limit_on_changes,
        ranges.test_options_that_make_no_sense_are_refused,
    ),
    "04 §5.1": of("numeric and string attributes", *ATTRIBUTES),
    "04 §5.2": of("numeric comparison", *ATTRIBUTES),
    "04 §5.3": of("string comparison", *ATTRIBUTES),
    "04 §5.4": of("mixed types; coercion rules are documented (docs/sessions.md)", *ATTRIBUTES),
    "04 §5.5": of("null, empty text, booleans", *ATTRIBUTES),
    "04 §6.2": of(
        "canonical selector tests",
        *GOLDEN,
        query.test_golden_queries_after_a_round_trip,
        ruled=CORE,
    ),
    "04 §6.3": of("the additional range fixture", query.test_golden_depth_range),
    "04 §7.1": of("roots MUST be supported", query.test_roots),
    "04 §7.2": of("types MUST be supported", query.test_types),
    "04 §7.3": of(
        "user types by token and attribute", query.test_namespaced_types_by_token_and_by_attribute
    ),
    "04 §7.4": of("ids exactly, case-sensitive", query.test_ids_match_exactly),
    "04 §7.5": of(
        "all pseudos", query.test_offset_pseudo_classes, query.test_position_pseudo_classes
    ),
    "04 §7.6": of("all comparison operators", *ATTRIBUTES),
    "04 §7.7": of("combinators", query.test_combinators_are_literal),
    "04 §7.8": of(
        "@t0, @t-1, @cN, @*",
        life.test_addresses_of_snapshots,
        query.test_all_snapshots_newest_first_each_id_once,
    ),
    "04 §7.9": of("results are ordered canonically", *GOLDEN),
    "04 §7.10": of("queries are pure", query.test_selecting_has_no_side_effect),
    "04 §7.11": of("invalid selectors raise", query.test_invalid_selectors_name_their_position),
    "04 §7.12": of(":depth lists", query.test_depth_lists_and_ranges),
    "04 §7.13": of("numeric against string comparison", *ATTRIBUTES),
    "04 §7.14": of("data types are detected", *ATTRIBUTES),
    "04 §7.15": of("default snapshot @t0", query.test_default_snapshot_is_the_last_commit),
    "04 §7.16": of("ranges inclusive, operators interchangeable", *RANGE),
    "04 §7.1 Golden tests": of("the golden results", *GOLDEN),
    "05 §2.1": of(
        "exactly one snapshot per cycle", life.test_each_cycle_gives_exactly_one_snapshot
    ),
    "05 §2.1.1": of(
        "@t0 re-serializes to the provider input bytes",
        render.test_the_last_commit_renders_what_the_provider_was_sent,
    ),
    "05 §2.2": of("byte stability", *BYTES, *PURE),
    "05 §2.3": of("addressing and ranges", life.test_addresses_of_snapshots, *RANGE),
    "05 §3.1": of(
        "export has all nodes, metadata, canonical order, ids",
        docs.test_an_export_has_every_header_and_canonical_order,
    ),
    "05 §3.2": of("import and replay give the same serialization", *ROUND),
    "05 §4.1": of("diffs by node id", docs.test_diff_goes_by_id_not_by_content),
    "05 §4.2": of(
        "changed is any header or content_hash; ttl too",
        *DIFF,
        docs.test_a_ttl_change_is_a_modification,
    ),
    "05 §4.3": of("added, removed, changed {id, fields}", docs.test_diff_in_the_normative_shape),
    "05 §4.4": of("canonical order of the newer snapshot", docs.test_diff_in_the_normative_shape),
    "05 §4.5": of("moves inferred where content hashes match", docs.test_moves_pair_each_node_once),
    "05 §5.1": of("an export with spec_version, cycle and root", _snapshots_say_their_version),
    "05 §5.3": of(
        "@t-5..-1 and @t-5:-1 are the same",
        ranges.test_both_range_operators_and_short_ends_are_the_same,
        ruled="DESIGN §8.3",
    ),
    "05 §6.1": of("one snapshot per cycle", life.test_each_cycle_gives_exactly_one_snapshot),
    "05 §6.2": of("byte-stable", *BYTES),
    "05 §6.3": of("addressable", life.test_addresses_of_snapshots),
    "05 §6.4": of("range addressing", *RANGE),
    "05 §6.5": of("export is complete", docs.test_an_export_has_every_header_and_canonical_order),
    "05 §6.6": of("import yields identical serialization", *ROUND),
    "05 §6.7": of("identity by id", docs.test_diff_goes_by_id_not_by_content),
    "05 §6.8": of("field-sensitive changes", *DIFF),
    "05 §6.9": of("order of the newer snapshot", docs.test_diff_in_the_normative_shape),
    "05 §6.10": of("no mutation by serialization", *PURE),
    "05 §6.11": of(
        "remove and add are permitted",
        tree.test_moves_across_regions_after_the_commit_are_remove_and_add,
    ),
    "05 §6.12": of("logical moves by content hash", docs.test_moves_pair_each_node_once),
    "06 §2.1": of("mandatory fields", *HEADERS),
    "06 §2.2": of("optional fields, provenance included", _provenance_is_kept),
    "06 §2.3": of("metadata stays stable across cycles, except ttl", *IMMUTABLE, ruled=LIVE),
    "06 §2.4": of("the attribute stability table", *IMMUTABLE, live.test_role_kind_and_type_stay),
    "06 §3.1": of("select is pure", query.test_selecting_has_no_side_effect),
    "06 §3.2": of("features of selectors", *FEATURES),
    "06 §4.1": of("diff by id", docs.test_diff_goes_by_id_not_by_content),
    "06 §4.2": of("change detection", *DIFF),
    "06 §4.3": of("the shape of a diff", docs.test_diff_in_the_normative_shape),
    "06 §4.4": of("diffs map back to the thread", docs.test_diffs_map_back_to_the_thread),
    "06 §5.1": of("export", docs.test_an_export_has_every_header_and_canonical_order),
    "06 §5.2": of("import and replay", *ROUND),
    "06 §6": of(
        "stable, pure, complete, structural", *BYTES, *PURE, props.test_diffs_of_neighbours_add_up
    ),
    "06 §7 errors": of(
        "the codes of range errors", _errors_have_their_codes, ranges.test_a_limit_on_snapshots
    ),
    "07 §2.1": of("the minimal runtime", *FEATURES, *EXPIRY, *ORDER),
    "07 §3.1": of("canonical types are always exposed", query.test_types),
    "07 §3.2": of(
        "user types stay queryable", query.test_namespaced_types_by_token_and_by_attribute
    ),
    "07 §3.3": of("ids are opaque and case-sensitive", query.test_ids_match_exactly),
    "07 §3.4": of(
        "extensions are namespaced and found by attribute",
        tree.test_attributes_are_carried_and_found,
    ),
    "07 §4.1": of("flat logs", chat.test_the_minimal_flat_log_becomes_system_block_and_turn),
    "07 §4.2": of("retrievals are blocks with a ttl", _a_retrieval_is_a_block_that_expires),
    "07 §5.1": of("snapshots have a spec_version", _snapshots_say_their_version),
    "07 §5.2": of(
        "unknown attributes and types are ignored",
        docs.test_unknown_attributes_are_ignored_and_told,
        tree.test_unknown_types_of_imported_nodes_count_as_blocks,
    ),
    "07 §6.1": of("root regions", tree.test_regions_exist_under_the_root),
    "07 §6.2": of("canonical node types", query.test_types),
    "07 §6.3": of("deterministic invariants", *ORDER, *EXPIRY, *SEQUENCE),
    "07 §6.4": of("selectors and diffs", *DIFF, query.test_types),
    "07 §6.5": of("ids as opaque strings", tree.test_given_ids_are_kept_and_never_reused),
    "07 §6.6": of("user types by canonical mapping", tree.test_canonical_mapping_of_user_types),
    "07 §6.7": of("a spec version in exports", _snapshots_say_their_version),
    "07 §6.8": of(
        "unknown attributes without error", docs.test_unknown_attributes_are_ignored_and_told
    ),
    "08 §2.1": of(
        "the content hash",
        docs.test_the_content_hash_of_a_node,
        docs.test_the_content_hash_takes_part,
    ),
    "08 §2.2": of(
        "what is not part of it",
        docs.test_the_content_hash_ignores_place_and_lifecycle,
        ruled="DESIGN §8.4",
    ),
    "08 §2.3": of(
        "it is stable across moves, ttl, priority",
        docs.test_the_content_hash_ignores_place_and_lifecycle,
    ),
    "08 §5.1": of("comparison of siblings", *ORDER),
    "08 §5.2": of("canonical traversal", render.test_normative_provider_threads),
    "08 §6.1": of("byte-stable serialization", *BYTES, ruled="DESIGN §8.4"),
    "08 §7.1": of(
        "reference test cases",
        docs.test_the_content_hash_ignores_place_and_lifecycle,
        *ORDER,
        *BYTES,
    ),
    "08 §8.2": of(
        "invalid content, missing metadata, circles, collisions",
        docs.test_content_that_is_no_json_hashes_as_nothing,
        docs.test_defaults_of_an_imported_node,
        tree.test_a_document_that_contains_itself_is_refused,
        _collisions_are_logged,
    ),
    "10 §A MUST 1": of("regions exist", tree.test_regions_exist_under_the_root),
    "10 §A MUST 2": of(
        "mutability is the active turn's", life.test_mutability_follows_the_cycle_not_the_region
    ),
    "10 §A MUST 3": of("required headers", *HEADERS),
    "10 §A MUST 4": of(
        "one mc@0 per mt", tree.test_every_sealed_turn_has_exactly_one_core, ruled=CORE
    ),
    "10 §A MUST 5": of("canonical sibling order", *ORDER),
    "10 §A MUST 6": of("expiry, cascade, immutability", *EXPIRY, *CASCADE, *SEALED),
    "10 §A MUST 7": of("deterministic pruning", *PRUNING),
    "10 §A MUST 8": of(
        "no side effects, diffs by id, invalid placements",
        *PURE,
        docs.test_diff_goes_by_id_not_by_content,
        tree.test_invalid_placements_are_rejected,
    ),
    "10 §A SHOULD 1": of(
        "relocations as remove and add",
        tree.test_moves_across_regions_after_the_commit_are_remove_and_add,
    ),
    "10 §A SHOULD 2": of("reference safety", *SAFE),
    "10 §B MUST 1": of("roots", query.test_roots),
    "10 §B MUST 2": of(
        "types", query.test_types, query.test_namespaced_types_by_token_and_by_attribute
    ),
    "10 §B MUST 3": of("ids", query.test_ids_match_exactly),
    "10 §B MUST 4": of(
        "pseudos", query.test_position_pseudo_classes, query.test_depth_lists_and_ranges
    ),
    "10 §B MUST 5": of("attributes", *ATTRIBUTES),
    "10 §B MUST 6": of("combinators", query.test_combinators_are_literal),
    "10 §B MUST 7": of("addresses", query.test_default_snapshot_is_the_last_commit),
    "10 §B MUST 8": of("ranges", *RANGE),
    "10 §B MUST 9": of(
        "canonical order, no side effects", *GOLDEN, query.test_selecting_has_no_side_effect
    ),
    "10 §B MUST 10": of(
        "invalid selectors raise", query.test_invalid_selectors_name_their_position
    ),
    "10 §C MUST 1": of("one snapshot per cycle", life.test_each_cycle_gives_exactly_one_snapshot),
    "10 §C MUST 2": of(
        "the boundary is the commit sequence",
        *SEQUENCE,
        render.test_the_last_commit_renders_what_the_provider_was_sent,
    ),
    "10 §C MUST 3": of("byte-stable", *BYTES),
    "10 §C MUST 4": of(
        "complete exports", docs.test_an_export_has_every_header_and_canonical_order
    ),
    "10 §C MUST 5": of("diffs by id", docs.test_diff_goes_by_id_not_by_content),
    "10 §C MUST 6": of("the shape of diffs", docs.test_diff_in_the_normative_shape),
    "10 §C SHOULD 1": of("import and replay", *ROUND),
    "10 §C SHOULD 2": of("logical moves", docs.test_moves_pair_each_node_once),
    "10 §D MUST 1": of("metadata", *HEADERS),
    "10 §D MUST 2": of(
        "pure and complete selectors", *FEATURES, query.test_selecting_has_no_side_effect
    ),
    "10 §D MUST 3": of("diffs", *DIFF),
    "10 §D MUST 4": of("no mutation by serialization", *PURE),
    "10 §D SHOULD 1": of(
        "order and replay", docs.test_an_export_has_every_header_and_canonical_order, *ROUND
    ),
    "10 §E": of("the commit sequence", *SEQUENCE, life.test_a_failed_commit_changes_nothing),
}

statement: Final = Specification(
    "pact-context-tree.md", {place: shown.text for place, shown in SHOWN.items()}
)


def _showing(place: str, shown: Shown) -> Any:
    @statement(place, ruled=shown.ruled)
    def test(request: pytest.FixtureRequest) -> None:
        for each in shown.tests:
            run(each, request, conftest, ranges)

    return test


for _place, _shown in SHOWN.items():
    _name = "".join(char if char.isalnum() else "_" for char in _place)
    globals()[f"test_{_name}"] = _showing(_place, _shown)
