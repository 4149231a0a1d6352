"""Collapse and summary policies: those built in, and those of one's own."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from indexer.compiler import (
    PluginError,
    Plugins,
    compile_stages,
    custom_names,
    installed_plugins,
    parse_policy,
)
from indexer.compiler.plugins import PluginChangesError

EVENTS = [
    {"kind": "user", "turn": n, "payload": {"content": f"line {n}\nmore of it"}, "id": f"n{n}"}
    for n in range(4)
]


def header(policy: dict[str, Any], plugins: Plugins | None = None) -> Any:
    return compile_stages(EVENTS, {"collapse": policy}, plugins=plugins)


def test_a_summary_stands_for_what_was_collapsed() -> None:
    stages = header({"mode": "all_but_last", "summary": "first_line"})
    assert [text.partition("] ")[2] for text in stages.summaries.values()] == [
        "line 0",
        "line 1",
        "line 2",
    ]
    first = stages.to_json()["stages"]["HEADER"]["messages"][0]
    assert len(first["summary_sha256"]) == 64
    assert "line 0" not in str(stages.to_json())
    plain = header({"mode": "all_but_last"})
    assert plain.summaries["n0"].startswith("[collapsed user ")
    assert "summary_sha256" not in plain.to_json()["stages"]["HEADER"]["messages"][0]


def test_a_mode_of_ones_own_decides_what_is_collapsed() -> None:
    odd = Plugins(collapsers={"odd": lambda nodes, policy: [n.id for n in nodes if n.turn % 2]})
    stages = header({"mode": "odd"}, odd)
    assert stages.header.collapsed_ids == ("n1", "n3")
    assert stages.spec.to_json()["collapsed_ids"] == []


def test_what_is_pinned_is_not_collapsed_by_any_mode() -> None:
    everything = Plugins(collapsers={"all": lambda nodes, policy: [n.id for n in nodes]})
    events = [{**event, "pinned": event["id"] == "n2"} for event in EVENTS]
    stages = compile_stages(events, {"collapse": {"mode": "all"}}, plugins=everything)
    assert stages.header.collapsed_ids == ("n0", "n1", "n3")


def test_a_summary_of_ones_own() -> None:
    loud = Plugins(summarizers={"loud": lambda node: node.payload["content"][:6].upper()})
    stages = header({"mode": "all_but_last", "summary": "loud"}, loud)
    assert stages.summaries["n1"] == "LINE 1"


@pytest.mark.parametrize(
    "policy", [{"mode": "unheard"}, {"summary": "unheard"}, {"mode": "first_line"}]
)
def test_what_was_not_handed_in_is_refused_also_where_nothing_would_be_collapsed(
    policy: dict[str, Any],
) -> None:
    with pytest.raises(PluginError) as told:
        compile_stages([], {"collapse": policy})
    assert "entry point indexer." in (told.value.hint or "")


def test_one_that_fails_lies_or_changes_its_mind_is_told() -> None:
    count = itertools.count()

    def fails(nodes: Any, policy: Any) -> list[str]:
        raise RuntimeError("told to")

    modes = {
        "fails": fails,
        "lies": lambda nodes, policy: ["n0", "elsewhere"],
        "moves": lambda nodes, policy: [f"n{next(count) % 4}"],
    }
    for mode, error in (
        ("fails", PluginError),
        ("lies", PluginError),
        ("moves", PluginChangesError),
    ):
        with pytest.raises(error, match=mode):
            header({"mode": mode}, Plugins(collapsers=modes))
    for summary in (lambda node: 3, lambda node: "x" * 2001):
        with pytest.raises(PluginError, match="short"):
            header(
                {"mode": "all_but_last", "summary": "short"},
                # What a plug-in gives is anything.
                Plugins(summarizers={"short": summary}),  # type: ignore[dict-item]
            )


def test_they_are_found_by_entry_point(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_policies.py").write_text(
        "def oldest(nodes, policy):\n    return [nodes[0].id]\n\n\n"
        "def short(node):\n    return f'({node.kind})'\n\n\nnumber = 7\n"
    )
    about = tmp_path / "my_policies-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-policies\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[indexer.collapse]\noldest = my_policies:oldest\nnumber = my_policies:number\n"
        "absent = my_policies:absent\n\n[indexer.summaries]\nshort = my_policies:short\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    policy = parse_policy({"collapse": {"mode": "oldest", "summary": "short"}})
    assert custom_names(policy) == {"indexer.collapse": "oldest", "indexer.summaries": "short"}
    stages = compile_stages(EVENTS, policy, plugins=installed_plugins(policy))
    assert stages.summaries == {"n0": "(user)"}
    for mode in ("number", "absent", "nowhere"):
        with pytest.raises(PluginError, match=mode):
            installed_plugins(parse_policy({"collapse": {"mode": mode}}))
