"""Generated frames: `regenerate`, `synthesize`, `invalidate` and `watch --once`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("kept_open")


def test_one_pass_makes_what_is_declared(workspace: Path, merkle: Any) -> None:
    first = merkle("-C", workspace, "watch", "--once", "--json")
    assert first.code == 0
    # Four files and three folders, .gitignore among them.
    assert (first.json["added"], first.json["generated"]) == (7, 7)
    assert (first.json["reused"], first.json["carried"], first.json["failed"]) == (0, 0, [])
    second = merkle("-C", workspace, "watch", "--once", "--json").json
    assert (second["generated"], second["reused"], second["hashed"]) == (0, 0, 0)
    assert "workspace: up to date" in merkle("-C", workspace, "watch", "--once").out


def test_a_plan_makes_nothing(peopled: Path, merkle: Any) -> None:
    (peopled / "src" / "main.py").write_text("def ebb(): pass\n")
    plan = merkle("-C", peopled, "regenerate", "--plan", "--json").json["plan"]
    assert [step["path"] for step in plan] == ["src/main.py", "src", ""]
    assert plan[0].keys() >= {"path", "type", "action", "because", "tokens"}
    text = merkle("-C", peopled, "regenerate", "--plan").out
    assert "workspace: 3 to make" in text
    assert "src/main.py" in text
    assert merkle("-C", peopled, "regenerate", "--json").json["regenerated"] == 3
    assert merkle("-C", peopled, "regenerate", "--plan").out == "workspace: nothing to make\n"


def test_only_the_root_is_recursive_unasked(peopled: Path, merkle: Any) -> None:
    at = ("-C", peopled, "--json", "regenerate")
    (peopled / "src" / "main.py").write_text("def ebb(): pass\n")
    assert merkle(*at, "src").json["regenerated"] == 0
    assert merkle(*at, "src", "--recursive").json["regenerated"] == 2
    for number, name in enumerate((".", "path:", "")):
        (peopled / "src" / "main.py").write_text(f"def ebb{number}(): pass\n")
        assert merkle(*at, name).json["regenerated"] == 3


def test_a_folder_above_stale_frames_is_not_made_and_says_so(peopled: Path, merkle: Any) -> None:
    at = ("-C", peopled)
    for number in range(7):
        (peopled / "src" / f"new{number}.py").write_text(f"def ebb{number}(): pass\n")
    (before,) = merkle(*at, "--json", "get-head", "src", "--type", "outline").json["heads"]
    for more in ([], ["--plan"]):
        ran = merkle(*at, "regenerate", "src", "--type", "outline", *more)
        assert ran.code == 1, more
        assert "  src  frames below it are stale: src/new0.py, src/new1.py, src/new2" in ran.out
        assert ", src/new4.py and 2 more\nhint: --recursive makes" in ran.out
        found = merkle(*at, "--json", "regenerate", "src", "--type", "outline", *more)
        assert found.code == 1
        assert not found.json["unchanged"]
        assert found.json["plan"] == []
        (failed,) = found.json["failed"]
        assert (failed["path"], failed["type"], failed["stale_count"]) == ("src", "outline", 7)
        assert failed["stale"] == [f"src/new{number}.py" for number in range(5)]
        assert failed["reason"] == failed["message"]
    (after,) = merkle(*at, "--json", "get-head", "src", "--type", "outline").json["heads"]
    assert after["frame_id"] == before["frame_id"]
    # Once what is below it has been made, the folder can be made alone.
    for number in range(7):
        assert merkle(*at, "regenerate", f"src/new{number}.py").code == 0
    assert merkle(*at, "--json", "regenerate", "src").json["regenerated"] == 1


def test_a_scope_is_regenerated_here_and_through_a_service(
    anywhere: Path, merkle: Any, kept_open: Any
) -> None:
    at = ("-C", anywhere)
    assert merkle(*at, "regenerate").code == 0
    ran = merkle(*at, "--json", "invalidate", "src", "--type", "outline")
    assert (ran.code, ran.json) == (0, {"invalidated": 4})
    found = merkle(*at, "--json", "synthesize", "src", "--type", "outline").json
    assert found["frame_id"]
    assert {"frame_id", "generated", "reused", "frames"} <= found.keys()
    assert merkle(*at, "regenerate", "src", "--recursive", "--type", "outline").code == 0
    kept_open.close()
    (head,) = merkle(*at, "--json", "get-head", "src").json["heads"]
    assert (head["frame_id"], head["freshness"]) == (found["frame_id"], "fresh")
    chain = merkle(*at, "--json", "explain", "src").json["chain"]
    assert chain
    assert merkle(*at, "explain", "src").out.startswith("src  outline by merkle:summarize")


def test_a_policy_and_who_asks(peopled: Path, merkle: Any) -> None:
    at = ("-C", peopled, "--json", "synthesize", "src", "--type", "outline")
    assert merkle(*at, "--policy", "concatenate", "--agent", "carol").code == 0
    assert merkle(*at, "--agent", "alice").json["error"]["code"] == "agent"
    assert merkle(*at, "--policy", "nonsense").code == 2
    assert merkle("-C", peopled, "synthesize", "README.md", "--type", "outline").code == 2
    assert merkle("-C", peopled, "synthesize", "src", "--type", "No Type").code == 2
    assert merkle("-C", peopled, "synthesize", "src", "--type", "review").code == 0


def test_what_could_not_be_made_is_a_finding(
    peopled: Path, merkle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = {
        "regenerated": 0, "reused": 0, "unchanged": False, "plan": [],
        "failed": [{"path": "a\x1b[31m.py", "reason": "it\x07broke"}],
    }  # fmt: skip
    monkeypatch.setattr(
        "indexer.service.workspace.Workspace.regenerate", lambda *args, **kwargs: failed
    )
    for line in (["regenerate"], ["watch", "--once"], ["regenerate", "--quiet"]):
        ran = merkle("-C", peopled, *line)
        assert ran.code == 1, line
        assert "a\\x1b[31m.py  it\\x07broke" in ran.out
    ran = merkle("-C", peopled, "watch", "--once", "--quiet")
    assert (ran.code, ran.out) == (1, "")
    assert "it\\x07broke" in ran.err
    assert merkle("-C", peopled, "watch", "--once", "--json").json["failed"] == failed["failed"]


def test_a_synthesis_that_lacks_something_is_a_finding(
    peopled: Path, merkle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {
        "frame_id": None, "generated": 0, "reused": 0, "frames": 1,
        "events": [{"action": "failed", "path": "src/a\x1b.py", "type": "outline"}],
        "failed": [{"path": "src/a\x1b.py", "type": "outline", "reason": "it\x07broke"}],
    }  # fmt: skip
    monkeypatch.setattr(
        "indexer.service.workspace.Workspace.synthesize", lambda *args, **kwargs: found
    )
    ran = merkle("-C", peopled, "synthesize", "src", "--type", "outline")
    assert ran.code == 1
    assert "failed (1)\n  src/a\\x1b.py  it\\x07broke" in ran.out


def test_options_of_a_policy_and_an_agent_come_from_the_line(
    peopled: Path, merkle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = ("-C", peopled)
    monkeypatch.setenv("MERKLE_AGENT", "alice")
    for name, text in (("README.md", "a risk"), ("src/main.py", "dull")):
        put = merkle(*at, "put-frame", name, "-", "--type", "review", stdin=text)
        assert put.code == 0, put.err
    monkeypatch.setenv("MERKLE_AGENT", "carol")
    made = [*at, "synthesize", "", "--type", "review", "--policy", "filter"]
    assert merkle(*made, "--option", "match=risk", "--option", "kinds=file").code == 0
    (frame,) = merkle(*at, "--json", "get-node", "", "--type", "review").json["frames"]
    assert "a risk" in frame["content"]
    assert "dull" not in frame["content"]
    assert frame["meta"]["asked_by"] == "carol"
    ran = merkle(*made, "--option", "wrong=1")
    assert ran.code == 2
    assert "filter has no option 'wrong'" in ran.err
    assert "not of the form K=V" in merkle(*made, "--option", "wrong").err
    assert merkle(*at, "invalidate", "src", "--agent", "alice").code == 0
    assert merkle(*at, "regenerate", "--agent", "alice").code == 0
    monkeypatch.setenv("MERKLE_AGENT", "nobody")
    assert "there is no agent 'nobody'" in merkle(*at, "invalidate", "src").err


def test_status_tells_frames_by_type_and_agent(peopled: Path, merkle: Any) -> None:
    out = merkle("-C", peopled, "status").out
    assert "frames     7 fresh\n  outline  7 fresh\n" in out
    assert "merkle:summarize 42.9%" in out
    (peopled / "README.md").write_text("# Other\n")
    out = merkle("-C", peopled, "status").out
    assert "  outline  5 fresh, 2 stale\n" in out
    assert "README.md  outline by merkle:outline, stale (its content changed)" in out
