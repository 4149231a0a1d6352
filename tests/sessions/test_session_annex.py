"""The conformance checklist (annex 10): every line with the tests that answer it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent
COUNTS = {
    ("A", "MUST"): 8,
    ("A", "SHOULD"): 2,
    ("B", "MUST"): 10,
    ("C", "MUST"): 6,
    ("C", "SHOULD"): 2,
    ("D", "MUST"): 4,
    ("D", "SHOULD"): 1,
    ("E", "MUST"): 1,
}
TREE, LIFE, QUERY = "test_session_tree", "test_session_lifecycle", "test_session_selectors"
RENDER, DOCS, RANGES = "test_session_render", "test_session_documents", "test_session_ranges"
PROPS, ORACLE = "test_session_properties", "test_session_selector_oracle"
REPLAY = "test_session_replay"

# Section, level, number of the line, what it asks in a few words, the tests that answer.
ANNEX: list[tuple[str, str, int, str, list[tuple[str, str]]]] = [
    (
        "A",
        "MUST",
        1,
        "three regions under the root",
        [
            (TREE, "test_regions_exist_under_the_root"),
            (TREE, "test_regions_exist_after_import_of_a_tree_without_them"),
        ],
    ),
    (
        "A",
        "MUST",
        2,
        "the active turn decides what can change",
        [(LIFE, "test_mutability_follows_the_cycle_not_the_region")],
    ),
    (
        "A",
        "MUST",
        3,
        "required headers",
        [(TREE, "test_every_node_carries_the_required_headers")],
    ),
    (
        "A",
        "MUST",
        4,
        "one core per turn",
        [
            (TREE, "test_every_sealed_turn_has_exactly_one_core"),
            (TREE, "test_two_cores_in_a_turn_are_refused"),
            (PROPS, "test_every_sealed_turn_keeps_one_core_and_canonical_order"),
        ],
    ),
    (
        "A",
        "MUST",
        5,
        "canonical sibling order",
        [
            (TREE, "test_canonical_sibling_order"),
            (TREE, "test_offset_decides_before_time"),
            (PROPS, "test_every_sealed_turn_keeps_one_core_and_canonical_order"),
        ],
    ),
    (
        "A",
        "MUST",
        6,
        "expiry and cascade at commit; cores and snapshots immutable",
        [
            (LIFE, "test_a_node_expires_exactly_at_its_cycle_plus_ttl"),
            (LIFE, "test_removable_containers_go_with_their_last_child"),
            (LIFE, "test_snapshots_are_immutable"),
            (PROPS, "test_sealed_cores_and_snapshots_never_change"),
            (PROPS, "test_nodes_expire_exactly_when_due"),
        ],
    ),
    (
        "A",
        "MUST",
        7,
        "deterministic pruning order",
        [
            (LIFE, "test_pruning_goes_by_priority_then_age_then_id"),
            (LIFE, "test_equal_priority_and_age_fall_back_to_the_id"),
            (PROPS, "test_pruning_is_deterministic"),
        ],
    ),
    (
        "A",
        "MUST",
        8,
        "serialization without side effects, diffs by id, invalid placements rejected",
        [
            (RENDER, "test_rendering_has_no_side_effect"),
            (DOCS, "test_diff_goes_by_id_not_by_content"),
            (TREE, "test_invalid_placements_are_rejected"),
        ],
    ),
    (
        "A",
        "SHOULD",
        1,
        "moves across regions as remove and add",
        [(TREE, "test_moves_across_regions_after_the_commit_are_remove_and_add")],
    ),
    (
        "A",
        "SHOULD",
        2,
        "references defer expiry",
        [
            (LIFE, "test_a_live_reference_defers_expiry_until_it_goes"),
            (LIFE, "test_a_referenced_descendant_keeps_its_container"),
            (PROPS, "test_no_live_reference_ever_dangles"),
        ],
    ),
    ("B", "MUST", 1, "roots", [(QUERY, "test_roots")]),
    (
        "B",
        "MUST",
        2,
        "types, tokens equal to attributes",
        [(QUERY, "test_types"), (QUERY, "test_namespaced_types_by_token_and_by_attribute")],
    ),
    ("B", "MUST", 3, "ids match exactly", [(QUERY, "test_ids_match_exactly")]),
    (
        "B",
        "MUST",
        4,
        "pseudo-classes, depth lists and ranges",
        [
            (QUERY, "test_offset_pseudo_classes"),
            (QUERY, "test_position_pseudo_classes"),
            (QUERY, "test_depth_lists_and_ranges"),
            (QUERY, "test_golden_depth_range"),
        ],
    ),
    (
        "B",
        "MUST",
        5,
        "attributes with six operators",
        [(QUERY, "test_attribute_conditions"), (QUERY, "test_empty_text_differs_from_null")],
    ),
    (
        "B",
        "MUST",
        6,
        "combinators",
        [
            (QUERY, "test_combinators_are_literal"),
            (ORACLE, "test_the_evaluator_agrees_with_brute_force"),
        ],
    ),
    (
        "B",
        "MUST",
        7,
        "snapshot addresses and the default",
        [
            (QUERY, "test_default_snapshot_is_the_last_commit"),
            (QUERY, "test_all_snapshots_newest_first_each_id_once"),
            (LIFE, "test_addresses_of_snapshots"),
        ],
    ),
    (
        "B",
        "MUST",
        8,
        "inclusive ranges, two operators",
        [
            (QUERY, "test_ranges_have_four_spellings"),
            (RANGES, "test_both_range_operators_and_short_ends_are_the_same"),
            (RANGES, "test_a_range_gives_pairwise_differences_newest_first"),
        ],
    ),
    (
        "B",
        "MUST",
        9,
        "canonical order, no side effects",
        [
            (QUERY, "test_golden_queries"),
            (QUERY, "test_selecting_has_no_side_effect"),
            (ORACLE, "test_the_evaluator_agrees_with_brute_force"),
        ],
    ),
    (
        "B",
        "MUST",
        10,
        "invalid selectors raise",
        [
            (QUERY, "test_invalid_selectors_name_their_position"),
            (QUERY, "test_golden_empty_depth_is_an_error"),
            (QUERY, "test_ranges_of_mixed_kinds_are_errors"),
            (QUERY, "test_ranges_with_a_wildcard_are_errors"),
            (ORACLE, "test_the_parser_answers_any_text"),
        ],
    ),
    (
        "C",
        "MUST",
        1,
        "one snapshot per cycle",
        [(LIFE, "test_each_cycle_gives_exactly_one_snapshot")],
    ),
    (
        "C",
        "MUST",
        2,
        "the snapshot renders the bytes of its cycle",
        [
            (RENDER, "test_the_last_commit_renders_what_the_provider_was_sent"),
            (LIFE, "test_order_of_the_commit_is_expiry_pruning_sealing"),
            (RENDER, "test_normative_provider_threads"),
        ],
    ),
    (
        "C",
        "MUST",
        3,
        "byte-stable snapshots",
        [
            (REPLAY, "test_replay_elsewhere_in_another_process_hash_seed_and_zone"),
            (PROPS, "test_reading_has_no_side_effect"),
        ],
    ),
    (
        "C",
        "MUST",
        4,
        "exports are complete and ordered",
        [(DOCS, "test_an_export_has_every_header_and_canonical_order")],
    ),
    ("C", "MUST", 5, "diffs go by id", [(DOCS, "test_diff_goes_by_id_not_by_content")]),
    (
        "C",
        "MUST",
        6,
        "the shape of a diff",
        [
            (DOCS, "test_diff_in_the_normative_shape"),
            (DOCS, "test_diff_names_every_changed_field"),
        ],
    ),
    (
        "C",
        "SHOULD",
        1,
        "import gives the same serialization",
        [
            (DOCS, "test_import_of_export_is_the_identity"),
            (PROPS, "test_import_of_export_is_the_identity"),
        ],
    ),
    (
        "C",
        "SHOULD",
        2,
        "moves are inferred by content hash",
        [
            (DOCS, "test_moves_pair_each_node_once"),
            (TREE, "test_moves_across_regions_after_the_commit_are_remove_and_add"),
        ],
    ),
    ("D", "MUST", 1, "metadata", [(TREE, "test_every_node_carries_the_required_headers")]),
    (
        "D",
        "MUST",
        2,
        "pure and complete selectors",
        [
            (QUERY, "test_selecting_has_no_side_effect"),
            (ORACLE, "test_the_evaluator_agrees_with_brute_force"),
        ],
    ),
    (
        "D",
        "MUST",
        3,
        "diff reports fields in the newer order",
        [
            (DOCS, "test_diff_in_the_normative_shape"),
            (DOCS, "test_a_ttl_change_is_a_modification"),
            (DOCS, "test_diffs_map_back_to_the_thread"),
        ],
    ),
    (
        "D",
        "MUST",
        4,
        "nothing that serializes mutates",
        [
            (RENDER, "test_rendering_has_no_side_effect"),
            (DOCS, "test_diff_and_export_have_no_side_effect"),
            (PROPS, "test_reading_has_no_side_effect"),
        ],
    ),
    (
        "D",
        "SHOULD",
        1,
        "export keeps order, replay the bytes",
        [
            (DOCS, "test_an_export_has_every_header_and_canonical_order"),
            (REPLAY, "test_a_replay_gives_identical_snapshots_hashes_and_bytes"),
        ],
    ),
    (
        "E",
        "MUST",
        1,
        "the commit sequence",
        [
            (LIFE, "test_order_of_the_commit_is_expiry_pruning_sealing"),
            (LIFE, "test_the_active_head_is_sealed_and_a_fresh_one_begins"),
            (LIFE, "test_a_failed_commit_changes_nothing"),
        ],
    ),
]


def defined(module: str) -> set[str]:
    tree = ast.parse((HERE / f"{module}.py").read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("line", ANNEX, ids=lambda line: f"{line[0]}-{line[1]}-{line[2]}")
def test_every_line_is_answered_by_tests_that_exist(line):
    answers = line[4]
    assert answers
    for module, name in answers:
        assert name.startswith("test_")
        assert name in defined(module), f"{module} has no {name}"


def test_no_line_is_left_out():
    told: dict[tuple[str, str], list[int]] = {}
    for section, level, number, _, _ in ANNEX:
        told.setdefault((section, level), []).append(number)
    assert told == {key: list(range(1, count + 1)) for key, count in COUNTS.items()}
