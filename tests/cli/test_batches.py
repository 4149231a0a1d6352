"""`-` for NODE: many names on standard input, one result each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

NAMES = "src\nREADME.md\n\nnowhere\n../outside\n./src/main.py"


@pytest.mark.parametrize(
    "name", ["get-node", "list-frames", "get-head", "invalidate", "regenerate"]
)
def test_each_name_has_a_result(name: str, peopled: Path, merkle: Any) -> None:
    ran = merkle("-C", peopled, "--json", name, "-", stdin=NAMES)
    assert ran.code == 2
    results = ran.json["results"]
    assert [each["node"] for each in results] == [line for line in NAMES.split("\n") if line]
    errors = {each["node"]: each["error"]["code"] for each in results if "error" in each}
    assert errors == {"nowhere": "unknown_node", "../outside": "bad_path"}
    single = merkle("-C", peopled, "--json", name, "src/main.py").json
    assert results[-1].keys() == {"node", *single}

    text = merkle("-C", peopled, name, "-", stdin=NAMES)
    assert text.code == 2
    assert "README.md" in text.out
    assert text.err.count("error: ") == 2
    assert merkle("-C", peopled, name, "-", stdin="src\nREADME.md\n").code == 0
    assert merkle("-C", peopled, "--json", name, "-").json == {"results": []}


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
