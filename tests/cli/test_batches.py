"""`-` for NODE: many names on standard input, one result each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("kept_open")

NAMES = "src\nREADME.md\n\nnowhere\n../outside\n./src/main.py"


COMMANDS = {
    name: [name, "-"]
    for name in ("get-node", "list-frames", "get-head", "explain", "invalidate", "regenerate")
}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_name_has_a_result(name: str, peopled: Path, merkle: Any) -> None:
    line = ["-C", peopled, *COMMANDS[name]]
    ran = merkle(*line, "--json", stdin=NAMES)
    assert ran.code == 2
    results = ran.json["results"]
    assert [each["node"] for each in results] == [line for line in NAMES.split("\n") if line]
    errors = {each["node"]: each["error"]["code"] for each in results if "error" in each}
    assert errors == {"nowhere": "unknown_node", "../outside": "bad_path"}
    alone = [part if part != "-" else "src/main.py" for part in line]
    single = merkle(*alone, "--json").json
    assert results[-1].keys() == {"node", *single}

    text = merkle(*line, stdin=NAMES)
    assert text.code == 2
    assert "README.md" in text.out
    assert text.err.count("error: ") == 2
    assert merkle(*line, stdin="src\nREADME.md\n").code == 0
    assert merkle(*line, "--json").json == {"results": []}


@pytest.mark.parametrize("name", COMMANDS)
def test_names_may_end_with_nul(name: str, peopled: Path, merkle: Any) -> None:
    (peopled / "two\nlines").write_text("x")
    assert merkle("-C", peopled, "watch", "--once").code == 0
    given = "src\0two\nlines\0nowhere\0README.md"
    ran = merkle("-C", peopled, *COMMANDS[name], "--json", stdin=given)
    assert ran.code == 2
    results = ran.json["results"]
    assert [each["node"] for each in results] == ["src", "two\nlines", "nowhere", "README.md"]
    assert [("error" in each) for each in results] == [False, False, True, False]
    text = merkle("-C", peopled, *COMMANDS[name], stdin=given)
    assert "two\nlines" not in text.out


def test_json_without_end_is_wrong_use(peopled: Path, merkle: Any, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("[" * 100_000)
    line = ["-C", peopled, "--json", "put-frame", "--lines", tmp_path / "lines"]
    ran = merkle(*line, "--type", "note", "--agent", "alice")
    assert (ran.code, ran.json["error"]["code"]) == (2, "frame_refused")
    line = ["-C", peopled, "--json", "synthesize", "src", "--type", "outline"]
    ran = merkle(*line, "--policy", "filter", "--option", f"match={'[' * 100_000}")
    assert ran.code != 3, ran.json


@pytest.mark.parametrize("node", ["./a\0/b", "./\ud800/b"])
def test_a_line_with_a_name_that_no_file_has_is_wrong_use(
    node: str, peopled: Path, merkle: Any, tmp_path: Path
) -> None:
    (tmp_path / "lines").write_text(json.dumps({"node": node, "content": "x"}))
    line = ["-C", peopled, "--json", "put-frame", "--lines", tmp_path / "lines"]
    ran = merkle(*line, "--type", "note", "--agent", "alice")
    assert (ran.code, ran.json["error"]["code"]) == (2, "bad_path")


def test_folders_are_synthesized_together(peopled: Path, merkle: Any) -> None:
    line = ["-C", peopled, "synthesize", "-", "--type", "outline"]
    ran = merkle(*line, "--json", stdin="src\nnowhere\nREADME.md\nsrc/deep\n")
    assert ran.code == 2
    told = [each.get("error", {}).get("code") for each in ran.json["results"]]
    assert told == [None, "unknown_node", "not_a_folder", None]
    assert merkle(*line, stdin="src\0src/deep\0").code == 0
    assert merkle(*line, "--quiet", stdin="src\n").out == ""


def test_the_worst_of_all_is_the_exit_status(peopled: Path, merkle: Any) -> None:
    (peopled / "README.md").write_text("# Other\n")
    line = ("-C", peopled, "get-node", "-", "--require-fresh")
    assert merkle(*line, stdin="src\n").code == 0
    assert merkle(*line, stdin="README.md\nsrc\n").code == 1
    assert merkle(*line, stdin="nowhere\nREADME.md\n").code == 2


def test_names_of_any_bytes(peopled: Path, process: Any) -> None:
    ran = process("-C", peopled, "--json", "get-head", "-", stdin=b"\xff\nsrc\n")
    assert ran.code == 2
    assert [("error" in each) for each in ran.json["results"]] == [True, False]
    ran = process("-C", peopled, "get-head", "-", stdin=b"\x1b[31m\xff\n")
    assert "\x1b" not in ran.err


def test_a_batch_through_a_service(service: object, scanned: Path, merkle: Any) -> None:
    ran = merkle("-C", scanned, "--json", "get-head", "-", stdin="src\nnowhere\n")
    assert ran.code == 2
    assert ran.json["results"][0]["path"] == "src"
    assert ran.json["results"][1]["error"]["code"] == "unknown_node"


def test_a_file_called_dash_is_reached_by_another_spelling(peopled: Path, merkle: Any) -> None:
    (peopled / "-").write_text("x")
    assert merkle("-C", peopled, "scan").code == 0
    assert merkle("-C", peopled, "--json", "get-node", "./-").json["path"] == "-"
