"""The Python names that programs rely on."""

from __future__ import annotations

import subprocess
import sys

import pytest

import indexer

NAMES = {
    "AgentAdapter",
    "ContextView",
    "NewFrame",
    "Session",
    "TokenCounter",
    "Workspace",
    "canonical_json",
    "commit_hash",
    "compile_stages",
    "content_hash",
    "errors",
    "node_content_hash",
}

WORKSPACE_METHODS = {
    "agent_add", "agent_list", "compact", "compile", "compose", "diff", "explain", "export",
    "get_frame", "get_head", "get_node", "import_", "init", "invalidate", "list_frames", "lock",
    "log", "open",
    "prove", "put_frame", "put_frames", "regenerate", "replay", "report",
    "scan", "shared_gc", "shared_pull", "shared_push", "shared_status", "sql",
    "status", "synthesize", "validate",
    "session_annotate", "session_append", "session_attempt", "session_commit", "session_compile",
    "session_diff", "session_edit", "session_export", "session_group", "session_import",
    "session_list", "session_move", "session_new", "session_pull", "session_remove",
    "session_render", "session_select", "session_show",
}  # fmt: skip
SESSION_METHODS = {
    "annotate", "append", "apply", "commit", "compile", "cycle", "diff", "document", "edit",
    "effective", "export", "export_snapshot", "head", "moves", "name", "new", "plan_annotate",
    "plan_append", "plan_attempt", "plan_commit", "plan_edit", "plan_group", "plan_move",
    "plan_remove", "records", "render", "replay", "seals", "select", "thread", "view",
}  # fmt: skip


def test_the_public_names_are_these() -> None:
    assert set(indexer.__all__) == NAMES
    for name in NAMES:
        assert getattr(indexer, name) is not None


def test_a_workspace_has_a_method_per_command() -> None:
    assert set(dir(indexer.Workspace)) >= WORKSPACE_METHODS


def test_a_session_can_be_used_without_a_workspace() -> None:
    assert set(dir(indexer.Session)) >= SESSION_METHODS


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = indexer.nothing_like_it


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = "('_duckdb', 'click', 'tiktoken')"
    code = f"import sys, indexer; print([m for m in {heavy} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
